"""What clients saw of one queue, and what of it may never be.

Everything is judged from outside: from calls, answers, and the times at which they were made and
said. Some of it is judged as it comes, so that a story ends where it went wrong; the rest at the
end, by the checkers of `snowmelt.check`. What looks at a queue without changing it is judged in
`fifo_looks.py`. What the promise does not cover is forgotten, or left out, and no more than that
(`fifo_excuses.py`).
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from snowmelt.check.conservation import check_conservation
from snowmelt.check.fifo_leased import check_fifo_leased
from snowmelt.check.history import Ended, History, Kind, Operation
from snowmelt.check.verdict import Undecided, Valid
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.interval import Interval
from snowmelt.protocols.fifo.calls import Leased, Part, PutDone, Span
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.sim.families.fifo_excuses import FOR_EVER, Excuses, Lapse
from snowmelt.sim.families.fifo_looks import Counts, Looks, Stay
from snowmelt.sim.world import Broken

Spans = tuple[Span, ...]
FASTEST_PPM: Final = 40_000
"""How fast a clock may run, by `sim.faults`: a lease may be over so much sooner."""


class Asked(msgspec.Struct):
    """A batch that a producer wants in the queue, under one sequence number."""

    producer: str
    sequence: int
    bodies: tuple[bytes, ...]
    headers: bytes
    due: Instant
    called: Instant
    returned: Instant | None = None
    ended: Ended = Ended.UNKNOWN
    start: int | None = None
    why: str = ""
    """With which words it was refused for good."""

    @property
    def values(self) -> tuple[str, ...]:
        """As they stand in a history."""
        return tuple(body.decode() for body in self.bodies)


class Held(msgspec.Struct):
    """What one answer to a get leased."""

    process: str
    token: int
    called: Instant
    answered: Instant
    positions: tuple[int, ...]
    told: Instant
    """When the node said so."""
    ends: Instant
    """Until then it holds for certain, by the time told and the fastest clock."""
    back: dict[int, None] = {}
    """What the consumer asked to take back: from then on anybody may have it."""
    again: dict[int, None] = {}
    """What was told to have been delivered before."""
    seen: dict[int, str] = {}
    """Whose bodies came."""
    names: dict[int, str] | None = None
    """What stood at its positions, when positions have come to mean something else since."""
    until: Instant = Instant(0)
    """When the last of them came."""
    group: bool = False
    """Whether a group has it, for good."""
    settled: bool = False
    """Whether something was asked that may have ended it."""


class Ledger:
    """One queue, as its clients know it."""

    def __init__(
        self,
        queue: str,
        settings: QueueSettings,
        *,
        leaps: Sequence[Instant] = (),
        early: int = 0,
    ) -> None:
        self.queue = queue
        self.settings = settings
        self.drained: Instant | None = None
        self.leaps = leaps
        """When steady clocks leap: leases of that time may be over sooner."""
        self.early = early
        """So much ahead of the world's date a node may be."""
        self.excuses = Excuses(settings, self._lapsed)
        self.counts = Counts(self.excuses)
        self.looks = Looks(self)
        self.batches: list[Asked] = []
        self.acked: dict[int, Instant] = {}
        self.attempted: dict[int, None] = {}
        """The positions that somebody tried to acknowledge."""
        self.holders: dict[int, list[Held]] = {}
        self.redriven: Instant | None = None
        self.released: Instant | None = None
        self.marks: dict[str, list[tuple[Instant, int]]] = {}
        """With how many items a group was told to be done, and when."""
        self._asked: dict[str, Asked] = {}
        self._numbers: dict[tuple[str, int], None] = {}
        self._at: dict[int, str] = {}
        self._position: dict[str, int] = {}
        self._held: list[Held] = []
        self._tokens: dict[int, Held] = {}
        self._acks: list[Operation] = []
        self._lost_gets: list[Operation] = []
        self._unclear: dict[int, None] = {}
        """Positions that somebody had who asked before a lapse, and was told after it."""

    def wrong(self, sentence: str, subject: str) -> None:
        """Something that the promise excludes."""
        raise Broken(f"{self.queue}: {sentence}", subject)

    # --- items in ---------------------------------------------------------------------------------

    def asked(self, batch: Asked) -> None:
        """A producer begins to put."""
        self.batches.append(batch)
        self._numbers[batch.producer, batch.sequence] = None
        for value in batch.values:
            self._asked[value] = batch

    def has_asked(self, producer: str, sequence: int) -> bool:
        """Whether this number was used."""
        return (producer, sequence) in self._numbers

    def put(self, batch: Asked, done: PutDone, at: Instant) -> None:
        """It is in the queue, says the queue."""
        lapse = self.excuses.cover(batch.called, at)
        if batch.ended is not Ended.SUCCEEDED:
            batch.ended, batch.returned = Ended.SUCCEEDED, at
        if done.stop == 0 or (lapse is not None and lapse.names):
            return
        if done.stop - done.start != len(batch.bodies):
            text = f"{batch.values[0]} got positions {done.start} to {done.stop}"
            raise Broken(f"{text}, but is of {len(batch.bodies)} items", batch.values[0])
        if lapse is None:
            batch.start = done.start
            for place, value in enumerate(batch.values):
                self._stands(done.start + place, value)

    def refused(self, batch: Asked, why: str, at: Instant) -> None:
        """It is not in the queue, says the queue, and never will be."""
        batch.ended, batch.returned, batch.why = Ended.FAILED, at, why

    def _stands(self, position: int, value: str) -> None:
        other = self._at.setdefault(position, value)
        if other != value:
            self.wrong(f"position {position} is told of {other} and of {value}", value)
        elsewhere = self._position.setdefault(value, position)
        if elsewhere != position:
            self.wrong(f"{value} is at {elsewhere} and at {position}", value)

    # --- items out --------------------------------------------------------------------------------

    def leased(
        self, process: str, called: Instant, answer: Leased, at: Instant, said: Instant
    ) -> Held | None:
        """A get was answered; None when it brought nothing."""
        if not answer.token:
            self.looks.empty(process, called, said)
            return None
        given: list[Part | Span] = sorted((*answer.parts, *answer.spans), key=lambda one: one.start)
        ends = later(said, shortest(answer.lease))
        held = Held(
            process,
            answer.token,
            called,
            at,
            tuple(where for one in given for where in places(one)),
            said,
            ends,
            {},
            _again(given),
            {},
        )
        if len(set(held.positions)) != len(held.positions):
            self.wrong(f"lease {answer.token} holds a position twice", process)
        self._hold(held)
        return held

    def assigned(
        self, process: str, lease: int, called: Instant, spans: Spans, at: Instant
    ) -> Held:
        """A group was given these, for good."""
        positions = tuple(where for one in spans for where in places(one))
        held = Held(
            process, lease, called, at, positions, at, FOR_EVER, {}, _again(spans), {}, group=True
        )
        self._hold(held)
        return held

    def _hold(self, held: Held) -> None:
        self._held.append(held)
        lapse = self.excuses.cover(held.called, held.answered)
        if lapse is not None and lapse.names:
            held.names = {}
            self._unclear.update(dict.fromkeys(held.positions))
            return
        if lapse is not None:
            held.back.update(dict.fromkeys(held.positions))
        self._judge_token(held)
        for where in held.positions:
            self._judge_again(where, held)
            self.holders.setdefault(where, []).append(held)

    def lost_get(self, process: str, called: Instant) -> None:
        """A get was not answered: what it may have taken comes back, as delivered before."""
        self._lost_gets.append(Operation(process, Kind.GET, (), called, None, Ended.UNKNOWN))

    def _judge_token(self, held: Held) -> None:
        if held.group:
            return
        other = self._tokens.setdefault(held.token, held)
        if other is not held:
            text = f"token {held.token} was given to {other.process} and to {held.process}"
            self.wrong(text, held.process)

    def _judge_again(self, where: int, held: Held) -> None:
        name = f"position {where} ({self._at.get(where, 'not seen yet')})"
        acked = self.acked.get(where)
        if acked is not None and acked < held.called:
            self.wrong(f"{name} was acknowledged, and is delivered again", held.process)
        for other in self.holders.get(where, ()):
            if other.group and where not in other.back and other.answered < held.called:
                self.wrong(f"{name} is {other.process}'s, and is delivered", held.process)
            if other.group or held.group:
                continue
            first, second = sorted((other, held), key=lambda one: (one.told, one.token))
            if where in first.back or self._leapt(first):
                continue
            if second.told < first.ends:
                text = f"{name} is leased to {first.process} under {first.token} and to"
                self.wrong(f"{text} {second.process} under {second.token}", held.process)

    def _leapt(self, held: Held) -> bool:
        """Whether a clock leapt while this was held; or just before, unnoticed by a timer."""
        return any(held.called <= one <= held.ends for one in self.leaps)

    def seen(
        self, part: Part, at: Instant, held: Held | None = None, called: Instant = FOR_EVER
    ) -> None:
        """Bodies came: of a lease, or only to be looked at."""
        lapse = self.excuses.cover(called if held is None else held.called, at)
        latest = Instant(at + at * FASTEST_PPM // 1_000_000 + self.early)
        for place, body in enumerate(Batch(part.offsets, part.blob)):
            where, value = part.start + place, bytes(body).decode(errors="replace")
            batch = self._asked.get(value)
            if batch is None:
                raise Broken(f"{self.queue}: {value!r} at {where} was never put", value[:20])
            if part.headers != batch.headers:
                raise Broken(f"{self.queue}: {value} came with other headers", value)
            if batch.ended is Ended.FAILED:
                self.wrong(f"{value} was refused ({batch.why}), and is in the queue", value)
            if lapse is None:
                self._stands(where, value)
            if held is None:
                continue
            held.seen[where], held.until = value, at
            if latest < batch.due:  # by the fastest clock
                self.wrong(f"{value} is delivered before it is due", held.process)

    # --- leases -----------------------------------------------------------------------------------

    def giving_back(self, held: Held, positions: tuple[int, ...]) -> None:
        """From now on these may be with another."""
        held.back.update(dict.fromkeys(positions))

    def acking(self, held: Held, positions: tuple[int, ...]) -> None:
        """From now on these may be acknowledged."""
        if held.names is None:
            self.attempted.update(dict.fromkeys(positions))

    def settled(
        self, held: Held, done: tuple[int, ...], called: Instant, at: Instant, ended: Ended
    ) -> None:
        """What a consumer said of a lease was taken, or refused, or who knows."""
        held.settled = True
        values = tuple(held.seen[where] for where in done)
        returned = at if ended is Ended.SUCCEEDED else None
        if values:
            self._acks.append(Operation(held.process, Kind.ACK, values, called, returned, ended))
        if ended is Ended.SUCCEEDED and self.excuses.cover(called, at) is None:
            for where in done:
                self.acked.setdefault(where, at)

    def extended(self, held: Held, called: Instant) -> None:
        """Its time began anew, not before this."""
        held.ends = max(held.ends, later(called, shortest(self.settings.lease)))

    def lease_lost(self, held: Held, at: Instant) -> None:
        """What was said about a lease was refused: the lease must be over, then."""
        if held.settled or held.ends <= at or self._leapt(held):
            return
        if self.excuses.cover(held.called, at) is None:
            text = f"lease {held.token} of {held.process} is lost, it says, and it was held"
            self.wrong(text, held.process)

    def redriving(self, at: Instant) -> None:
        """Dead items, if there can be any, come back as if they had never failed."""
        if self.redriven is None and self.settings.deliveries_max < 100:
            self.redriven = at

    def releasing(self, at: Instant) -> None:
        """What a group held comes back as if it had never been given."""
        if self.released is None:
            self.released = at

    # --- what is excused --------------------------------------------------------------------------

    def lapsed_since(self, instant: Instant) -> bool:
        """Whether what was told at this instant or later may have been undone."""
        return any(instant <= lapse.until for lapse in self.excuses.lapses)

    def _lapsed(self, lapse: Lapse) -> None:
        """What was told within a lapse is known no more."""
        undone = [one for one in self.batches if self._undone(one, lapse)]
        for batch in undone:
            batch.start = None
        self.acked = {where: at for where, at in self.acked.items() if at < lapse.since}
        told = [
            one
            for one in self._held
            if lapse.covers(one.called, one.answered) or (one.group and one.settled)
        ]  # what a group was done with it may not be done with now
        for held in told:
            held.back.update(dict.fromkeys(held.positions))
        if lapse.names:
            self._unname(told)
        for batch in undone:
            for value in batch.values:
                where = self._position.pop(value, -1)
                if lapse.names:
                    self._at.pop(where, None)

    def _unname(self, told: list[Held]) -> None:
        """Their positions and tokens may come to mean something else."""
        for held in told:
            if held.names is None:
                held.names = {w: self._at[w] for w in held.positions if w in self._at}
            self._tokens.pop(held.token, None)
        for where, holders in self.holders.items():
            self.holders[where] = [one for one in holders if one.names is None]
        self.holders = {where: left for where, left in self.holders.items() if left}

    def _undone(self, batch: Asked, lapse: Lapse) -> bool:
        return lapse.covers(batch.called, FOR_EVER if batch.returned is None else batch.returned)

    # --- at the end -------------------------------------------------------------------------------

    def judge(self) -> None:
        """The whole history, by those who judge any history."""
        if any(lapse.until == FOR_EVER for lapse in self.excuses.lapses):
            return
        self.looks.judge(self._stays())
        for verdict in (check_conservation(self._totals()), check_fifo_leased(self._order())):
            undecided = isinstance(verdict, Undecided) and self.drained is None
            if not undecided and not isinstance(verdict, Valid):
                raise Broken(f"{self.queue}: {verdict}", self.queue)

    def _totals(self) -> History:
        gets = [
            Operation(one.process, Kind.GET, tuple(one.seen.values()), one.called, one.until)
            for one in self._held
            if one.seen
        ]
        drain = (
            []
            if self.drained is None
            else [Operation("steward", Kind.DRAIN, (), self.drained, self.drained)]
        )
        puts = [
            _put(one, Ended.UNKNOWN if self._may_be_lost(one) else one.ended)
            for one in self.batches
        ]
        acks = [
            one
            if one.returned is None
            or self.excuses.cover(Instant(one.called), Instant(one.returned)) is None
            else replace(one, returned=None, ended=Ended.UNKNOWN)
            for one in self._acks
        ]
        return History.of([*puts, *gets, *acks, *drain])

    def _may_be_lost(self, batch: Asked) -> bool:
        """Whether it was told, or on its way, when what is told may be lost."""
        if batch.ended is Ended.FAILED:
            return False
        lapses = [*self.excuses.lapses]
        if self.excuses.lost_bodies is not None:
            lapses.append(self.excuses.lost_bodies)
        return any(self._undone(batch, lapse) for lapse in lapses)

    def _named(self, held: Held, where: int) -> str | None:
        if held.names is None:
            return self._at.get(where)
        return held.names.get(where) or held.seen.get(where)

    def _order(self) -> History:
        """Leases as gets, seen or not; what was there before, or was delayed, named as such."""
        puts, gets = [], []
        for batch in self.batches:
            unknown = batch.due > batch.called or self._may_be_lost(batch)
            puts.append(_put(batch, Ended.UNKNOWN if unknown else batch.ended))
        for one in self._held:
            named = (self._named(one, where) for where in one.positions)
            values = tuple(value for value in named if value is not None)
            gets.append(Operation(one.process, Kind.GET, values, one.called, one.answered))
        before = tuple(
            self._at[where]
            for where, holders in self.holders.items()
            if where in self._at and self._was_there_before(where, holders)
        )
        before += tuple(self._at[where] for where in self._unclear if where in self._at)
        if before:
            gets.append(Operation("unknown", Kind.GET, before, 0, None, Ended.UNKNOWN))
        lost = self._lost_gets if self.drained is None else []  # else all of it has come back
        return History.of([*puts, *gets, *lost])

    def _was_there_before(self, where: int, holders: list[Held]) -> bool:
        """Whether there was a delivery before those that were seen."""
        first = min(holders, key=lambda one: one.told)
        brought_back = self.redriven is not None and first.answered >= self.redriven
        given_back = self.released is not None and first.answered >= self.released
        return where in first.again or brought_back or given_back

    def _stays(self) -> list[Stay]:
        """From when to when items were there for certain, for anybody to have."""
        stays: list[Stay] = []
        for where, holders in self.holders.items():
            value = self._at.get(where)
            if value is None or self._was_there_before(where, holders) or where in self._unclear:
                continue
            batch = self._asked[value]
            told = batch.ended is Ended.SUCCEEDED and batch.returned is not None
            if not told or batch.due or self._may_be_lost(batch):
                continue
            assert batch.returned is not None
            first = min(one.called for one in holders)
            if batch.returned < first and self.excuses.cover(batch.called, first) is None:
                stays.append(Stay(where, value, batch.returned, first))
        return stays


def shortest(time: Duration) -> Duration:
    """How soon a time may be over, by the fastest clock."""
    return Duration(time * 1_000_000 // (1_000_000 + FASTEST_PPM))


def places(one: Part | Span) -> Interval:
    """Its positions."""
    return Interval(one.start, one.start + one.count if isinstance(one, Part) else one.stop)


def _again(given: Sequence[Part | Span]) -> dict[int, None]:
    return {where: None for one in given if one.failures for where in places(one)}


def _put(batch: Asked, ended: Ended) -> Operation:
    returned = None if ended is Ended.UNKNOWN else batch.returned
    start = None if ended is Ended.UNKNOWN else batch.start
    return Operation(batch.producer, Kind.PUT, batch.values, batch.called, returned, ended, start)
