"""Each element at one place, with one holder at a time.

1. A value has one priority and one position, whoever tells of it, and no two values share them:
   first the former is looked at, then the latter.
2. The tokens under which a value is leased grow: a get that was called after another one of it was
   answered has a greater one, and no two have the same.
3. No two leases of a value are live at once. A lease lasts until `held`, unless it was given back
   before; so whoever has the value under a later token was answered after that.
4. Where nothing is leased, a value is got once; and once more each time that it was given back.

By value, then by token: O(n log n).
"""

from collections.abc import Iterator
from itertools import pairwise, repeat
from typing import Final

from snowmelt_world.check.cuts import PLACES, VALUES
from snowmelt_world.check.history import History, Kind, Operation, Value, rows
from snowmelt_world.check.rules import Rule, judged
from snowmelt_world.check.verdict import Invalid, Verdict

NAME: Final = "leases"


def check_leases(history: History) -> Verdict:
    """Each element at one place, with one holder at a time.

    >>> print(check_leases(History.of([
    ...     Operation("p1", Kind.GET, ("a",), 1, 2, token=5, held=30),
    ...     Operation("p2", Kind.GET, ("a",), 3, 4, token=6, held=34),
    ... ])))
    leases: invalid: 'a' was leased again while it was held
        p1 get 'a' [1, 2]
        p2 get 'a' [3, 4]
    """
    return judged(NAME, RULES, history)


def _held_once(history: History) -> Invalid | None:
    gets: dict[Value, list[Operation]] = {}
    for value, get in rows(history.succeeded(Kind.GET)):
        gets.setdefault(value, []).append(get)
    backs: dict[Value, list[Operation]] = {}
    for value, back in rows(history.attempted(Kind.BACK)):
        backs.setdefault(value, []).append(back)
    for value, theirs in gets.items():
        given_back = backs.get(value, [])
        found = _tokens(value, theirs) or _live(value, theirs, given_back)
        found = found or _doubled(value, theirs, given_back)
        if found is not None:
            return found
    return None


def _places(history: History) -> Iterator[tuple[Value, tuple[int, int], Operation]]:
    for one in (*history.succeeded(Kind.PUT), *history.succeeded(Kind.GET)):
        if one.priorities and one.positions:
            at = zip(one.priorities, one.positions, strict=True)
            yield from zip(one.values, at, repeat(one))


def _moved(history: History) -> Invalid | None:
    """Rule 1, of a value."""
    place_of: dict[Value, tuple[tuple[int, int], Operation]] = {}
    for value, at, one in _places(history):
        told, first = place_of.setdefault(value, (at, one))
        if told != at:
            return Invalid(NAME, f"{value!r} stands at {told}, and at {at}", (first, one))
    return None


def _shared(history: History) -> Invalid | None:
    """Rule 1, of a place."""
    value_at: dict[tuple[int, int], tuple[Value, Operation]] = {}
    for value, at, one in _places(history):
        other, second = value_at.setdefault(at, (value, one))
        if other != value:
            return Invalid(NAME, f"{other!r} and {value!r} stand at {at}", (second, one))
    return None


def _tokens(value: Value, gets: list[Operation]) -> Invalid | None:
    """Rule 2."""
    leased = sorted((one for one in gets if one.token is not None), key=lambda one: one.called)
    greatest: Operation | None = None
    ended = sorted(leased, key=lambda one: one.until)
    at = 0
    for one in leased:
        while ended[at].until < one.called:
            if greatest is None or _token(greatest) < _token(ended[at]):
                greatest = ended[at]
            at += 1
        if greatest is not None and _token(one) <= _token(greatest):
            sentence = f"{value!r} was leased again under a token that is not greater"
            return Invalid(NAME, sentence, (greatest, one))
    by_token = sorted(leased, key=_token)
    for one, other in pairwise(by_token):
        if one.token == other.token:
            return Invalid(NAME, f"{value!r} was leased twice under one token", (one, other))
    return None


def _live(value: Value, gets: list[Operation], backs: list[Operation]) -> Invalid | None:
    """Rule 3."""
    leased = sorted((one for one in gets if one.token is not None), key=_token)
    for one, other in pairwise(leased):
        freed = any(
            back.called <= other.until and back.token in (None, one.token) for back in backs
        )
        if other.until < _held(one) and not freed:
            return Invalid(NAME, f"{value!r} was leased again while it was held", (one, other))
    return None


def _doubled(value: Value, gets: list[Operation], backs: list[Operation]) -> Invalid | None:
    """Rule 4."""
    bare = [one for one in gets if one.token is None and one.held is None]
    leases = any(one.token is not None for one in gets)
    if leases or len(bare) <= 1 + len(backs):
        return None
    return Invalid(NAME, f"{value!r} was got {len(bare)} times", tuple(bare))


def _token(one: Operation) -> int:
    return -1 if one.token is None else one.token


def _held(one: Operation) -> int:
    return -1 if one.held is None else one.held


RULES: Final = (Rule(VALUES, _moved), Rule(PLACES, _shared), Rule(VALUES, _held_once))
