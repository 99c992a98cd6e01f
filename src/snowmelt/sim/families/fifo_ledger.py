"""What clients saw of one queue, and what of it may never be.

Everything is judged from outside: from calls, answers, and the times at which they were made and
said. What can be is judged as it comes, so that a story ends where it went wrong. What looks at a
queue without changing it is judged in `fifo_looks.py`, the whole at the end in `fifo_ending.py`.
What the promise does not cover is forgotten, or left out, and no more than that
(`fifo_excuses.py`).
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from snowmelt.check.history import Ended, Kind, Operation
from snowmelt.client.leases import delivered
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.interval import Interval
from snowmelt.protocols.fifo.calls import Leased, Part, PutDone, Span
from snowmelt.protocols.fifo.labels import unpack
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.sim.families.fifo_excuses import FOR_EVER, Excuses, Lapse
from snowmelt.sim.families.fifo_looks import Counts, Looks
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
    sent: bool = False
    """Whether it was sent at all."""
    why: str = ""
    """With which words it was refused for good."""

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(body.decode() for body in self.bodies)

    def undone(self, *lapses: Lapse) -> bool:
        """Whether it was told within any of these, or was on its way."""
        returned = FOR_EVER if self.returned is None else self.returned
        return any(lapse.covers(self.called, returned) for lapse in lapses)


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
    lasts: Instant
    """Until then whoever has it may take it to hold, by what nodes said."""
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
    named: dict[int, int] = {}
    """How many calls asked to take it as done, or back."""
    settled: bool = False
    """Whether a group is past it."""

    def name(self, positions: tuple[int, ...]) -> None:
        """One more call names these."""
        for where in positions:
            self.named[where] = self.named.get(where, 0) + 1

    def over_without(self, named: tuple[int, ...]) -> bool:
        """Whether other calls than one that named these may have settled all of it."""
        own = dict.fromkeys(named)
        return all(self.named.get(where, 0) > (where in own) for where in self.positions)


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
        self.doomed = False
        """Whether anybody said that what failed is not to be delivered again."""
        self.released: Instant | None = None
        self.marks: dict[str, list[tuple[Instant, int]]] = {}
        """With how many items a group was told to be done, and when."""
        self.by_value: dict[str, Asked] = {}
        self._numbers: dict[tuple[str, int], None] = {}
        self.at: dict[int, str] = {}
        self._position: dict[str, int] = {}
        self.held: list[Held] = []
        self._tokens: dict[int, Held] = {}
        self.acks: list[Operation] = []
        self.lost_gets: list[Operation] = []
        self.unclear: dict[int, None] = {}
        """Positions that somebody had who asked before a lapse, and was told after it."""

    def wrong(self, sentence: str, subject: str) -> None:
        raise Broken(f"{self.queue}: {sentence}", subject)

    # --- items in ---------------------------------------------------------------------------------

    def asked(self, batch: Asked) -> None:
        self.batches.append(batch)
        self._numbers[batch.producer, batch.sequence] = None
        for value in batch.values:
            self.by_value[value] = batch

    def has_asked(self, producer: str, sequence: int) -> bool:
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
        """It is not in the queue, says the queue, and never will be.

        Unless it says that it may have been put before: where its number is below what is known.
        """
        if "may have been put before" in why:
            return
        batch.ended, batch.returned, batch.why = Ended.FAILED, at, why

    def _stands(self, position: int, value: str, lapse: Lapse | None = None) -> None:
        """Put anew after a lapse, an item stands elsewhere; but nothing else where it stood."""
        other = self.at.setdefault(position, value)
        if other != value:
            self.wrong(f"position {position} is told of {other} and of {value}", value)
        elsewhere = self._position.setdefault(value, position) if lapse is None else position
        if elsewhere != position:
            self.wrong(f"{value} is at {elsewhere} and at {position}", value)

    # --- items out --------------------------------------------------------------------------------

    def leased(
        self, process: str, called: Instant, answer: Leased, at: Instant, said: Instant
    ) -> Held | None:
        """A get was answered; None when it brought nothing."""
        self.looks.passing(process, called, answer.away)
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
            later(called, answer.lease),
            again=_again(given),
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
            process,
            lease,
            called,
            at,
            positions,
            at,
            FOR_EVER,
            FOR_EVER,
            again=_again(spans),
            group=True,
        )
        self._hold(held)
        return held

    def _hold(self, held: Held) -> None:
        self.held.append(held)
        lapse = self.excuses.cover(held.called, held.answered)
        if lapse is not None and lapse.names:
            held.names = {}
            self.unclear.update(dict.fromkeys(held.positions))
            return
        if lapse is not None:
            held.back.update(dict.fromkeys(held.positions))
        self._judge_token(held)
        for where in held.positions:
            self._judge_again(where, held)
            self.holders.setdefault(where, []).append(held)

    def lost_get(self, process: str, called: Instant) -> None:
        """A get was not answered: what it may have taken comes back, as delivered before."""
        self.lost_gets.append(Operation(process, Kind.GET, (), called, None, Ended.UNKNOWN))

    def _judge_token(self, held: Held) -> None:
        if held.group:
            return
        other = self._tokens.setdefault(held.token, held)
        if other is not held:
            text = f"token {held.token} was given to {other.process} and to {held.process}"
            self.wrong(text, held.process)

    def _judge_again(self, where: int, held: Held) -> None:
        name = f"position {where} ({self.at.get(where, 'not seen yet')})"
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
        self,
        part: delivered.Part,
        at: Instant,
        held: Held | None = None,
        called: Instant = FOR_EVER,
    ) -> None:
        """Bodies came: of a lease, or only to be looked at."""
        lapse = self.excuses.cover(called if held is None else held.called, at)
        latest = Instant(at + at * FASTEST_PPM // 1_000_000 + self.early)
        labels = unpack(part.headers)
        for place, body in enumerate(Batch(part.offsets, part.blob)):
            where, value = part.start + place, bytes(body).decode(errors="replace")
            batch = self.by_value.get(value)
            if batch is None:
                raise Broken(f"{self.queue}: {value!r} at {where} was never put", value[:20])
            if labels.of(place)[1] != unpack(batch.headers).common:
                raise Broken(f"{self.queue}: {value} came with other headers", value)
            if batch.ended is Ended.FAILED:
                self.wrong(f"{value} was refused ({batch.why}), and is in the queue", value)
            if lapse is None or not lapse.names:
                self._stands(where, value, lapse)
            if held is None:
                continue
            held.seen[where], held.until = value, at
            if latest < batch.due:  # by the fastest clock
                self.wrong(f"{value} is delivered before it is due", held.process)

    # --- leases -----------------------------------------------------------------------------------

    def giving_back(self, held: Held, positions: tuple[int, ...]) -> None:
        """From now on these may be with another."""
        held.back.update(dict.fromkeys(positions))
        held.name(positions)

    def acking(self, held: Held, positions: tuple[int, ...]) -> None:
        """From now on these may be acknowledged."""
        held.name(positions)
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
            self.acks.append(Operation(held.process, Kind.ACK, values, called, returned, ended))
        if ended is Ended.SUCCEEDED and self.excuses.cover(called, at) is None:
            for where in done:
                self.acked.setdefault(where, at)

    def extended(self, held: Held, called: Instant) -> None:
        """Its time began anew, not before this."""
        held.ends = max(held.ends, later(called, shortest(self.settings.lease)))
        held.lasts = max(held.lasts, later(called, self.settings.lease))

    def lease_lost(self, held: Held, at: Instant, word: tuple[int, ...] = ()) -> None:
        """What was said about these of a lease was refused: the lease must be over, then."""
        if held.over_without(word) or held.ends <= at or self._leapt(held):
            return
        losing = self.excuses.losing
        known = [self.at.get(where) for where in held.positions]
        named = [self.by_value[value] for value in known if value is not None]
        # What nobody was told of is of a batch that may be lost, and stands nowhere else.
        asked = [one for one in self.batches if one.called <= held.told and one.undone(*losing)]
        hidden = [value for one in asked for value in one.values if value not in self._position]
        lost = known.count(None) <= len(hidden) and all(one.undone(*losing) for one in named)
        if losing and lost and not held.seen:
            return  # all that it held may be lost: a lease ends when nothing is left of it
        if self.excuses.cover(held.called, at) is None:
            text = f"lease {held.token} of {held.process} is lost, it says, and it was held"
            self.wrong(text, held.process)

    def redriving(self, at: Instant) -> None:
        """Dead items, if there can be any, come back as if they had never failed."""
        if self.redriven is None and (self.doomed or self.settings.deliveries_max < 100):
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
        self.looks.lapsed(lapse)
        undone = [one for one in self.batches if one.undone(lapse)]
        for batch in undone:
            batch.start = None
        self.acked = {where: at for where, at in self.acked.items() if at < lapse.since}
        for name, marks in self.marks.items():
            self.marks[name] = [(at, mark) for at, mark in marks if at < lapse.since]
        told = [
            one
            for one in self.held
            if lapse.covers(one.called, one.answered) or (one.group and one.settled)
        ]  # what a group was done with it may not be done with now
        for held in told:
            held.back.update(dict.fromkeys(held.positions))
        if lapse.names:
            self._unname(told)
        values = {value for batch in undone for value in batch.values}
        for value in values:
            self._position.pop(value, None)
        if lapse.names:  # by value: where it stands may be forgotten, by a lapse without names
            self.at = {where: one for where, one in self.at.items() if one not in values}

    def _unname(self, told: list[Held]) -> None:
        """Their positions and tokens may come to mean something else."""
        for held in told:
            if held.names is None:
                held.names = {w: self.at[w] for w in held.positions if w in self.at}
            self._tokens.pop(held.token, None)
        for where, holders in self.holders.items():
            self.holders[where] = [one for one in holders if one.names is None]
        self.holders = {where: left for where, left in self.holders.items() if left}


def judge_damage(ledger: Ledger, held: Held, positions: tuple[int, ...]) -> None:
    """These have failed, since nobody could give them: then a disk must be hurt."""
    if ledger.excuses.any_hurt or ledger.excuses.may_lose:
        return
    for where in positions:
        value = ledger.at.get(where)
        if value is not None and ledger.by_value[value].ended is Ended.SUCCEEDED:
            text = f"position {where} ({value}) failed as no copy could be read; none is hurt"
            ledger.wrong(text, held.process)


def shortest(time: Duration) -> Duration:
    """How soon a time may be over, by the fastest clock."""
    return Duration(time * 1_000_000 // (1_000_000 + FASTEST_PPM))


def places(one: Part | Span) -> Interval:
    return Interval(one.start, one.start + one.count if isinstance(one, Part) else one.stop)


def _again(given: Sequence[Part | Span]) -> dict[int, None]:
    return {where: None for one in given if one.reason for where in places(one)}
