"""Memberships: one content for an epoch, and no process that goes back.

A view seen is an operation of kind `VIEW`: `position` is the epoch, `values` the members as the
recorder writes them (names, starts, whatever must agree), always in the same order.

- Agreement: all who see an epoch see the same members in it. One dictionary, O(n).
- Monotony: what a process sees after it saw epoch e is e or later, across its restarts too, so a
  process keeps its name when it restarts. "After" means that the first observation had returned
  before the second was called; two at the same instant say nothing about each other. For each
  process, walk its observations by their calls, and beside them by their returns, with the highest
  epoch that has returned: O(n log n).
"""

from operator import attrgetter
from typing import Final

from snowmelt_world.check.cuts import EPOCHS, VIEWERS
from snowmelt_world.check.history import History, Kind, Operation
from snowmelt_world.check.rules import Rule, judged
from snowmelt_world.check.verdict import Invalid, Verdict


def check_view_agreement(history: History) -> Verdict:
    """No epoch was seen with two contents.

    >>> print(check_view_agreement(History.of([
    ...     Operation("n1", Kind.VIEW, ("n1", "n2"), 5, 5, position=3),
    ...     Operation("n2", Kind.VIEW, ("n2",), 9, 9, position=3),
    ... ])))
    view_agreement: invalid: epoch 3 was seen with two contents
        n1 view 'n1' 'n2' [5, 5] at 3
        n2 view 'n2' [9, 9] at 3
    """
    return judged("view_agreement", AGREEMENT, history)


def _apart(history: History) -> Invalid | None:
    first: dict[int | None, Operation] = {}
    for seen in history.succeeded(Kind.VIEW):
        other = first.setdefault(seen.position, seen)
        if other.values != seen.values:
            sentence = f"epoch {seen.position} was seen with two contents"
            return Invalid("view_agreement", sentence, (other, seen))
    return None


def check_view_monotony(history: History) -> Verdict:
    """No process saw an earlier epoch after a later one.

    >>> print(check_view_monotony(History.of([
    ...     Operation("n1", Kind.VIEW, ("n1",), 5, 5, position=3),
    ...     Operation("n1", Kind.VIEW, ("n1",), 9, 9, position=2),
    ... ])))
    view_monotony: invalid: n1 went back from epoch 3 to 2
        n1 view 'n1' [5, 5] at 3
        n1 view 'n1' [9, 9] at 2
    """
    return judged("view_monotony", MONOTONY, history)


def _backwards(history: History) -> Invalid | None:
    by_process: dict[str, list[Operation]] = {}
    for seen in history.succeeded(Kind.VIEW):
        by_process.setdefault(seen.process, []).append(seen)
    for process, views in by_process.items():
        fall = _fall(views)
        if fall is not None:
            high, low = fall
            sentence = f"{process} went back from epoch {high.position} to {low.position}"
            return Invalid("view_monotony", sentence, fall)
    return None


def _fall(views: list[Operation]) -> tuple[Operation, Operation] | None:
    """Two observations, one after the other, the second with the lower epoch."""
    returned = iter(sorted(views, key=attrgetter("until")))
    pending = next(returned)
    highest: Operation | None = None
    for view in sorted(views, key=attrgetter("called")):
        # The one that returns last is never passed: no call lies after its return.
        while pending.until < view.called:
            if highest is None or _epoch(pending) > _epoch(highest):
                highest = pending
            pending = next(returned)
        if highest is not None and _epoch(view) < _epoch(highest):
            return highest, view
    return None


def _epoch(view: Operation) -> int:
    assert view.position is not None, view
    return view.position


AGREEMENT: Final = (Rule(EPOCHS, _apart),)
MONOTONY: Final = (Rule(VIEWERS, _backwards),)
