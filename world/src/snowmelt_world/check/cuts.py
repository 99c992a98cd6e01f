"""How a history is cut into parts that can be judged one by one, by as many machines as there are.

Of each operation a cut makes rows: the whole operation, or what it tells of one of its values. Each
row has a key, and a part has all rows of its keys. A cut fits a rule when

1. what breaks the rule in a part breaks it in the whole history: the rule compares rows of a key
   with each other, and no row that is missing makes wrong what is there;
2. what breaks it first in the whole shows in some part, as that part's own first.

So each part is judged as if it were a history; what is found in the parts is then judged together
once more, by the same rule, and that gives what the whole history would give.

Where the keys are not equal or different but earlier or later (`reach`), parts are ranges of keys.
An operation lies in each range that it touches, and each range gets one operation more: of all in
the ranges behind it, or before it, the one that `reach` ranks highest. The rule must be such that
no other one of those can break it sooner.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final

import msgspec

from snowmelt_world.check.history import Ended, Kind, Operation

Rows = Iterable[tuple[Hashable, int, Operation]]
"""The key, which value of the operation it is, and what is told of it."""
_OF_VALUES: Final = ("priorities", "positions", "orders")


class Reach(msgspec.Struct, frozen=True):
    """Which operation a range of keys is given from the others."""

    back: bool
    """Whether from those behind it, or else from those before it."""
    rank: Callable[[Operation, int], tuple[int, ...]]
    """Of an operation and its place in the history; the highest is given."""


class Cut(msgspec.Struct, frozen=True):
    name: str
    rows: Callable[[Operation], Rows]
    whole: bool = True
    """Whether a finding is judged again with all rows of its keys; else their first and its own."""
    reach: Reach | None = None
    together: str = ""
    """Why all parts are one, if they are."""


def alone(one: Operation, place: int) -> Operation:
    """What an operation tells of one of its values.

    >>> alone(Operation("p1", Kind.PUT, ("a", "b"), 1, 2, orders=(7, 8)), 1)
    p1 put 'b' [1, 2] order 8
    """
    if len(one.values) == 1:
        return one
    told = {
        name: getattr(one, name)[place : place + 1] for name in _OF_VALUES if getattr(one, name)
    }
    return msgspec.structs.replace(one, values=one.values[place : place + 1], **told)


def is_ordered(one: Operation) -> bool:
    """Whether the product told the order of this put or get."""
    told = bool(one.orders) and one.ended is Ended.SUCCEEDED
    return told and one.kind in (Kind.PUT, Kind.GET)


def _values(one: Operation) -> Iterator[tuple[Hashable, int, Operation]]:
    if one.kind is Kind.GET and one.ended is Ended.SUCCEEDED and not one.values:
        yield one.called, 0, one
    if one.ended is not Ended.FAILED and one.kind is not Kind.VIEW:
        for place, value in enumerate(one.values):
            yield value, place, alone(one, place)


def _places(one: Operation) -> Iterator[tuple[Hashable, int, Operation]]:
    told = one.priorities and one.positions and one.ended is Ended.SUCCEEDED
    if told and one.kind in (Kind.PUT, Kind.GET):
        for place, at in enumerate(zip(one.priorities, one.positions, strict=True)):
            yield at, place, alone(one, place)


def _orders(one: Operation) -> Iterator[tuple[Hashable, int, Operation]]:
    if is_ordered(one):
        for place, order in enumerate(one.orders if one.values else ()):
            yield order, place, alone(one, place)


def _clients(one: Operation) -> Rows:
    return [(one.process, 0, one)] if is_ordered(one) else ()


def _calls(one: Operation) -> Rows:
    return [(one.called, 0, one), (one.until, 0, one)] if is_ordered(one) else ()


def _views(key: Callable[[Operation], Hashable]) -> Callable[[Operation], Rows]:
    def rows(one: Operation) -> Rows:
        seen = one.kind is Kind.VIEW and one.ended is Ended.SUCCEEDED
        return [(key(one), 0, one)] if seen else ()

    return rows


def _moves(one: Operation) -> Rows:
    kinds = (Kind.PUT, Kind.GET, Kind.BACK)
    return [(0, 0, one)] if one.kind in kinds and one.ended is not Ended.FAILED else ()


VALUES: Final = Cut("values", _values)
PLACES: Final = Cut("places", _places)
ORDERS: Final = Cut("orders", _orders)
CLIENTS: Final = Cut("clients", _clients, whole=False)
EPOCHS: Final = Cut("epochs", _views(lambda one: one.position), whole=False)
VIEWERS: Final = Cut("viewers", _views(lambda one: one.process), whole=False)
CALLS: Final = Cut(
    "calls",
    _calls,
    whole=False,
    reach=Reach(back=True, rank=lambda one, index: (-min(one.orders), one.called, index)),
)
ALL: Final = Cut(
    "all",
    _moves,
    together="what breaks it may lie anywhere, so one executor has all puts and gets",
)
PASSAGES: Final = Cut(
    "passages",
    lambda _: (),
    together="an order may go round through many values, so one executor has eight numbers of each",
)
"""Made of the parts by values."""
