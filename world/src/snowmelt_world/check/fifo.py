"""First in, first out, judged from the outside alone: the history is linearizable as a queue.

It is, when every operation can be given one instant between its call and its return so that a
sequential queue, working in the order of those instants, answers what was answered. Henzinger,
Sezgin and Vafeiadis ("Aspect-oriented linearizability proofs", CONCUR 2013) show that for distinct
values a history fails to be so only through one of four patterns, and each is found by sorting and
sweeping, O(n log n) in all:

- VFresh: a value was got that was never put, or got before its put began.
- VRepet: a value was got twice.
- VOrd: the puts force one order and the gets another (`order.py`).
- VWit: a get found nothing while something was there for certain (`emptiness.py`).

A batch counts as its values one after the other, in their order, within the time of the call; other
calls may come in between. The theorem is for single values; for batches, VOrd and VWit are widened
as `order.py` tells, and the tests compare the verdicts with those of brute force.

Outcomes that are unknown:

- A put: if its value was got, it happened before that get returned. If not, it may not have
  happened, and taking it so allows the most, so it is left out.
- A get: it may not have happened. If the history is legal without it, the history is legal. If
  not, it may have taken values that nobody else got, each at its call or later. When even that
  leaves a violation the history is illegal; when it does not, the verdict is undecided, for what
  the get took is not known.

Distinct values are needed: with equal ones the problem is NP-hard, and the verdict undecided.

A queue that leases delivers a value again when a lease ends, and here that is VRepet. This check is
for histories in which no lease ended.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from snowmelt_world.check.cuts import PASSAGES, VALUES
from snowmelt_world.check.emptiness import Segment, find_covered
from snowmelt_world.check.history import NEVER, Ended, History, Kind, Operation, Value, rows
from snowmelt_world.check.order import ForcedOrder
from snowmelt_world.check.passage import Carried, Named, Passages
from snowmelt_world.check.rules import Rule, judged, put_once
from snowmelt_world.check.verdict import Finding, Invalid, Undecided, Verdict

NAME: Final = "fifo"
_COVER_SHOWN: Final = 3


class Look(msgspec.Struct, frozen=True, gc=False):
    """The get of this number found nothing."""

    number: int
    called: int
    until: int


class Lost(msgspec.Struct, frozen=True):
    """The gets of unknown outcome: how many, and when the first was called."""

    count: int = 0
    first: int = NEVER

    def __add__(self, other: "Lost") -> "Lost":
        return Lost(self.count + other.count, min(self.first, other.first))


class Illegal(msgspec.Struct, frozen=True):
    """No order of the values fits: those that go round, or a get, and what was there meanwhile."""

    ways: tuple[tuple[Named, ...], ...]
    """One round, or of what was there each with those that tell since when."""
    more: int = 0
    get: int | None = None
    doubt: int = 0
    """So many gets of unknown outcome may explain it."""

    @property
    def numbers(self) -> Iterator[int]:
        """Of all operations that show it, the get first."""
        if self.get is not None:
            yield self.get
        for ways in self.ways:
            for one in ways:
                yield from one.numbers


def check_fifo(history: History) -> Verdict:
    """The history is that of a first-in-first-out queue, as far as anyone outside can tell.

    >>> print(check_fifo(History.of([
    ...     Operation("p1", Kind.PUT, ("a",), 1, 2),
    ...     Operation("p1", Kind.PUT, ("b",), 3, 4),
    ...     Operation("p2", Kind.GET, ("b",), 5, 6),
    ... ])))
    fifo: invalid: the puts and the gets force different orders: 'a' after 'b' after 'a'
        p1 put 'a' [1, 2]
        p1 put 'b' [3, 4]
        p2 get 'b' [5, 6]
    """
    return judged(NAME, RULES, history)


def _not_fresh(history: History) -> Invalid | None:
    put = dict(rows(history.attempted(Kind.PUT)))
    for value, get in rows(history.succeeded(Kind.GET)):
        if value not in put:
            return Invalid(NAME, f"{value!r} was got and never put", (get,))
        if get.until < put[value].called:
            return Invalid(NAME, f"{value!r} was got before it was put", (get, put[value]))
    return None


def _repeated(history: History) -> Invalid | None:
    got: dict[Value, Operation] = {}
    for value, get in rows(history.succeeded(Kind.GET)):
        if value in got:
            return Invalid(NAME, f"{value!r} was got twice", (got[value], get))
        got[value] = get
    return None


def _out_of_order(history: History) -> Finding | None:
    gets = [
        (number, get)
        for number, get in enumerate(history)
        if get.kind is Kind.GET and get.ended is Ended.SUCCEEDED
    ]
    puts = (
        (number, put)
        for number, put in enumerate(history)
        if put.kind is Kind.PUT and put.ended is not Ended.FAILED
    )
    passages = Passages.matched(_carried(puts), _carried(gets))
    looks = [Look(number, get.called, get.until) for number, get in gets if not get.values]
    lost = [get.called for get in history.unknown(Kind.GET)]
    found = illegal(passages, looks, Lost(len(lost), min(lost, default=NEVER)))
    return None if found is None else told(found, history.operations.__getitem__)


def _carried(operations: Iterable[tuple[int, Operation]]) -> Carried:
    for number, one in operations:
        for place, value in enumerate(one.values):
            yield value, one, number, place


def illegal(passages: Passages, looks: list[Look], lost: Lost) -> Illegal | None:
    """VOrd and VWit, and whether a get of unknown outcome may be the reason."""
    found = _sweep(passages, looks)
    if found is None or not lost.count:
        return found
    certain = _sweep(passages.taken_from(lost.first), looks)
    return certain or msgspec.structs.replace(found, doubt=lost.count)


def _sweep(passages: Passages, looks: list[Look]) -> Illegal | None:
    order = ForcedOrder(passages)
    cycle = order.cycle()
    if cycle:
        return Illegal((tuple(map(passages.named, cycle)),))
    times = enumerate(zip(order.latest_puts(), passages.got_called, strict=True))
    covered = find_covered((Segment(latest, got, index) for index, (latest, got) in times), looks)
    if covered is None:
        return None
    look, cover = covered
    ways = (map(passages.named, order.because(one.index)) for one in cover[:_COVER_SHOWN])
    return Illegal(tuple(map(tuple, ways)), max(0, len(cover) - _COVER_SHOWN), look.number)


def told(found: Illegal, operation: Callable[[int], Operation]) -> Finding:
    """In words; `operation` gives that of a number."""
    seen = [operation(number) for number in dict.fromkeys(found.numbers)]
    example = tuple(sorted(seen, key=lambda one: one.called))
    if found.doubt:
        gets = "1 get whose outcome is"
        if found.doubt > 1:
            gets = f"{found.doubt} gets whose outcomes are"
        reason = f"it is illegal unless {gets} unknown took what nobody else got"
        return Undecided(NAME, reason, example=example)

    def name(one: Named) -> str:
        return repr(operation(one.put).values[one.place])

    if found.get is None:
        (cycle,) = found.ways
        names = " after ".join(map(name, (*cycle, cycle[0])))
        sentence = f"the puts and the gets force different orders: {names}"
        return Invalid(NAME, sentence, example)
    names = ", then ".join(name(ways[0]) for ways in found.ways)
    more = f", then {found.more} more" if found.more else ""
    sentence = f"a get found nothing, and all the while something was there: {names}{more}"
    get, *others = seen
    return Invalid(NAME, sentence, (get, *sorted(others, key=lambda one: one.called)))


RULES: Final = (
    put_once(NAME),
    Rule(VALUES, _not_fresh),
    Rule(VALUES, _repeated),
    Rule(PASSAGES, _out_of_order),
)
