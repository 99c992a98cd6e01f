"""A queue that a backup becomes, piece by piece: rules 6 to 10 of `backups.py`."""

from typing import Final

import msgspec

from snowmelt.core.interval import Interval, merged, without
from snowmelt.core.keys import KEY_BYTES
from snowmelt.core.names import OperationId
from snowmelt.core.record import UNREADABLE
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.backups import (
    BROKEN,
    KINDS,
    NEVER_RESTORED,
    Lot,
    Restoration,
    Restore,
    Restored,
)
from snowmelt.protocols.queue.api.labels import keys_in
from snowmelt.protocols.queue.api.settings import BODY_BYTES_MAX, PUT_BYTES_MAX
from snowmelt.protocols.queue.leader.part import LeaderPart, Own
from snowmelt.protocols.queue.leader.parted.partition import Partition
from snowmelt.protocols.queue.messages.partition_words import NUMBER_MAX
from snowmelt.protocols.queue.messages.words import ITEMS_MAX, Body, Placed, ReplyTo
from snowmelt.protocols.queue.state.batches import StoredBatch
from snowmelt.protocols.queue.state.blocks import STAGED
from snowmelt.protocols.queue.state.key_names import NO_KEY
from snowmelt.protocols.queue.state.producers import HEAD, NUMBERS
from snowmelt.protocols.queue.state.records import RESTORING, bring_in, find_ready, records
from snowmelt.protocols.queue.state.segments import unstored
from snowmelt.protocols.queue.state.state import QueueState
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS

WAY_OUT: Final = "give another name (--as), or delete it: snowmelt delete"


class Restoring(LeaderPart):
    """Of one queue, in one term."""

    def __init__(self, own: Own, parted: Partition | None) -> None:
        super().__init__(own)
        self._parted = parted

    def hear(self, operation: OperationId, ask: Restore) -> None:
        """A piece comes, once (rule 6)."""
        self._log.owe(ReplyTo(operation, self._took(ask)))

    def _took(self, ask: Restore) -> Restored | Declined:
        state, queue = self._state, self._home.queue
        known = state.restoring
        if known == NEVER_RESTORED:
            if not _is_new(state):
                text = f"queue {queue!r} is there, and was used; {WAY_OUT} {queue}"
                return Declined("QueueExists", text)
            known = Restoration(ask.backup, 0)
        if known.backup != ask.backup:
            text = f"queue {queue!r} is made of another backup; {WAY_OUT} {queue}"
            return Declined("QueueExists", text)
        if known.next == BROKEN:
            return no_room(queue)
        if known.done or known.next != ask.number:
            return Restored(known.next, known.done)
        behind, wrong = known.behind, _problem(ask, state)
        if not wrong:
            behind, wrong = _in_order(ask.lots, known.behind)
        if wrong:
            return Declined("BadOption", f"piece {ask.number} of the backup does not read: {wrong}")
        try:
            for lot in ask.lots:
                self._take_in(lot)
            bring_in(state, ask.records)
            if ask.last:  # rule 8
                find_ready(state)
                wrong = _apart(state)
        except UNREADABLE as error:  # each piece is well, and all of them together are not
            wrong = f"{type(error).__name__} {error}"
        if wrong:
            state.restoring = Restoration(ask.backup, BROKEN)
            state.changed[RESTORING] = None
            return broken(queue, wrong)
        state.restoring = Restoration(ask.backup, ask.number + 1, behind, ask.last)
        state.changed[RESTORING] = None
        if ask.last:
            if self._parted is not None:
                self._parted.opened()
            self._outbox.wake(self._outbox.now)
        return Restored(ask.number + 1, ask.last)

    def _take_in(self, lot: Lot) -> None:
        # Rule 7.
        batch = StoredBatch(lot.start, lot.stop, lot.size, self._home.term)
        where, number, by_key = Interval(lot.start, lot.stop), NO_KEY, self._state.by_key
        if by_key is not None:
            number = by_key.number(where, keys_in(unstored(lot.body, lot.stop).headers))
        self._state.batches.add(batch, number)
        self._log.store(Body(batch.key, lot.body), Placed(where))
        if lot.left:
            for part in reversed(without([where], lot.alive)):
                self._state.batches.end(part)


def no_room(queue: str) -> Declined:
    # Rule 9.
    text = (
        f"there was no room for all of the backup; what came of it goes with: snowmelt delete "
        f"{queue}"
    )
    return Declined("DiskFull", text)


def broken(queue: str, why: str) -> Declined:
    """What came of it is none."""
    text = (
        f"the backup is none of a queue: {why}; what came of it goes with: snowmelt delete {queue}"
    )
    return Declined("BadOption", text)


def closed(state: QueueState, queue: str) -> Declined:
    """Why nobody may use it (rule 6)."""
    known = state.restoring
    how = "" if known.next == BROKEN else f", and has {known.next} pieces of it"
    text = (
        f"queue {queue!r} is being restored from a backup{how}: wait until that is done, run it "
        f"again if it broke off, or give it up: snowmelt delete {queue}"
    )
    return Declined("Unavailable", text)


def _is_new(state: QueueState) -> bool:
    """Whether it never had anything."""
    return not (any(state.tails) or len(state.producers) or len(state.groups) or state.staged.items)


def _in_order(lots: tuple[Lot, ...], behind: int) -> tuple[int, str]:
    """Behind which position the next may be; or what is wrong."""
    for lot in lots:
        if lot.start < behind:
            return behind, f"position {lot.start} comes behind {behind}"
        behind = lot.stop
    return behind, ""


def _problem(ask: Restore, state: QueueState) -> str:
    """What is wrong with it in itself; nothing of it is used before."""
    ranks = state.settings.priorities or 1
    for lot in ask.lots:
        if not 0 < lot.stop - lot.start <= ITEMS_MAX or lot.size > PUT_BYTES_MAX:
            return f"{lot.stop - lot.start} items in {lot.size} bytes"
        first, last = lot.start >> PRIORITY_BITS, (lot.stop - 1) >> PRIORITY_BITS
        if lot.stop > STAGED or first != last or first >= ranks:
            return f"no position is {lot.start}"
        try:
            segment, live = unstored(lot.body, lot.stop), lot.alive
        except (ValueError, msgspec.DecodeError) as error:
            return f"the items from {lot.start} on: {error}"
        if live != merged(live) or not live or live[-1].stop > lot.stop:
            return f"{len(live)} stretches live of the items from {lot.start} on"
        if segment.first != lot.start or len(segment.blob) > BODY_BYTES_MAX:
            return f"the items from {lot.start} on begin at {segment.first}"
    return _of_records(ask, state)


def _apart(state: QueueState) -> str:
    """Why not each item is in one place, below what was given and with its key."""
    live = state.batches.live
    delayed = [part for where, _ in state.delays for part in live.common(where)]
    parts = [*state.ready, *state.dead, *delayed, *state.groups.held(live)]
    if sum([part.size for part in parts]) != live.total:
        return "an item is in two places"
    for part in live:
        if state.tails.never_given(part):
            return f"nothing was put at {part}"
        if state.keyed is not None and len(state.keys.row(part)) != KEY_BYTES * part.size:
            return f"priorities of {part} are missing"
    return ""


def _of_records(ask: Restore, state: QueueState) -> str:
    """They are such as a state tells: read into one, it tells the same.

    What a producer put stands in two records, of which the second lags behind. So these need only
    be read.
    """
    if any(key[:1] not in KINDS for key, _ in ask.records):
        return "it has records that no backup has"
    if not ask.records:
        return ""
    scratch = QueueState(state.settings)
    scratch.changed.clear()
    try:
        bring_in(scratch, ask.records)
        told = {key: value for key, value in records(scratch).items() if key in dict(ask.records)}
    except UNREADABLE as error:
        return f"its records: {type(error).__name__} {error}"
    if max(scratch.tails) > NUMBER_MAX or len(scratch.tails) != len(state.tails):
        return f"positions go up to {max(scratch.tails)} of {len(scratch.tails)} priorities"
    for key, value in ask.records:
        if key not in told or (told[key] != value and key[:1] not in (HEAD, NUMBERS)):
            return f"record {key.hex()} is none of a queue"
    return ""
