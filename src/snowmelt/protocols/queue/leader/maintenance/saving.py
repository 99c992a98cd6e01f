"""Backups that are read from a leader: rules 1 to 5 of `backups.py`."""

from typing import Final

import msgspec

from snowmelt.core.instant import Duration, later, seconds
from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.backups import Lot, Save, Saved
from snowmelt.protocols.queue.api.places import Span
from snowmelt.protocols.queue.leader.spans import SPREAD_STREAM, Spans
from snowmelt.protocols.queue.messages.words import ReadBodies, SaveOwed
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.state.batches import StoredBatch
from snowmelt.protocols.queue.state.segments import Segment, stored
from snowmelt.protocols.queue.state.state import STATUS
from snowmelt.protocols.queue.store.bodies import Bodies
from snowmelt.protocols.queue.store.snapshot import Snapshot

READ_WITHIN: Final = seconds(60)
AT_ONCE: Final = 4
"""So many of one queue."""
GIVES_WAY: Final = seconds(10)
"""Who has asked for nothing in this time gives way to a new one."""


class Saving:
    """Of one queue, in one term."""

    def __init__(self, outbox: Outbox, hand: Bodies, spans: Spans) -> None:
        self._outbox = outbox
        self._hand = hand
        self._spans = spans
        self._followers = spans.followers
        self._read = spans.followers.backups

    def hear(self, operation: OperationId, ask: Save) -> Saved | Declined | None:
        """Somebody asks for a piece; what is told at once, if anything."""
        settings = self._followers.home.asked_for
        if ask.over:
            self._end(ask.backup)
        elif ask.number == 0:
            return self._begun(ask)
        backup = self._read.get(ask.backup)
        if backup is None or not backup.number <= ask.number <= backup.number + 1:
            return Saved(settings, gone=True)
        if ask.number > backup.number:
            backup.turn()
        backup.until = later(self._outbox.now, READ_WITHIN)
        owed = SaveOwed(operation, ask.backup, *backup.piece)
        hand, absent = dict[int, Segment](), list[StoredBatch]()
        for batch, _ in owed.batches:
            segment = self._hand.of(ask.queue, batch)
            if segment is not None:
                hand[batch.start + batch.shift] = segment
            elif not batch.spread:
                absent.append(batch)
        self._outbox.inside.append(ReadBodies(ask.queue, tuple(absent), owed, hand))
        return None

    def _begun(self, ask: Save) -> Saved | Declined:
        # Rule 1.
        state, home = self._spans.state, self._followers.home
        if ask.backup not in self._read and len(self._read) >= AT_ONCE:
            until, longest = min([(one.until, number) for number, one in self._read.items()])
            if until > later(self._outbox.now, Duration(READ_WITHIN - GIVES_WAY)):
                text = f"{AT_ONCE} backups of queue {ask.queue!r} are read now; wait for one"
                return Declined("Unavailable", text)
            self._end(longest)
        until = later(self._outbox.now, READ_WITHIN)
        self._read[ask.backup] = Snapshot(self._followers.copy, until)
        self._outbox.wake(until)
        return Saved(home.asked_for, state.batches.live.total, state.batches.bytes)

    def piece(self, owed: SaveOwed, hand: dict[int, Segment]) -> Saved:
        """What was read of it."""
        settings, backup = self._followers.home.asked_for, self._read.get(owed.backup)
        if backup is None:
            return Saved(settings, gone=True)
        lots, elsewhere, lost = list[Lot](), list[tuple[Lot, Span]](), 0
        for batch, left in owed.batches:
            lot = Lot(batch.start, batch.stop, batch.size, left)
            segment = hand.get(batch.start + batch.shift)
            if segment is not None:
                body = stored(msgspec.structs.replace(segment, first=batch.start))
                lots.append(msgspec.structs.replace(lot, body=body))
            elif batch.spread:
                elsewhere.append((lot, self._span(backup, batch)))
            else:
                lost += batch.stop - batch.start
        told = tuple(lots), tuple(elsewhere), owed.records, lost
        return Saved(settings, 0, 0, *told, last=owed.last)

    def _span(self, backup: Snapshot, batch: StoredBatch) -> Span:
        place = batch.place.start
        lies = self._spans.state.spread.held.get(place) or backup.lies(place)
        keepers, away = self._spans.here(lies.nodes, lies.nodes)
        name = f"{SPREAD_STREAM}{place:x}/{batch.term}"
        return Span(batch.start, batch.stop, name, place, keepers, away=away)

    def _end(self, number: int) -> None:
        """What was kept for it may be erased, with a step of its own if need be (rule 2)."""
        if self._read.pop(number, None) is not None:
            self._spans.state.changed[STATUS] = None

    def tick(self) -> None:
        """Nobody reads some any more, perhaps."""
        for number, one in list(self._read.items()):
            if one.until <= self._outbox.now:
                self._outbox.note(f"{self._followers.home.queue}: a backup was given up")
                self._end(number)
            else:
                self._outbox.wake(one.until)
