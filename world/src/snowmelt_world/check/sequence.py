"""One order of all operations, as the product told it, and each client's own operations in it.

1. No order is told twice, but of gets that found nothing.
2. What a process was answered before it called again has the lower orders (sequential consistency:
   some one order explains everything, and keeps each client's own).
3. In `check_linear`: the same of any two operations, whoever called them.

What has no order is passed over. A sort and a sweep from the back, which keeps the least order of
what was called later: O(n log n).
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from snowmelt_world.check.cuts import CALLS, CLIENTS, ORDERS, is_ordered
from snowmelt_world.check.history import History, Operation
from snowmelt_world.check.rules import Rule, judged
from snowmelt_world.check.verdict import Invalid, Verdict

NAME: Final = "sequence"
LINEAR: Final = "linear"


def check_sequence(history: History) -> Verdict:
    """Each client's own operations are in its own order.

    >>> from snowmelt_world.check.history import Kind
    >>> print(check_sequence(History.of([
    ...     Operation("p1", Kind.PUT, ("a",), 1, 2, orders=(7,)),
    ...     Operation("p1", Kind.GET, (), 3, 4, orders=(6,)),
    ... ])))
    sequence: invalid: p1 was answered one, and then called the other, which has a lower order
        p1 put 'a' [1, 2] order 7
        p1 get nothing [3, 4] order 6
    """
    return judged(NAME, RULES, history)


def _against_own(history: History) -> Invalid | None:
    """Rule 2."""
    by_process: dict[str, list[Operation]] = {}
    for one in _ordered(history):
        by_process.setdefault(one.process, []).append(one)
    for process, theirs in by_process.items():
        pair = _turned(theirs)
        if pair is not None:
            sentence = (
                f"{process} was answered one, and then called the other, which has a lower order"
            )
            return Invalid(NAME, sentence, pair)
    return None


def check_linear(history: History) -> Verdict:
    """What was answered before another was called, by whomever, has the lower order."""
    return judged(LINEAR, LINEAR_RULES, history)


def _against_all(history: History) -> Invalid | None:
    """Rule 3."""
    pair = _turned(_ordered(history))
    if pair is None:
        return None
    sentence = "one was answered before the other was called, which has a lower order"
    return Invalid(LINEAR, sentence, pair)


def _ordered(history: Iterable[Operation]) -> list[Operation]:
    return [one for one in history if is_ordered(one)]


def _twice(history: History) -> Invalid | None:
    """Rule 1."""
    seen: dict[int, Operation] = {}
    for one in _ordered(history):
        for order in one.orders if one.values else ():
            if order in seen:
                return Invalid(NAME, f"order {order} was told twice", (seen[order], one))
            seen[order] = one
    return None


def _turned(operations: list[Operation]) -> tuple[Operation, Operation] | None:
    """One answered before the other was called, and an order of the latter is the lower."""
    ordered = sorted(operations, key=lambda one: one.called)
    calls = [one.called for one in ordered]
    least: list[Operation] = []
    """Of those from each on, the one with the least order."""
    for one in reversed(ordered):
        lower = not least or min(one.orders) < min(least[-1].orders)
        least.append(one if lower else least[-1])
    least.reverse()
    for one in ordered:
        after = bisect_right(calls, one.until)
        if after < len(ordered) and min(least[after].orders) < max(one.orders):
            return one, least[after]
    return None


RULES: Final = (Rule(ORDERS, _twice), Rule(CLIENTS, _against_own))
LINEAR_RULES: Final = (Rule(CALLS, _against_all),)
