"""First in, first out where items are leased: what never came back keeps its order.

A queue that leases hands an item out again, at its own place, when its lease ended or it was given
back; between the two, later items pass it, rightly. What the queue does promise of every item is
this, up to its first delivery; and again from the answer of who gave it back (`BACK`) up to the
next one:

1. A put that was answered before another was called has the earlier positions, and no position is
   told twice. (`position` of a put is where its first value stands.)
2. An item that waits is handed out before every later one: when A is before B in the queue, and
   A's put was answered before a get was called that took B, then A is taken by that get, ahead of
   B, or was taken before. So it is wrong that this get returned before the first get of A was
   called, and that one get holds B ahead of A.

A is before B when its priority is smaller, if they have any. Of one priority A is before B when the
positions told say so; when A's put was answered before B's was called; and
when one put carried both, A first. B may be there for the first time or again. A get of unknown
outcome names the values that it may have taken, if that came to light (such an item is told to have
been delivered before). Those values, as A, are exempt: nobody knows when they first went. A get of
unknown outcome that names nothing may have taken anything, and leaves the verdict undecided.

What one call puts under several priorities is several operations here, one for each.

An item put with a delay does not wait from the answer on: note its put as of unknown outcome.

Each rule is a sort and a sweep from the back, which keeps the get that returned first: O(n log n).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from snowmelt_world.check.cuts import ALL
from snowmelt_world.check.history import NEVER, Ended, History, Kind, Operation, Value, rows
from snowmelt_world.check.rules import Rule, judged, put_once
from snowmelt_world.check.verdict import Finding, Invalid, Undecided, Verdict

NAME: Final = "fifo_leased"


class Waiter(msgspec.Struct, frozen=True, gc=False):
    """An item that is known to wait, from an answer to the next delivery."""

    value: Value
    put: Operation
    place: int
    word: Operation
    """Its put, or what gave it back."""
    first: Operation | None

    @property
    def gone(self) -> int:
        """The earliest instant at which it can have been taken."""
        return NEVER if self.first is None else self.first.called


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """An item handed out, the first time or again."""

    value: Value
    put: Operation
    place: int
    get: Operation


def check_fifo_leased(history: History) -> Verdict:
    """Items of a queue that leases go in the order in which they were put, up to their first lease.

    >>> print(check_fifo_leased(History.of([
    ...     Operation("p1", Kind.PUT, ("a", "b"), 1, 2, position=0),
    ...     Operation("p2", Kind.GET, ("b",), 3, 4),
    ...     Operation("p2", Kind.GET, ("a", "b"), 5, 6),
    ... ])))
    fifo_leased: invalid: 'a' waited, and the later 'b' was got before it
        p1 put 'a' 'b' [1, 2] at 0
        p2 get 'b' [3, 4]
        p2 get 'a' 'b' [5, 6]
    """
    return judged(NAME, RULES, history)


def _out_of_order(history: History) -> Finding | None:
    places = {
        value: (put, place)
        for put in history.attempted(Kind.PUT)
        for place, value in enumerate(put.values)
    }
    deliveries = [
        Delivery(value, *places[value], get)
        for value, get in rows(history.succeeded(Kind.GET))
        if value in places
    ]
    waiters = _waiters(history, places, deliveries)
    verdict = _shuffled(deliveries, waiters) or _overtaken(waiters, deliveries)
    lost = [get for get in history.unknown(Kind.GET) if not get.values]
    if verdict is None or not lost:
        return verdict
    reason = f"{verdict.sentence}, unless a get whose outcome is unknown took it"
    return Undecided(NAME, reason, example=verdict.example)


def _waiters(
    history: History,
    places: dict[Value, tuple[Operation, int]],
    deliveries: list[Delivery],
) -> list[Waiter]:
    """Those whose next delivery is known, or who were never delivered."""
    exempt = {value for value, _ in rows(history.unknown(Kind.GET))}
    gets: dict[Value, list[Operation]] = {}
    for one in deliveries:
        gets.setdefault(one.value, []).append(one.get)
    words = [*history.succeeded(Kind.PUT), *history.succeeded(Kind.BACK)]
    return [
        Waiter(value, *places[value], word, _next(word, gets.get(value, ())))
        for value, word in rows(words)
        if value not in exempt and value in places and places[value][0].ended is Ended.SUCCEEDED
    ]


def _next(word: Operation, gets: Iterable[Operation]) -> Operation | None:
    """The first of those that may have taken what a word brought in."""
    after = [one for one in gets if word.kind is Kind.PUT or one.until > word.called]
    return min(after, key=lambda get: get.called, default=None)


# --- rule 1 ---------------------------------------------------------------------------------------


def _misplaced(history: History) -> Invalid | None:
    puts = history.succeeded(Kind.PUT)
    told = sorted((put for put in puts if put.position is not None), key=_position)
    last: Operation | None = None
    for put in told:
        if last is not None and _position(last) + len(last.values) > _position(put):
            sentence = f"position {put.position} was told twice"
            return Invalid(NAME, sentence, (last, put))
        last = put
    first: dict[tuple[int, ...], Operation] = {}  # that was answered, by priority
    for put in reversed(told):
        rank = put.priorities[:1]
        earliest = first.get(rank)
        if earliest is not None and earliest.until < put.called:
            sentence = "a put was answered before another was called, and has later positions"
            return Invalid(NAME, sentence, (earliest, put))
        if earliest is None or put.until < earliest.until:
            first[rank] = put
    return None


def _position(put: Operation) -> int:
    assert put.position is not None, put
    return put.position


# --- rule 2, within one get -----------------------------------------------------------------------


def _shuffled(deliveries: list[Delivery], waiters: list[Waiter]) -> Invalid | None:
    """One get that holds an item behind a later one. Redelivered items keep their order as well."""
    waiting = {one.value for one in waiters}
    held: list[Delivery] = []
    for one in [*deliveries, None]:
        if one is not None and (not held or one.get is held[0].get):
            held.append(one)
            continue
        pair = _pair(held, waiting)
        if pair is not None:
            later, earlier = pair
            sentence = f"one get holds {earlier.value!r} behind the later {later.value!r}"
            return Invalid(NAME, sentence, _example(earlier.put, later.put, earlier.get))
        held = [] if one is None else [one]
    return None


def _pair(held: list[Delivery], waiting: set[Value]) -> tuple[Delivery, Delivery] | None:
    """A later item and the earlier one behind it: of all that are ahead, three are enough."""
    furthest: Delivery | None = None  # by position
    last: Delivery | None = None  # by priority
    latest: dict[int, Delivery] = {}  # by the call of its put
    in_put: dict[tuple[int, int | None, Value], Delivery] = {}
    for one in held:
        same, late = in_put.get(_put_key(one.put)), latest.get(_rank(one))
        for ahead in (furthest, last, late, same):
            if ahead is not None and one.value in waiting and _is_before(one, ahead):
                return ahead, one
        if one.put.position is not None and (furthest is None or _stands(furthest) < _stands(one)):
            furthest = one
        if last is None or _rank(last) < _rank(one):
            last = one
        if late is None or late.put.called < one.put.called:
            latest[_rank(one)] = one
        if same is None or same.place < one.place:
            in_put[_put_key(one.put)] = one
    return None


def _put_key(put: Operation) -> tuple[int, int | None, Value]:
    return put.called, put.returned, put.values[0]


def _rank(one: Delivery | Waiter) -> int:
    """Its priority; 0 where there are none."""
    return one.put.priorities[one.place] if one.put.priorities else 0


def _stands(one: Delivery | Waiter) -> tuple[int, int]:
    return _rank(one), _position(one.put) + one.place


def _is_before(one: Delivery | Waiter, other: Delivery) -> bool:
    """Whether an item is certain to be before another in the queue."""
    if _rank(one) != _rank(other):
        return _rank(one) < _rank(other)
    if one.put is other.put:
        return one.place < other.place
    if one.put.position is not None and other.put.position is not None:
        return _stands(one) < _stands(other)
    return one.put.until < other.put.called


# --- rule 2, between gets -------------------------------------------------------------------------


def _overtaken(waiters: list[Waiter], deliveries: list[Delivery]) -> Invalid | None:
    for found in (
        *_by_priority(waiters, deliveries),
        *_by_position(waiters, deliveries),
        *_by_time(waiters, deliveries),
        *_by_put(waiters, deliveries),
    ):
        waiter, passing = found
        sentence = f"{waiter.value!r} waited, and the later {passing.value!r} was got before it"
        gets = (passing.get,) if waiter.first is None else (passing.get, waiter.first)
        return Invalid(NAME, sentence, _example(waiter.put, passing.put, waiter.word, *gets))
    return None


class _Returns:
    """Deliveries by the call of their get, and of those called later the one that returned first.

    A tree of minima over the ranks of the calls (Fenwick): to add and to look up is O(log n).
    """

    def __init__(self, deliveries: list[Delivery]) -> None:
        self._calls = sorted({one.get.called for one in deliveries}, reverse=True)
        self._ranks = {called: rank for rank, called in enumerate(self._calls, 1)}
        self._first: list[Delivery | None] = [None] * (len(self._calls) + 1)

    def add(self, one: Delivery) -> None:
        rank = self._ranks[one.get.called]
        while rank < len(self._first):
            held = self._first[rank]
            if held is None or one.get.until < held.get.until:
                self._first[rank] = one
            rank += rank & -rank

    def after(self, instant: int) -> Delivery | None:
        """Of those called after an instant, the one that returned first."""
        low, high = 0, len(self._calls)
        while low < high:  # how many calls lie after it
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._calls[middle] > instant else (low, middle)
        best: Delivery | None = None
        while low:
            held = self._first[low]
            if held is not None and (best is None or held.get.until < best.get.until):
                best = held
            low -= low & -low
        return best


def _by_priority(
    waiters: list[Waiter], deliveries: list[Delivery]
) -> Iterator[tuple[Waiter, Delivery]]:
    """From the least urgent to the most."""
    yield from _ranked(waiters, deliveries, _rank)


def _by_position(
    waiters: list[Waiter], deliveries: list[Delivery]
) -> Iterator[tuple[Waiter, Delivery]]:
    """From the last position to the first."""
    told = [one for one in deliveries if one.put.position is not None]
    yield from _ranked([one for one in waiters if one.put.position is not None], told, _stands)


def _ranked(
    waiters: list[Waiter], deliveries: list[Delivery], key: Callable[[Delivery | Waiter], Any]
) -> Iterator[tuple[Waiter, Delivery]]:
    """From the last to the first, by this key."""
    told = sorted(deliveries, key=key)
    returns = _Returns(told)
    for waiter in sorted(waiters, key=key, reverse=True):
        while told and key(told[-1]) > key(waiter):
            returns.add(told.pop())
        passing = returns.after(waiter.word.until)
        if passing is not None and passing.get.until < waiter.gone:
            yield waiter, passing


def _by_time(
    waiters: list[Waiter], deliveries: list[Delivery]
) -> Iterator[tuple[Waiter, Delivery]]:
    """From the last put to the first; what is put later is got later still."""
    for rank in {_rank(one): None for one in waiters}:
        yield from _in_time(
            [one for one in waiters if _rank(one) == rank],
            [one for one in deliveries if _rank(one) == rank],
        )


def _in_time(
    waiters: list[Waiter], deliveries: list[Delivery]
) -> Iterator[tuple[Waiter, Delivery]]:
    left = sorted(deliveries, key=lambda one: one.put.called)
    returns = _Returns(left)
    for waiter in sorted(waiters, key=lambda one: one.put.until, reverse=True):
        while left and left[-1].put.called > waiter.put.until:
            returns.add(left.pop())
        passing = returns.after(waiter.word.until)
        if passing is not None and passing.get.until < waiter.gone:
            yield waiter, passing


def _by_put(waiters: list[Waiter], deliveries: list[Delivery]) -> Iterator[tuple[Waiter, Delivery]]:
    """Within each put, from its last value to its first."""
    by_put: dict[tuple[int, int | None, Value], list[Delivery]] = {}
    for one in deliveries:
        by_put.setdefault(_put_key(one.put), []).append(one)
    for held in by_put.values():
        held.sort(key=lambda one: one.place)
    first: dict[tuple[int, int | None, Value], Delivery] = {}
    new = [one for one in waiters if one.word is one.put]
    for waiter in sorted(new, key=lambda one: one.place, reverse=True):
        key = _put_key(waiter.put)
        left = by_put.get(key, [])
        while left and left[-1].place > waiter.place:
            one = left.pop()
            sooner = key not in first or one.get.until < first[key].get.until
            if one.get.called > waiter.put.until and sooner:
                first[key] = one
        if key in first and first[key].get.until < waiter.gone:
            yield waiter, first[key]


def _example(*operations: Operation) -> tuple[Operation, ...]:
    """Each once, as time goes."""
    seen: list[Operation] = []
    for one in operations:
        if not any(one is other for other in seen):
            seen.append(one)
    return tuple(sorted(seen, key=lambda one: one.called))


RULES: Final = (put_once(NAME), Rule(ALL, _misplaced), Rule(ALL, _out_of_order))
