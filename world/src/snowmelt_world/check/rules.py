"""A rule: what is judged, and how a history may be cut so that parts of it are judged alone."""

from collections.abc import Callable, Sequence

import msgspec

from snowmelt_world.check.cuts import VALUES, Cut
from snowmelt_world.check.history import History, Kind, Operation, Value, rows
from snowmelt_world.check.verdict import Finding, Undecided, Valid, Verdict

Judge = Callable[[History], Finding | None]


class Rule(msgspec.Struct, frozen=True):
    cut: Cut
    judge: Judge


def judged(name: str, rules: Sequence[Rule], history: History) -> Verdict:
    """What the first rule finds that finds something."""
    for rule in rules:
        found = rule.judge(history)
        if found is not None:
            return found
    return Valid(name)


def put_once(name: str) -> Rule:
    """Values are distinct, or the property can't be judged."""

    def judge(history: History) -> Undecided | None:
        put: dict[Value, Operation] = {}
        for value, one in rows(history.attempted(Kind.PUT)):
            if value in put:
                reason = f"{value!r} was put more than once; put distinct values"
                return Undecided(name, reason, example=(put[value], one))
            put[value] = one
        return None

    return Rule(VALUES, judge)
