"""What clients saw of one queue, and what of it may never be.

Everything is judged from outside: from calls, answers, and the times at which they were made and
said. What can be is judged as it comes, so that a story ends where it went wrong. What looks at a
queue without changing it is judged in `looks.py`, the whole at the end in `positions_end.py`.
What the promise does not cover is forgotten, or left out, and no more than that (`lapses.py`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.interval import Interval
from snowmelt_world.check.history import Ended, Kind, Operation
from snowmelt_world.judge.book import Book
from snowmelt_world.judge.lapses import Lapse, Lapses
from snowmelt_world.judge.looks import Looks
from snowmelt_world.judge.values import FOR_EVER, Came, Given, Lease, LeftGet, Put, Terms, shortest


class Held(Lease, kw_only=True):
    """A lease, whose bodies come later."""

    positions: tuple[int, ...]
    told: Instant
    """When the node said so."""
    back: dict[int, None] = msgspec.field(default_factory=dict)
    """What the consumer asked to take back: from then on anybody may have it."""
    again: dict[int, None] = msgspec.field(default_factory=dict)
    """What was told to have been delivered before."""
    seen: dict[int, str] = msgspec.field(default_factory=dict)
    """Whose bodies came."""
    names: dict[int, str] | None = None
    """What stood at its positions, when positions have come to mean something else since."""
    until: Instant = Instant(0)
    """When the last of them came."""
    group: bool = False
    """Whether a group has it, for good."""
    settled: bool = False
    """Whether a group is past it."""

    def over_without(self, named: tuple[int, ...]) -> bool:
        """Whether other calls than one that named these may have settled all of it."""
        own = dict.fromkeys(named)
        return all(self.named.get(where, 0) > (where in own) for where in self.positions)


class PositionLedger(Book):
    """One queue whose order is told by positions."""

    def __init__(
        self, queue: str, terms: Terms, *, leaps: Sequence[Instant] = (), early: int = 0
    ) -> None:
        super().__init__(queue, terms, leaps=leaps, early=early)
        self.excuses = Lapses(terms, self._lapsed)
        self.looks = Looks(self)
        self.acked: dict[int, Instant] = {}
        self.attempted: dict[int, None] = {}
        """The positions that somebody tried to acknowledge."""
        self.holders: dict[int, list[Held]] = {}
        self.released: Instant | None = None
        self.marks: dict[str, list[tuple[Instant, int]]] = {}
        """With how many items a group was told to be done, and when."""
        self.at: dict[int, str] = {}
        self._position: dict[str, int] = {}
        self.held: list[Held] = []
        self._tokens: dict[int, Held] = {}
        self.lost_gets: list[Operation] = []
        self.left_gets: list[LeftGet] = []
        self.backs: list[Operation] = []
        """What was given back, and is there for anybody from the answer on."""
        self.unclear: dict[int, None] = {}
        """Positions that somebody had who asked before a lapse, and was told after it."""

    @property
    def excused(self) -> Counter[str]:
        """How many calls may have been undone, by the reason."""
        found: Counter[str] = Counter()
        lost = self.excuses.lost_bodies
        for called, returned, puts in self.called:
            lapse = self.excuses.cover(called, returned)
            if lapse is None and puts and lost is not None and lost.covers(called, returned):
                lapse = lost
            if lapse is not None:
                found[lapse.reason] += 1
        return found

    # --- items in ---------------------------------------------------------------------------------

    def put(self, put: Put, where: list[Interval], at: Instant) -> None:
        """It is in the queue, says the queue; a stop of 0 is that nobody knows where."""
        lapse = self.excuses.cover(put.called, at)
        self.is_in(put, at)
        if where[0].stop == 0 or (lapse is not None and lapse.names):
            return
        runs = put.runs
        if [one.size for one in where] != [len(run) for run in runs]:
            text = f"{put.values[0]} got positions {' '.join(map(str, where))}"
            sizes = " and ".join([str(len(run)) for run in runs])
            self.wrong(f"{text}, but is of {sizes} items", put.values[0])
        if lapse is None:
            put.start = where[0].start
            for one, run in zip(where, runs, strict=True):
                for position, value in zip(one, run, strict=True):
                    self._stands(position, value)

    def rank(self, position: int) -> int:
        """Of which priority is what stands there."""
        del position
        return 0

    def place(self, value: str) -> int | None:
        """Where an item stands, as far as it was told."""
        return self._position.get(value)

    def _stands(self, position: int, value: str, lapse: Lapse | None = None) -> None:
        """Put anew after a lapse, an item stands elsewhere; but nothing else where it stood."""
        put = self.by_value[value]
        priority = put.priority(value)
        if not put.keyed and self.rank(position) != priority:
            self.wrong(f"{value} is of priority {priority}, and stands at {position}", value)
        other = self.at.setdefault(position, value)
        if other != value:
            self.wrong(f"position {position} is told of {other} and of {value}", value)
        elsewhere = self._position.setdefault(value, position) if lapse is None else position
        if elsewhere != position:
            self.wrong(f"{value} is at {elsewhere} and at {position}", value)

    # --- items out --------------------------------------------------------------------------------

    def leased(
        self, process: str, called: Instant, given: Given, at: Instant, said: Instant
    ) -> Held | None:
        """A get was answered; None when it brought nothing."""
        self.looks.passing(process, called, given.away)
        if not given.token:
            self.looks.empty(process, called, said)
            return None
        if len(set(given.positions)) != len(given.positions):
            self.wrong(f"lease {given.token} holds a position twice", process)
        longest = self.agreed.longest_lease(called, said)
        lapsed = self.excuses.cover(called, said) is not None
        if given.lease > longest and not lapsed:  # (`agreed.py`, rule 4)
            text = f"lease {given.token} is for {given.lease} ns, and may be for {longest}"
            self.wrong(text, process)
        held = Held(
            process,
            given.token,
            called,
            at,
            later(said, shortest(given.lease)),
            later(called, given.lease),
            positions=given.positions,
            told=said,
            again=given.again,
        )
        self._hold(held)
        return held

    def assigned(self, process: str, called: Instant, given: Given, at: Instant) -> Held:
        """A group was given these, for good."""
        held = Held(
            process,
            given.token,
            called,
            at,
            FOR_EVER,
            FOR_EVER,
            positions=given.positions,
            told=at,
            again=given.again,
            group=True,
        )
        self._hold(held)
        return held

    def _hold(self, held: Held) -> None:
        self.held.append(held)
        lapse = self.excuses.cover(held.called, held.returned)
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
            if other.group and where not in other.back and other.returned < held.called:
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
        return self.leapt(held.called, held.ends)

    def seen(
        self,
        items: Iterable[Came],
        at: Instant,
        held: Held | None = None,
        called: Instant = FOR_EVER,
    ) -> None:
        """Bodies came: of a lease, or only to be looked at."""
        lapse = self.excuses.cover(called if held is None else held.called, at)
        latest = Instant(at + self.slack(at))
        for came in items:
            where, value, put = came.place.position, came.value, self.put_of(came)
            self.not_refused(put, value)
            if lapse is None or not lapse.names:
                self._stands(where, value, lapse)
            if held is None:
                continue
            held.seen[where], held.until = value, at
            if latest < put.due:  # by the fastest clock
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

    def given_back(
        self, held: Held, positions: tuple[int, ...], called: Instant, at: Instant
    ) -> None:
        """These are ready again, it is said; but not if another call may have said so before."""
        if self.excuses.cover(called, at) is not None:
            return
        for where in positions:
            value = self.at.get(where)
            if value is not None and held.named[where] == 1:
                own = held.process, Kind.BACK, (value,), called, at
                self.backs.append(Operation(*own))

    def extended(self, held: Held, called: Instant, lease: Duration) -> None:
        """Its time began anew, not before this."""
        held.ends = max(held.ends, later(called, shortest(lease)))
        held.lasts = max(held.lasts, later(called, lease))

    def lease_lost(self, held: Held, at: Instant, word: tuple[int, ...] = ()) -> None:
        """What was said about these of a lease was refused: the lease must be over, then."""
        if held.over_without(word) or held.ends <= at or self._leapt(held):
            return
        losing = self.excuses.losing
        known = [self.at.get(where) for where in held.positions]
        named = [self.by_value[value] for value in known if value is not None]
        # What nobody was told of is of a batch that may be lost, and stands nowhere else.
        asked = [one for one in self.puts if one.called <= held.told and undone(one, *losing)]
        hidden = [value for one in asked for value in one.values if value not in self._position]
        lost = known.count(None) <= len(hidden) and all(undone(one, *losing) for one in named)
        if losing and lost and not held.seen:
            return  # all that it held may be lost: a lease ends when nothing is left of it
        if self.excuses.cover(held.called, at) is None:
            text = f"lease {held.token} of {held.process} is lost, it says, and it was held"
            self.wrong(text, held.process)

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
        if lapse.names:
            self.agreed.lapsed()
        self.looks.lapsed(lapse)
        puts = [one for one in self.puts if undone(one, lapse)]
        for put in puts:
            put.start = None
        self.acked = {where: at for where, at in self.acked.items() if at < lapse.since}
        for name, marks in self.marks.items():
            self.marks[name] = [(at, mark) for at, mark in marks if at < lapse.since]
        told = [
            one
            for one in self.held
            if lapse.covers(one.called, one.returned) or (one.group and one.settled)
        ]  # what a group was done with it may not be done with now
        for held in told:
            held.back.update(dict.fromkeys(held.positions))
        if lapse.names:
            self._unname(told)
        values = {value for put in puts for value in put.values}
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


def judge_damage(ledger: PositionLedger, held: Held, positions: tuple[int, ...]) -> None:
    """These have failed, since nobody could give them: then a disk must be hurt."""
    if ledger.excuses.any_hurt or ledger.excuses.may_lose:
        return
    for where in positions:
        value = ledger.at.get(where)
        if value is not None and ledger.by_value[value].ended is Ended.SUCCEEDED:
            text = f"position {where} ({value}) failed as no copy could be read; none is hurt"
            ledger.wrong(text, held.process)


def undone(put: Put, *lapses: Lapse) -> bool:
    """Whether it was told within any of these, or was on its way."""
    returned = FOR_EVER if put.returned is None else put.returned
    return any(lapse.covers(put.called, returned) for lapse in lapses)
