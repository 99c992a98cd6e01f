"""Most urgent first, in the strong form, against the order of operations that the product told.

Element A is *smaller* than B when its priority is, or, with the same priority, its position.

1. No element is got, in the order, before it was put.
2. Before a get that returns an element, no smaller one was in the queue: put before it in the
   order, and not got, or got by a later one.
3. A get that found nothing comes at a moment at which nothing was in the queue.

What was got is not in the queue. When it comes back (given back, its lease ended, brought back from
the dead) it is in it again from the order on that a `BACK` tells; where none is told, nobody knows
from when on, and the element may be passed until it is got again, but what it passes is judged.

An element whose put or first get has no order waits at no known time, and may be passed too. So may
those that a get of unknown outcome names, from the order on that it tells, if it tells one, until
they come back: it may have had them. So may the next ones after a get that was *over*, which had
more than it could carry and gave them back by itself. Where such a get has no order, nobody knows
when it had them, only that it was while it lasted: so whoever got something in that time may have
passed them, no more of them than it was over, and whoever asked when it was answered may not. A get
of unknown outcome that names nothing may have had anything, and leaves what could be its doing
undecided.

Operations may have one order, that of a *phase*: what comes in, then what is got, the smallest
first, then the gets that found nothing. So a phase is judged as the set of what it took; what one
of several gets gave back by itself may be any of that set.

One sweep along the order, with a heap of what is in the queue: O(n log n).
"""

from collections import Counter
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final

import msgspec

from snowmelt_world.check.cuts import ALL
from snowmelt_world.check.history import Ended, History, Kind, Operation, Value, rows
from snowmelt_world.check.rules import Rule, judged, put_once
from snowmelt_world.check.verdict import Finding, Invalid, Undecided, Verdict

NAME: Final = "heap"

Key = tuple[int, int]
"""Priority and position: of two elements the smaller is the more urgent."""


class Moment(msgspec.Struct, frozen=True, gc=False):
    """Something that happens to one element in the order, or a get that finds nothing."""

    order: int
    rank: int
    """Of those that have one order: what comes in, what goes out, what finds nothing."""
    operation: Operation
    value: Value | None


class Passing(msgspec.Struct, frozen=True):
    """A get that is not as it should be."""

    smaller: Value | None
    """What was there, and should have been got before; None when it was got before it was put."""
    get: Operation
    verdict: Invalid


def check_heap(history: History) -> Verdict:
    """Most urgent first, and the first of those that are as urgent; nothing only when nothing is.

    >>> print(check_heap(History.of([
    ...     Operation("p1", Kind.PUT, ("a", "b"), 1, 2, priorities=(0, 1), positions=(0, 0),
    ...         orders=(0, 1)),
    ...     Operation("p2", Kind.GET, ("b",), 3, 4, priorities=(1,), positions=(0,), orders=(2,)),
    ... ])))
    heap: invalid: 'b' was got while the smaller 'a' was in the queue
        p1 put 'a' 'b' [1, 2] order 0
        p2 get 'b' [3, 4] order 2
    """
    return judged(NAME, RULES, history)


def _first(history: History) -> Finding | None:
    found = next(passings(history), None)
    if found is None:
        return None
    lost = [one for one in history.unknown(Kind.GET) if not one.values]
    if any(one.called <= found.get.until for one in lost):
        sentence = f"{found.verdict.sentence}, unless a get whose outcome is unknown had it"
        return Undecided(NAME, sentence, example=found.verdict.example)
    return found.verdict


def passings(history: History) -> Iterator[Passing]:
    """All that breaks a rule, for whoever knows what may explain some of it.

    What was passed once is taken for not there from then on, until it comes back. Values are
    distinct.
    """
    puts = dict(rows(history.attempted(Kind.PUT)))
    return _Sweep(history, puts).wrong()


class _Unplaced:
    """Gets without an order that gave back by themselves what nobody heard that they had."""

    def __init__(self, history: History) -> None:
        self._had: list[tuple[Operation, set[Value]]] = [
            (one, set())
            for one in history.succeeded(Kind.GET)
            if one.over and not one.orders
        ]  # fmt: skip

    def may_have(self, value: Value, put: Operation, get: Operation) -> bool:
        """Whether one of them may have had it while this get lasted: that one has it, then."""
        able = [
            (one, had)
            for one, had in self._had
            if one is not get
            and max(one.called, put.called) <= get.until
            and max(get.called, put.called) <= one.until
            and value not in one.values
            and (value in had or len(had) < one.over)
        ]
        if able and not any(value in had for _, had in able):
            able[-1][1].add(value)
        return bool(able)


class _Sweep:
    def __init__(self, history: History, puts: dict[Value, Operation]) -> None:
        self._puts = puts
        self._unplaced = _Unplaced(history)
        self._keys = _keys(history)
        gets = history.attempted(Kind.GET)
        self._exempt = {value for value, get in rows(gets) if not get.orders}
        self._moments = sorted(_moments(history), key=self._when)
        self._inside: dict[Value, Key] = {}
        self._heap: list[tuple[Key, str, Value]] = []
        self._over: Counter[int] = Counter()
        """How many the gets of one order gave back by themselves, and are not known yet."""
        asked: dict[int, set[tuple[str, int]]] = {}
        for get in history:
            if get.kind is Kind.GET and get.orders:
                self._over[get.orders[-1]] += get.over
                asked.setdefault(get.orders[-1], set()).add((get.process, get.called))
        self._shared = {order for order, those in asked.items() if len(those) > 1}

    def wrong(self) -> Iterator[Passing]:
        """Each moment that breaks a rule."""
        order = 0
        for moment in self._moments:
            if moment.order != order:
                self._had(order)
                order = moment.order
            kind, value = moment.operation.kind, moment.value
            if kind is Kind.GET and moment.operation.ended is Ended.UNKNOWN:
                self._inside.pop(value or "", None)
            elif kind is Kind.GET:
                early = self._early(moment)
                if early is not None:
                    yield Passing(None, moment.operation, early)
                yield from self._passing(moment)
            elif value is not None and value not in self._exempt and value in self._keys:
                self._enter(value, self._keys[value])

    def _enter(self, value: Value, key: Key) -> None:
        self._inside[value] = key
        heappush(self._heap, (key, repr(value), value))

    def _when(self, one: Moment) -> tuple[int, int, Key]:
        """Of those that are got in one phase the smallest is got first."""
        key = None if one.value is None else self._keys.get(one.value)
        return one.order, one.rank, key or (0, 0)

    def _early(self, moment: Moment) -> Invalid | None:
        """Rule 1."""
        value, get = moment.value, moment.operation
        put = None if value is None else self._puts.get(value)
        if value is None or put is None or put.ended is not Ended.SUCCEEDED or not put.orders:
            return None
        if put.orders[put.values.index(value)] <= moment.order:  # the same: of the same phase
            return None
        return Invalid(NAME, f"{value!r} was got before it was put, by the order", (put, get))

    def _passing(self, moment: Moment) -> Iterator[Passing]:
        """Rules 2 and 3."""
        value, get = moment.value, moment.operation
        if value is not None:
            self._inside.pop(value, None)
        away: dict[Value, Key] = {}
        while (first := self._first()) is not None:
            least, smaller = first
            if value is None:
                sentence = f"a get found nothing while {smaller!r} was in the queue"
            elif value in self._keys and least < self._keys[value]:
                sentence = f"{value!r} was got while the smaller {smaller!r} was in the queue"
            else:
                break
            del self._inside[smaller]
            if moment.order in self._shared and self._over[moment.order]:
                self._over[moment.order] -= 1
                continue
            if self._unplaced.may_have(smaller, self._puts[smaller], get):
                away[smaller] = least
                continue
            named = [self._puts[one] for one in (smaller, value) if one is not None]
            yield Passing(smaller, get, Invalid(NAME, sentence, (*dict.fromkeys(named), get)))
        for smaller, least in away.items():
            self._enter(smaller, least)

    def _had(self, order: int) -> None:
        """What gets of this order gave back by themselves, and nobody passed: the next ones."""
        for _ in range(self._over.pop(order, 0)):
            first = self._first()
            if first is not None:
                del self._inside[first[1]]

    def _first(self) -> tuple[Key, Value] | None:
        while self._heap:
            least, _, value = self._heap[0]
            if self._inside.get(value) == least:
                return least, value
            heappop(self._heap)
        return None


def _moments(history: History) -> Iterator[Moment]:
    for one in history:
        unknown = one.ended is Ended.UNKNOWN and one.kind is not Kind.GET
        if one.ended is Ended.FAILED or unknown or not one.orders:
            continue
        if one.kind in (Kind.PUT, Kind.GET, Kind.BACK):
            for value, order in zip(one.values, one.orders, strict=False):
                yield Moment(order, int(one.kind is Kind.GET), one, value)
        if one.kind is Kind.GET and not one.values and one.ended is Ended.SUCCEEDED:
            yield Moment(one.orders[0], 2, one, None)


def _keys(history: History) -> dict[Value, Key]:
    """Where each element stands, as its put or its first get told."""
    keys: dict[Value, Key] = {}
    for one in history:
        told = one.priorities and one.positions and one.kind in (Kind.PUT, Kind.GET)
        if told and one.ended is Ended.SUCCEEDED:
            stands = zip(one.values, one.priorities, one.positions, strict=True)
            for value, priority, position in stands:
                keys.setdefault(value, (priority, position))
    return keys


RULES: Final = (put_once(NAME), Rule(ALL, _first))
