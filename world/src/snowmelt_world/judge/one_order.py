"""One order over several partitions, judged exactly: by positions, and by who could see what.

1. Who puts after another put was answered has later numbers.
2. What a get is given stands before all that was ready all the while: put, or given back, and
   answered before the get was asked, and asked for by nobody who was given it before the get was
   answered. "Nothing" says that there was no such item.
3. What was acknowledged does not come again, and nobody is given what another holds.
4. What comes for the first time comes in the order of its numbers, unless it was for later.
   It comes when a door answers with it: what is leased, and not answered with, came to nobody.
5. In a life without faults no get waits for what is ready.
6. In a life without faults, what a get that was left had is ready when it is told that it has left,
   and it is given nothing after that.

A get whose answer nobody heard may hold anything for the time of a lease: that is excused. So may
one that was left, or whose client's connection closed, in a life with faults: what it had goes back
without a word, and comes for the first time, as it seems.
So is what was leased by a node that ended before it said so.
"""

from itertools import pairwise
from typing import Final, NoReturn

import msgspec

from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt_world.world import Broken

Rank = tuple[int, int]
"""A key, or a priority, and a number: smaller is earlier."""
NEVER: Final = Instant(1 << 62)
SLACK: Final = milliseconds(200)
"""So much a node's wall clock, and its tick, may be off where an item is put for later."""
AGAIN_WITHIN: Final = seconds(30)
"""So long after its time a lease may last that another leader began anew."""


class Item(msgspec.Struct):
    value: str
    part: int
    asked: Instant
    told: Instant = NEVER
    rank: Rank = (0, 0)
    due: Duration = Duration(0)
    acked: Instant = NEVER
    """When it was told that it is done."""


NOTHING: Final = Item("", 0, NEVER, rank=(0, -1))


class Back(msgspec.Struct, frozen=True):
    """What was given was given back."""

    asked: Instant
    told: Instant
    due: Duration = Duration(0)


class Held(msgspec.Struct):
    """What one lease says of an item, however often that is told."""

    until: Instant
    """It is held so long, for certain."""
    asked_back: Instant = NEVER
    """When it was said that it is done, or goes back."""
    settled: Back | None = None
    """That it went back."""
    said: Instant = NEVER
    """When a door answered with it first, be it heard or not."""
    dropped: bool = False
    """Whether a door said that nobody waits for its get."""


class Got(msgspec.Struct):
    """A get, and what became of it."""

    who: str
    asked: Instant
    told: Instant = NEVER
    """When its answer was said."""
    heard: bool = False
    """Whether it was: what is said to somebody who was answered before may be that it had some."""
    over: Instant = NEVER
    """When nobody waited for it any more, where there was none."""
    asked_back: Instant = NEVER
    """When its client said that it leaves."""
    left: Instant = NEVER
    """When its client was told that it has left, and holds nothing."""
    away: tuple[int, ...] = ()
    again: bool = False
    """Whether what it was given had been leased before."""
    failures: int = 0
    """How often that was in vain, at least."""
    before: str = ""
    held: dict[str, Held] = {}
    """By values."""

    @property
    def values(self) -> tuple[str, ...]:
        """What it was given."""
        return tuple(self.held)


class OneOrder:
    """What clients of one queue asked and were told."""

    def __init__(
        self, queue: str, lease: Duration, vain: Duration | None, slack: Duration = SLACK
    ) -> None:
        self.queue = queue
        self.items: dict[str, Item] = {}
        self.gets: list[Got] = []
        self.leases: dict[str, list[Got]] = {}
        """By values, the gets for which a partition leased it, told when it did: in their order."""
        self.held_for = Duration(lease + AGAIN_WITHIN)
        """So long at most nobody gets what is held in vain."""
        self._slack = slack
        self._vain = vain
        """In a life without faults: so long nobody waits for what is ready (rule 5)."""
        self.faulty = vain is None
        self.unseen: list[tuple[Instant, Instant]] = []
        """From when to when some may have held what nobody saw, and gave it back."""
        self._seen: tuple[str, str] | None = None
        self.excused: dict[str, int] = {}

    @property
    def calls(self) -> int:
        return len(self.gets) + len(self.items)

    def excuse(self, why: str) -> None:
        self.excused[why] = self.excused.get(why, 0) + 1

    def wrong(self, sentence: str, subject: str) -> NoReturn:
        raise Broken(f"{self.queue}: {sentence}", subject)

    def saw(self, sentence: str, subject: str) -> None:
        """Something wrong was seen inside a machine's turn: it is told at the end."""
        self._seen = self._seen or (sentence, subject)

    # --- all of it --------------------------------------------------------------------------------

    def judge(self) -> None:
        """Raises `Broken`."""
        if self._seen is not None:
            self.wrong(*self._seen)
        self._numbers()
        for value, some in self.leases.items():
            self._once(self.items[value], some)
            for got in some:
                if got.left < got.told and not self.faulty:
                    self.wrong(f"{value} was given to {got.who}, which had left", value)
        self._first_times()
        ready = [(one, span) for one in self.items.values() for span in self._ready(one)]
        gets = self.gets
        unsure = [(got.asked, self._unheard(got)) for got in gets if got.told == NEVER]
        unsure += self.unseen
        for got in gets:
            if got.told < NEVER and (got.heard or got.values):
                self._in_order(got, ready, unsure)

    def _unheard(self, got: Got) -> Instant:
        """Until when it may hold something (rule 6)."""
        if got.left < NEVER and not self.faulty:
            return got.left
        over = got.asked if got.over == NEVER else got.over
        return later(over, self.held_for)

    def _numbers(self) -> None:
        """Rule 1."""
        known: dict[Rank, str] = {}
        for one in self.items.values():
            other = one.value if one.told == NEVER else known.setdefault(one.rank, one.value)
            if other != one.value:
                self.wrong(f"{one.value} and {other} have the same number", one.value)
        told = sorted((one for one in self.items.values() if one.told < NEVER), key=_told)
        asked = sorted(told, key=_asked)
        latest, at = -1, 0
        subject = ""
        for one in asked:
            while told[at].told < one.asked:
                if told[at].rank[1] > latest:
                    latest, subject = told[at].rank[1], told[at].value
                at += 1
            if one.rank[1] < latest:
                self.wrong(
                    f"{one.value} has number {one.rank[1]}; {subject}, which was put and answered "
                    f"before it was asked, has {latest}",
                    one.value,
                )

    def _once(self, item: Item, some: list[Got]) -> None:
        """Rule 3; these are in the order of their answers."""
        if item.told == NEVER:
            item.told = min(item.told, some[0].told)
        for before, got in pairwise(some):
            value = item.value
            end = min(before.held[value].until, before.held[value].asked_back)
            if self.faulty and before.held[value].dropped and before.held[value].said == NEVER:
                continue  # it may have gone back without a word: nobody was told of it
            if before.told < got.told < end:
                self.wrong(
                    f"{value} was given to {got.who} at {got.told}; {before.who} holds it to {end}",
                    value,
                )
        last = some[-1]
        if last.told > item.acked:
            self.wrong(f"{item.value} was given to {last.who} after it was done", item.value)

    def _first_times(self) -> None:
        """Rule 4: of one priority, or key, nothing has a smaller number than what came before."""
        rows: dict[int, list[tuple[Got, Item]]] = {}
        parts = sorted({item.part for item in self.items.values()})
        for value, some in self.leases.items():
            item = self.items[value]
            if not item.due and not some[0].again:
                rows.setdefault(item.rank[0], []).append((some[0], item))
        for row in rows.values():
            asked = sorted(row, key=_when_asked)
            told = sorted(row, key=_when_said)
            last, at = dict.fromkeys(parts, NOTHING), 0
            for got, item in asked:
                while _when_said(told[at]) < got.asked:
                    before, other = told[at]
                    for part in parts:
                        if part not in before.away and last[part].rank[1] < other.rank[1]:
                            last[part] = other
                    at += 1
                latest = last[item.part]
                if item.rank[1] < latest.rank[1]:
                    if any(begin < got.told and end > item.asked for begin, end in self.unseen):
                        self.excuse("a get was left")
                        continue
                    self.wrong(
                        f"{item.value} at {item.rank} came first when it was asked for at "
                        f"{got.asked}, and {latest.value} at {latest.rank} before it",
                        item.value,
                    )

    # --- the order --------------------------------------------------------------------------------

    def _ready(self, item: Item) -> list[tuple[Instant, Instant]]:
        """When it was ready for certain."""
        spans: list[tuple[Instant, Instant]] = []
        since = item.told
        if item.due and since < NEVER:
            since = later(since, Duration(item.due + self._slack))
        for before, got in enumerate(self.leases.get(item.value, ())):
            if got.failures > before or (got.again and not before):
                self.excuse("a lease was told to nobody, not even a door")
            elif since < got.asked:
                spans.append((since, got.asked))
            begin = max(since, got.asked)
            if self._vain is not None and got.told - begin > self._vain:
                text = f"{got.who} waited from {begin} to {got.told} while {item.value} was ready"
                self.wrong(text, item.value)
            back = got.held[item.value].settled
            since = NEVER
            if back is not None:
                since = back.told
                if back.due:
                    since = later(since, Duration(back.due + self._slack))
        if since < NEVER and item.acked == NEVER:
            spans.append((since, NEVER))
        return spans

    def _in_order(
        self,
        got: Got,
        ready: list[tuple[Item, tuple[Instant, Instant]]],
        unsure: list[tuple[Instant, Instant]],
    ) -> None:
        """Rules 2 and 5."""
        ranks = [self.items[value].rank for value in got.values]
        last = max(ranks) if ranks else None
        if got.before and last is None:
            return
        for item, (since, until) in ready:
            if item.part in got.away or (last is not None and item.rank > last):
                continue
            if item.value in got.values:
                continue
            if since <= got.asked and until >= got.told:
                if any(begin <= got.told and end >= since for begin, end in unsure):
                    self.excuse("a get was not answered")
                    continue
                what = f"was given what stands at {last}" if ranks else "was told that nothing is"
                self.wrong(
                    f"{got.who} {what}, asked at {got.asked}, answered at {got.told}; {item.value} "
                    f"in partition {item.part} at {item.rank} was ready from {since} to {until}",
                    item.value,
                )
            if self._vain is not None:
                begin, end = max(since, got.asked), min(until, got.told)
                if end - begin > self._vain:
                    self.wrong(
                        f"{got.who} waited from {begin} to {end} while {item.value} was ready",
                        item.value,
                    )


def _when_asked(pair: tuple[Got, Item]) -> Instant:
    return pair[0].asked


def _when_said(pair: tuple[Got, Item]) -> Instant:
    return pair[0].held[pair[1].value].said


def _told(item: Item) -> Instant:
    return item.told


def _asked(item: Item) -> Instant:
    return item.asked
