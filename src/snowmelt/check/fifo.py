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

from typing import Final

from snowmelt.check.emptiness import Segment, find_covered
from snowmelt.check.history import NEVER, Ended, History, Kind, Operation, Value, rows
from snowmelt.check.order import ForcedOrder
from snowmelt.check.passage import Passage
from snowmelt.check.verdict import Invalid, Undecided, Valid, Verdict

NAME: Final = "fifo"
_COVER_SHOWN: Final = 3


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
    puts = history.attempted(Kind.PUT)
    put: dict[Value, Operation] = {}
    for value, one in rows(puts):
        if value in put:
            return Undecided(NAME, f"{value!r} was put more than once; put distinct values")
        put[value] = one
    return _not_fresh(history, put) or _repeated(history) or _out_of_order(history, puts)


def _not_fresh(history: History, put: dict[Value, Operation]) -> Verdict | None:
    for value, get in rows(history.succeeded(Kind.GET)):
        if value not in put:
            return Invalid(NAME, f"{value!r} was got and never put", (get,))
        if get.until < put[value].called:
            return Invalid(NAME, f"{value!r} was got before it was put", (get, put[value]))
    return None


def _repeated(history: History) -> Verdict | None:
    got: dict[Value, Operation] = {}
    for value, get in rows(history.succeeded(Kind.GET)):
        if value in got:
            return Invalid(NAME, f"{value!r} was got twice", (got[value], get))
        got[value] = get
    return None


def _out_of_order(history: History, puts: list[Operation]) -> Verdict:
    verdict = _sweep(history, puts, untaken=NEVER)
    lost_gets = history.unknown(Kind.GET)
    if not lost_gets or isinstance(verdict, Valid):
        return verdict
    first = min(get.called for get in lost_gets)
    verdict = _sweep(history, puts, untaken=first)
    if isinstance(verdict, Invalid):
        return verdict
    count = len(lost_gets)
    gets = "1 get whose outcome is" if count == 1 else f"{count} gets whose outcomes are"
    return Undecided(NAME, f"it is illegal unless {gets} unknown took what nobody else got")


def _sweep(history: History, puts: list[Operation], untaken: int) -> Verdict:
    """VOrd and VWit, where what nobody got may have been taken from `untaken` on."""
    passages, places = _passages(history, puts, untaken)
    order = ForcedOrder(passages, places)
    cycle = order.cycle()
    if cycle:
        return _disorder(cycle)
    segments = [
        Segment(latest, one.got_called, index)
        for index, (latest, one) in enumerate(zip(order.latest_puts(), passages, strict=True))
    ]
    empty = [get for get in history.succeeded(Kind.GET) if not get.values]
    covered = find_covered(segments, empty)
    if covered:
        get, cover = covered
        return _never_empty(get, [order.because(one.index) for one in cover])
    return Valid(NAME)


def _passages(
    history: History, puts: list[Operation], untaken: int
) -> tuple[list[Passage], list[int]]:
    """Every value that must have been in the queue, and its place among those got."""
    gets = enumerate(rows(history.succeeded(Kind.GET)))
    got = {value: (get, place) for place, (value, get) in gets}
    passages, places = [], []
    for value, put in rows(puts):
        if value in got:
            get, place = got[value]
            put_by = min(put.until, get.until)
            times = put.called, put_by, get.called, get.until
            passages.append(Passage(value, put, get, *times))
            places.append(place)
        elif put.ended is Ended.SUCCEEDED:
            passages.append(Passage(value, put, None, put.called, put.until, untaken, NEVER))
            places.append(len(got))
    return passages, places


def _disorder(cycle: list[Passage]) -> Invalid:
    names = [repr(one.value) for one in [*cycle, cycle[0]]]
    sentence = f"the puts and the gets force different orders: {' after '.join(names)}"
    return Invalid(NAME, sentence, _example(cycle))


def _never_empty(get: Operation, cover: list[list[Passage]]) -> Invalid:
    shown = cover[:_COVER_SHOWN]
    names = ", then ".join(repr(ways[0].value) for ways in shown)
    more = "" if len(cover) == len(shown) else f", then {len(cover) - len(shown)} more"
    sentence = f"a get found nothing, and all the while something was there: {names}{more}"
    return Invalid(NAME, sentence, (get, *_example([one for ways in shown for one in ways])))


def _example(passages: list[Passage]) -> tuple[Operation, ...]:
    """Their operations, each once, as time goes."""
    seen: list[Operation] = []
    for passage in passages:
        seen += [one for one in passage.operations if not any(one is other for other in seen)]
    return tuple(sorted(seen, key=lambda one: one.called))
