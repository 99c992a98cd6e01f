"""What clients saw of one queue, and what of it may never be.

Everything is judged from outside: from calls, answers, and the times at which they were made. Some
of it is judged as it comes, so that a story ends where it went wrong; the rest at the end, by the
checkers of `snowmelt.check`.

What the promise does not cover is left out, and no more than that (`fifo_excuses.py`).
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from snowmelt.check.conservation import check_conservation
from snowmelt.check.fifo_leased import check_fifo_leased
from snowmelt.check.history import Ended, History, Kind, Operation
from snowmelt.check.verdict import Undecided, Valid
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant
from snowmelt.core.interval import Interval
from snowmelt.protocols.fifo.calls import Leased, Part, PutDone, QueueStatus, Span
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.sim.families.fifo_excuses import FOR_EVER, Excuses
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
    since: Instant
    """Before this the lease's time can't have begun."""
    back: dict[int, None] = {}
    """What the consumer asked to take back: from then on anybody may have it."""
    again: dict[int, None] = {}
    """What was told to have been delivered before."""
    seen: dict[int, str] = {}
    """Whose bodies came."""
    until: Instant = Instant(0)
    """When the last of them came."""
    group: bool = False
    """Whether a group has it, for good."""


class Ledger:
    """One queue, as its clients know it."""

    def __init__(self, queue: str, settings: QueueSettings, *, clocks_leap: bool) -> None:
        self.queue = queue
        self.settings = settings
        self.drained: Instant | None = None
        self.clocks_leap = clocks_leap
        self.excuses = Excuses(settings)
        self._asked: dict[str, Asked] = {}
        self._batches: list[Asked] = []
        self._at: dict[int, str] = {}
        self._position: dict[str, int] = {}
        self._held: list[Held] = []
        self._holders: dict[int, list[Held]] = {}
        self._acked: dict[int, Instant] = {}
        self._acks: list[Operation] = []
        self._redriven: Instant | None = None
        self._lost_gets: list[Operation] = []

    def wrong(self, sentence: str, subject: str) -> None:
        """Something that the promise excludes, as long as it stands."""
        if not self.excuses.journal_may_go_back:
            raise Broken(f"{self.queue}: {sentence}", subject)

    # --- items in ---------------------------------------------------------------------------------

    def asked(self, batch: Asked) -> None:
        """A producer begins to put."""
        self._batches.append(batch)
        for value in batch.values:
            self._asked[value] = batch

    def put(self, batch: Asked, done: PutDone, at: Instant) -> None:
        """It is in the queue, says the queue."""
        if batch.ended is not Ended.SUCCEEDED:
            batch.ended, batch.returned = Ended.SUCCEEDED, at
        if done.stop == 0:
            return
        if done.stop - done.start != len(batch.bodies):
            text = f"{batch.values[0]} got positions {done.start} to {done.stop}"
            raise Broken(f"{text}, but is of {len(batch.bodies)} items", batch.values[0])
        if not self.excuses.journal_may_go_back:
            batch.start = done.start
        for place, value in enumerate(batch.values):
            self._stands(done.start + place, value)

    def _stands(self, position: int, value: str) -> None:
        other = self._at.setdefault(position, value)
        if other != value:
            self.wrong(f"position {position} is told of {other} and of {value}", value)
        elsewhere = self._position.setdefault(value, position)
        if elsewhere != position:
            self.wrong(f"{value} is at {elsewhere} and at {position}", value)

    # --- items out --------------------------------------------------------------------------------

    def leased(self, process: str, called: Instant, answer: Leased, at: Instant) -> Held | None:
        """A get was answered; None when it brought nothing."""
        if not answer.token:
            return None
        given: list[Part | Span] = sorted((*answer.parts, *answer.spans), key=lambda one: one.start)
        again: dict[int, None] = {}
        for one in given:
            if one.failures:
                again.update(dict.fromkeys(_positions(one)))
        positions = tuple(where for one in given for where in _positions(one))
        held = Held(process, answer.token, called, at, positions, called, {}, again, {})
        if len(set(positions)) != len(positions):
            self.wrong(f"lease {answer.token} holds a position twice", process)
        self._hold(held)
        return held

    def assigned(
        self, process: str, lease: int, called: Instant, spans: Spans, at: Instant
    ) -> Held:
        """A group was given these, for good."""
        positions = tuple(where for one in spans for where in _positions(one))
        again: dict[int, None] = {}
        for one in spans:
            if one.failures:
                again.update(dict.fromkeys(_positions(one)))
        held = Held(process, lease, called, at, positions, called, {}, again, {}, group=True)
        self._hold(held)
        return held

    def _hold(self, held: Held) -> None:
        for where in held.positions:
            self._judge_again(where, held)
            self._holders.setdefault(where, []).append(held)
        self._held.append(held)

    def lost_get(self, process: str, called: Instant) -> None:
        """A get was not answered: what it may have taken comes back, as delivered before."""
        self._lost_gets.append(Operation(process, Kind.GET, (), called, None, Ended.UNKNOWN))

    def _judge_again(self, where: int, held: Held) -> None:
        name = f"position {where} ({self._at.get(where, 'not seen yet')})"
        acked = self._acked.get(where)
        if acked is not None and acked < held.called:
            self.wrong(f"{name} was acknowledged, and is delivered again", held.process)
        for other in self._holders.get(where, ()):
            if other.group and where not in other.back and other.answered < held.called:
                self.wrong(f"{name} is {other.process}'s, and is delivered", held.process)
            if self.clocks_leap or other.group or held.group:
                continue
            first, second = sorted((other, held), key=lambda one: one.token)
            if first is second or where in first.back:
                continue
            shortest = self.settings.lease * 1_000_000 // (1_000_000 + FASTEST_PPM)
            if second.answered < first.since + shortest:
                text = f"{name} is leased to {first.process} under {first.token} and to"
                self.wrong(f"{text} {second.process} under {second.token}", held.process)

    def seen(self, part: Part, at: Instant, held: Held | None = None) -> None:
        """Bodies came: of a lease, or only to be looked at."""
        for place, body in enumerate(Batch(part.offsets, part.blob)):
            where, value = part.start + place, bytes(body).decode(errors="replace")
            batch = self._asked.get(value)
            if batch is None:
                raise Broken(f"{self.queue}: {value!r} at {where} was never put", value[:20])
            if part.headers != batch.headers:
                raise Broken(f"{self.queue}: {value} came with other headers", value)
            self._stands(where, value)
            if held is not None:
                held.seen[where], held.until = value, at
                latest = held.answered + held.answered * FASTEST_PPM // 1_000_000
                if not self.clocks_leap and latest < batch.due:  # by the fastest clock
                    self.wrong(f"{value} is delivered before it is due", held.process)

    # --- leases -----------------------------------------------------------------------------------

    def giving_back(self, held: Held, positions: tuple[int, ...]) -> None:
        """From now on these may be with another."""
        held.back.update(dict.fromkeys(positions))

    def settled(
        self, held: Held, done: tuple[int, ...], called: Instant, at: Instant, ended: Ended
    ) -> None:
        """What a consumer said of a lease was taken, or refused, or who knows."""
        values = tuple(held.seen[where] for where in done)
        returned = at if ended is Ended.SUCCEEDED else None
        if values:
            self._acks.append(Operation(held.process, Kind.ACK, values, called, returned, ended))
        if ended is Ended.SUCCEEDED:
            for where in done:
                self._acked.setdefault(where, at)

    def extended(self, held: Held, called: Instant) -> None:
        """Its time began anew, not before this."""
        held.since = called

    def redriving(self, at: Instant) -> None:
        """Dead items, if there can be any, come back as if they had never failed."""
        if self._redriven is None and self.settings.deliveries_max < 100:
            self._redriven = at

    # --- the queue as a whole ---------------------------------------------------------------------

    def described(self, status: QueueStatus, *, redriven: bool) -> None:
        """The bounds are kept at every moment; only what comes back from the dead is no put."""
        settings, held = self.settings, status.ready + status.delayed + status.leased
        if settings.items_max and held > settings.items_max and not redriven:
            self.wrong(f"{held} items are in it, and {settings.items_max} may be", status.master)
        if settings.bytes_max and status.bytes > settings.bytes_max:
            text = f"{status.bytes} bytes are in it, and {settings.bytes_max} may be"
            self.wrong(text, status.master)
        if status.lost and not self.excuses.bodies_may_be_lost:
            self.wrong(f"{status.lost} items are lost, it says", status.master)

    # --- at the end -------------------------------------------------------------------------------

    def judge(self) -> None:
        """The whole history, by those who judge any history."""
        verdicts = [] if self.excuses.journal_may_go_back else [check_fifo_leased(self._order())]
        if not self.excuses.bodies_may_be_lost:
            verdicts.append(check_conservation(self._totals()))
        for verdict in verdicts:
            undecided = isinstance(verdict, Undecided) and self.drained is None
            if not undecided and not isinstance(verdict, Valid):
                raise Broken(f"{self.queue}: {verdict}", self.queue)

    def _totals(self) -> History:
        gets = [
            Operation(
                one.process,
                Kind.GET,
                tuple(one.seen.values()),
                one.called,
                one.until,
            )
            for one in self._held
            if one.seen
        ]
        drain = (
            []
            if self.drained is None
            else [Operation("steward", Kind.DRAIN, (), self.drained, self.drained)]
        )
        puts = [
            _put(batch, Ended.UNKNOWN if self._lapsed(batch) else batch.ended)
            for batch in self._batches
        ]
        acks = self._acks
        if self.excuses.journal_may_go_back:  # the journal may not know them any more
            acks = [replace(one, returned=None, ended=Ended.UNKNOWN) for one in acks]
        return History.of([*puts, *gets, *acks, *drain])

    def _lapsed(self, batch: Asked) -> bool:
        """Whether it was told, or on its way, when what is told may be lost."""
        returned = FOR_EVER if batch.returned is None else batch.returned
        return self.excuses.cover(batch.called, returned)

    def _order(self) -> History:
        """Leases as gets, seen or not; what was there before, or was delayed, named as such."""
        puts, gets = [], []
        for batch in self._batches:
            delayed = batch.due > batch.called
            puts.append(_put(batch, Ended.UNKNOWN if delayed else batch.ended))
        for one in self._held:
            values = tuple(self._at[where] for where in one.positions if where in self._at)
            gets.append(Operation(one.process, Kind.GET, values, one.called, one.answered))
        before = tuple(
            self._at[where]
            for where, holders in self._holders.items()
            if where in self._at and self._was_there_before(where, holders)
        )
        if self.excuses.bodies_may_be_lost:  # what is lost waits for ever
            came = {value for get in gets for value in get.values}
            before += tuple(value for value in self._asked if value not in came)
        if before:
            gets.append(Operation("unknown", Kind.GET, before, 0, None, Ended.UNKNOWN))
        lost = self._lost_gets if self.drained is None else []  # else all of it has come back
        return History.of([*puts, *gets, *lost])

    def _was_there_before(self, where: int, holders: list[Held]) -> bool:
        """Whether there was a delivery before those that were seen."""
        first = min(holders, key=lambda one: one.token)
        brought_back = self._redriven is not None and first.answered >= self._redriven
        return where in first.again or brought_back


def _positions(one: Part | Span) -> Interval:
    return Interval(one.start, one.start + one.count if isinstance(one, Part) else one.stop)


def _put(batch: Asked, ended: Ended) -> Operation:
    returned = None if ended is Ended.UNKNOWN else batch.returned
    process = f"{batch.producer}"
    return Operation(process, Kind.PUT, batch.values, batch.called, returned, ended, batch.start)
