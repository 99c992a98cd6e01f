"""The life of one item, read from the steps of the log that its leader has at hand.

1. Nothing is written down for it. A leader keeps the last steps for followers that lack some
   (`copy.py`), and so does each follower: whoever leads next has them too. Of a queue with one copy
   they are kept from the first such question on. A node that began anew has none.
2. A step says what became of records, and two records in turn what happened between them. So what
   is told is what these steps show; an event of which a step shows only one side is told with what
   is known of it.
3. Steps have no times. Of a step one knows the moments between which it was made: a put writes down
   when it came, and a leader notes now and then how far it is.
4. Of what was before the first of these steps, the state still tells some: when the item was put,
   and by whom, if that is one of the last puts of its producer.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice
from typing import Final

import msgspec

from snowmelt.core.instant import SECOND
from snowmelt.core.interval import Interval
from snowmelt.core.names import OperationId
from snowmelt.core.spans import stepped
from snowmelt.protocols.queue.api.statuses import ItemStatus, TracedItem, TraceEvent, TraceKind
from snowmelt.protocols.queue.messages.words import Append
from snowmelt.protocols.queue.state.batches import lives_in
from snowmelt.protocols.queue.state.endings import ended_in
from snowmelt.protocols.queue.state.failures import Failure
from snowmelt.protocols.queue.state.groups import GroupState
from snowmelt.protocols.queue.state.producers import heard_at, put_by
from snowmelt.protocols.queue.state.put_times import SHARE
from snowmelt.protocols.queue.state.records import LeaseRecord, StatusRecord
from snowmelt.protocols.queue.state.state import QueueState
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS
from snowmelt.protocols.queue.store.copy import Copy

EVENTS_MAX: Final = 1_000
STEPS_MAX: Final = 2_000
"""So many steps are looked through: it takes some microseconds for each."""
PRODUCERS_MAX: Final = 1_000
"""With more of them it is not looked who put an item long ago."""
_FAILURE: Final = msgspec.msgpack.Decoder(tuple[int, Failure]).decode
_DUE: Final = msgspec.msgpack.Decoder(tuple[int, int]).decode
_LEASE: Final = msgspec.msgpack.Decoder(LeaseRecord).decode
_STATUS: Final = msgspec.msgpack.Decoder(StatusRecord).decode
_GROUP: Final = msgspec.msgpack.Decoder(GroupState).decode
_ENDER: Final = msgspec.msgpack.Decoder(OperationId).decode
_MARK: Final = msgspec.msgpack.Decoder(int).decode


def traced(
    copy: Copy, state: QueueState, status: ItemStatus, position: int, wall: int, *, names: bool
) -> TracedItem:
    """What is known of an item; without `names` not who did it."""
    steps = _last(copy)
    walk = _Walk(position, state.settings.lease / SECOND, lives=position in state.batches.live)
    if steps and copy.traced is not None and copy.traced[0] == steps[0].after.step:
        walk.status = _STATUS(copy.traced[1])
    for step in steps:
        walk.take(step)
    since = steps[0].after.step if steps else copy.head.step
    times = _Times(steps, copy.moments, wall)
    events = walk.events
    if not events or events[0].kind is not TraceKind.PUT:
        events = [*_put_before(state, status, position), *events]
    told = events[-EVENTS_MAX:]
    for event in told:
        if event.step:
            event.after, event.before = times.of(event.step)
        if not names and event.kind is not TraceKind.GIVEN:
            event.who = ""
    if not names:
        status.client = ""
    left_out = len(events) - len(told)
    return TracedItem(status, tuple(told), since, times.of(since)[1], copy.head.step, left_out)


def _last(copy: Copy) -> list[Append]:
    """The last steps; none where a leader without followers kept none."""
    steps = list(islice(reversed(copy.recent), STEPS_MAX))[::-1]
    return steps if steps and steps[-1].head == copy.head else []


def _put_before(state: QueueState, status: ItemStatus, position: int) -> list[TraceEvent]:
    # Rule 4.
    who, number = state.producers.who_put(position, PRODUCERS_MAX) or ("", 0)
    if not status.put_at and not who:
        return []
    after = status.put_at
    before = after and after + 2 * SECOND + max(0, state.times.due[0] - after) // SHARE
    found = list(state.batches.over(Interval(position, position + 1)))
    term = found[0][0].term if found else 0
    return [TraceEvent(TraceKind.PUT, term, after=after, before=before, who=who, number=number)]


class _Times:
    """Between which moments steps were made (rule 3)."""

    def __init__(
        self, steps: Sequence[Append], moments: Sequence[tuple[int, int]], now: int
    ) -> None:
        self._steps = steps
        self._moments = moments
        self._now = now

    def of(self, step: int) -> tuple[int, int]:
        """Not before, and not behind; 0 where nothing says so."""
        at = bisect_left(self._steps, step, key=_number)
        written = _wall(self._steps[at]) if at < len(self._steps) else 0
        if written and self._steps[at].head.step == step:
            return written, written
        later = [wall for number, wall in self._moments if number >= step]
        earlier = [wall for number, wall in self._moments if number < step]
        before = min([_first(self._steps[at:]) or self._now, *later[:1]])
        after = max([_first(self._steps[:at][::-1]), *earlier[-1:]])
        return min(after, before), before


def _number(step: Append) -> int:
    return step.head.step


def _first(steps: Sequence[Append]) -> int:
    """The moment that the first of these says which says one; else 0."""
    return next(filter(None, map(_wall, steps)), 0)


def _wall(step: Append) -> int:
    """When a step was made, if a put in it says so; else 0."""
    for key, value in step.records:
        if value is not None and key[:1] == b"t":
            return _MARK(value)
        if value is not None and key[:1] == b"p":
            return heard_at(value)
    return 0


class _Seen(msgspec.Struct):
    """What one step says of the item."""

    lives: bool | None = None
    """None where it says nothing."""
    erased: bool = False
    """Whether a record was erased that may have been the one that says so."""
    bundled: bool = False
    """Whether it ended in just this step, with others."""
    failed: Failure | None = None
    cleared: bool = False
    """Whether the record of its failures is there no more."""
    due: int = 0
    status: StatusRecord | None = None
    leases: dict[int, LeaseRecord | None] = {}
    groups: dict[str, bool] = {}
    enders: dict[int, OperationId] = {}

    @property
    def idle(self) -> bool:
        """Whether it can't be of this item."""
        told = self.lives is not None or self.erased or self.cleared or self.failed is not None
        return not (told or self.leases or self.groups)


class _Walk:
    """Goes through steps, the earliest first."""

    def __init__(self, position: int, usual: float, *, lives: bool) -> None:
        self.events: list[TraceEvent] = []
        self._position = position
        self._alive = lives
        """Whether it lives now."""
        self._usual = usual
        """For how many seconds items are leased where a lease does not say so."""
        self._lives: bool | None = None
        self._block = b""
        """The record that says whether it lives."""
        self._pieces: dict[bytes, None] = {}
        """That of its failures."""
        self._failure: Failure | None = None
        self._token = 0
        self._client = ""
        self._length = 0.0
        self._group = ""
        self.status: StatusRecord | None = None
        """What was counted by the step before."""
        self._step: Append | None = None

    def take(self, step: Append) -> None:
        """One more step."""
        self._step = step
        if self._lives is False:
            return
        seen = self._seen(step)
        if not seen.idle:
            self._put(seen)
            self._freed(seen)
            self._taken(seen)
        if seen.lives is not None:
            self._lives = seen.lives
        self.status = seen.status or self.status

    # --- what a step says -------------------------------------------------------------------------

    def _seen(self, step: Append) -> _Seen:
        seen, position = _Seen(), self._position
        for key, value in step.records:
            kind, rest = key[:1], key[1:]
            if kind == b"b":
                self._of_block(seen, key, value)
            elif kind == b"d" and value is not None:
                if ended_in(value, position):
                    seen.lives, seen.bundled = False, True
            elif kind == b"l":
                seen.leases[int.from_bytes(rest)] = None if value is None else _LEASE(value)
            elif kind == b"s" and value is not None:
                seen.status = _STATUS(value)
            elif kind == b"e" and value is not None:
                seen.enders[int.from_bytes(rest)] = _ENDER(value)
            elif kind == b"g":
                held = () if value is None else _GROUP(value).held
                seen.groups[rest.decode()] = any(position in one for one in held)
            elif kind == b"z" and value is not None:
                stop, due = _DUE(value)
                if int.from_bytes(rest) <= position < stop:
                    seen.due = due
            elif kind == b"y":
                self._of_failure(seen, key, value)
        if seen.failed is not None:
            seen.cleared = False
        return seen

    def _of_block(self, seen: _Seen, key: bytes, value: bytes | None) -> None:
        if value is None:
            if key == self._block:
                seen.lives = False
            seen.erased |= not self._block and int.from_bytes(key[1:]) <= self._position
            return
        if self._block not in (b"", key):  # an item stays in the block that it came into
            return
        lives = lives_in(key, value, self._position)
        if lives is not None:
            self._block = key
            if seen.lives is None:
                seen.lives = lives

    def _of_failure(self, seen: _Seen, key: bytes, value: bytes | None) -> None:
        stop, failure = (0, None) if value is None else _FAILURE(value)
        if int.from_bytes(key[1:]) <= self._position < stop:
            self._pieces = {key: None}
            seen.failed = failure
        elif key in self._pieces:
            seen.cleared = True

    # --- what happened ----------------------------------------------------------------------------

    def _add(self, kind: TraceKind, **more: object) -> None:
        assert self._step is not None
        head = self._step.head
        self.events.append(TraceEvent(kind, head.term, head.step, **more))  # type: ignore[arg-type]

    def _put(self, seen: _Seen) -> None:
        """Whether it is above all that was given before."""
        known, position = self.status, self._position
        if not seen.lives or self._lives or self._step is None or known is None:
            return
        rank, place = position >> PRIORITY_BITS, position & ((1 << PRIORITY_BITS) - 1)
        tails = [known.tail] if isinstance(known.tail, int) else known.tail
        if place < (tails[rank] if rank < len(tails) else 0):
            return
        who = number = None
        for key, value in self._step.records:
            if key[:1] == b"p" and value is not None:
                number = put_by(value, position)
                if number is not None:
                    who = key[1:].decode()
                    break
        self._add(TraceKind.PUT, who=who or "", number=number or 0, due=seen.due)

    def _freed(self, seen: _Seen) -> None:
        """What became of it where it was."""
        gone = seen.lives is False
        given_up = self._token in seen.leases and not self._holds(seen.leases[self._token])
        moved = self._token and given_up and self._alone(seen, self._token) is not None
        if self._token and (given_up or gone) and not moved:
            self._left_lease(seen, gone=gone)
        elif self._group and (gone or not seen.groups.get(self._group, True)):
            kind = TraceKind.ACKNOWLEDGED if gone else TraceKind.RELEASED
            self._add(kind, who=self._group)
            self._group = ""
        elif gone and (self._lives or seen.bundled):
            self._add(self._end(seen))
        elif seen.cleared and self._failure is not None and self._failure.dead:
            self._add(TraceKind.BROUGHT_BACK)
        if seen.cleared:
            self._failure = None
        elif seen.failed is not None:
            if seen.failed.dead and not (self._failure and self._failure.dead):
                self._add(TraceKind.DIED, times=seen.failed.times, reason=seen.failed.reason)
            self._failure = seen.failed

    def _left_lease(self, seen: _Seen, *, gone: bool) -> None:
        who, number = self._client, self._token
        self._token, self._client = 0, ""
        if gone or (seen.lives is None and seen.erased and not self._alive):
            self._lives = False
            self._add(self._end(seen), who=who, number=number)
            return
        if ender := seen.enders.get(number):
            who = ender.client
        failed, before = seen.failed, self._failure
        if failed is not None and failed != before:
            times, reason = failed.times, failed.reason
            told = {"times": times, "reason": reason, "due": seen.due}
            self._add(TraceKind.FAILED, who=who, number=number, **told)
        else:
            self._add(TraceKind.RELEASED, who=who, number=number, due=seen.due)

    def _end(self, seen: _Seen) -> TraceKind:
        """How it ended, where all that ended in this step did so in one way."""
        now, was = seen.status, self.status
        if now is None or was is None:
            return TraceKind.ENDED
        ends = {
            TraceKind.ACKNOWLEDGED: now.done - was.done,
            TraceKind.REMOVED: now.counts.purged - was.counts.purged,
            TraceKind.AGED: now.counts.aged - was.counts.aged,
            TraceKind.LOST: now.lost - was.lost,
        }
        found = [kind for kind, count in ends.items() if count > 0]
        return found[0] if len(found) == 1 else TraceKind.ENDED

    def _taken(self, seen: _Seen) -> None:
        """Who has it from now on."""
        for token, lease in seen.leases.items():
            if lease is None or not self._holds(lease):
                continue
            length = lease.length / SECOND or self._usual
            told = {"who": lease.operation.client, "number": token, "length": length}
            if token != self._token:
                kind = TraceKind.EXTENDED if self._token else TraceKind.LEASED
                self._add(kind, **told)
                self._token, self._client = token, lease.operation.client
            elif self._length not in (0.0, length):
                self._add(TraceKind.EXTENDED, **told)
            self._length = length
            return
        for name, holds in seen.groups.items():
            if holds and name != self._group:
                self._add(TraceKind.GIVEN, who=name)
                self._group = name

    def _alone(self, seen: _Seen, token: int) -> int | None:
        """The lease that some of this one is by itself from now on, if the item is in that."""
        for own, lease in seen.leases.items():
            if lease is not None and lease.of and self._holds(lease) and own != token:
                return own
        return None

    def _holds(self, lease: LeaseRecord | None) -> bool:
        return lease is not None and any(self._position in one for one in stepped(lease.left))
