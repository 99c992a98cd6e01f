"""Most urgent first, as far as it can be told of a queue whose nodes and clients are killed.

1. An item is judged in the epoch in which it was first got: there it was from the beginning, or
   since its put. In an epoch before, all who have it may have been away, or a get that was begun
   again in the next may have been granted it; so it may be passed there.
2. An item that was delivered before somebody first saw it was out at an unknown time, and is not
   judged.
3. A get of which nobody heard, or that took so long that it may have been asked at two nodes, may
   have had an item for a while, and may have been asked for as many as its client wanted: each
   passing is laid at the door of one that can have done it, and of no more than it can have had.
   What no such get explains is broken.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from benchmarks.overlay_chaos_parts.history import Call, Seen

from snowmelt.check import Ended, History, Kind, Operation
from snowmelt.check.heap import Passing, passings
from snowmelt.check.history import Value
from snowmelt.protocols.priority.anchor import EPOCH_BITS, first_of

SLOW: Final = 900_000_000
"""A call that took so many nanoseconds may have been asked twice."""


class Suspect(msgspec.Struct):
    """A get that may have had what it does not tell, and how many more it may have had."""

    called: int
    until: int
    left: int


class Order(msgspec.Struct, frozen=True):
    """What came of it."""

    judged: int
    """Items that were judged."""
    excused: int
    """Passings that gets of unknown outcome explain."""
    wrong: tuple[str, ...]


def ordered(seen: Seen, hold: int) -> Order:
    """Judges; what nobody heard of is held for so many nanoseconds at most."""
    first = dict(_first_gets(seen.of(Kind.GET)))
    operations = [call.operation for call in seen.calls]
    known, left_out = _known(operations, first)
    suspects = sorted(_suspects(seen.of(Kind.GET), hold), key=lambda one: one.until)
    excused, wrong = 0, list[str]()
    for passing in passings(History.of([*operations, *left_out])):
        if _explained(passing, suspects):
            excused += 1
        else:
            wrong.append(str(passing.verdict))
    return Order(known, excused, tuple(wrong))


def _first_gets(gets: Iterable[Call]) -> Iterator[tuple[Value, tuple[Operation, int, int]]]:
    """Of each item: its first get, by the order, with its order there and its failures."""
    every: dict[Value, tuple[Operation, int, int]] = {}
    for call in gets:
        one = call.operation
        for value, order, failures in zip(one.values, one.orders, call.failures, strict=False):
            if value not in every or order < every[value][1]:
                every[value] = one, order, failures
    yield from every.items()


def _known(
    operations: list[Operation], first: dict[Value, tuple[Operation, int, int]]
) -> tuple[int, list[Operation]]:
    """How many items are judged (rules 1 and 2), and what takes others out of sight."""
    judged, more = 0, list[Operation]()
    for put in operations:
        if put.kind is not Kind.PUT or put.ended is not Ended.SUCCEEDED:
            continue
        for value, order in zip(put.values, put.orders, strict=False):
            _, got, failures = first.get(value, (put, order, 1))
            judged += not failures
            if failures or order >> EPOCH_BITS < got >> EPOCH_BITS:
                away = (Operation("unknown", Kind.GET, (value,), 0, None, Ended.UNKNOWN,
                                  orders=(order,)))  # fmt: skip
                more.append(away)
            if not failures and order >> EPOCH_BITS < got >> EPOCH_BITS:
                began = first_of(got >> EPOCH_BITS)
                more.append(Operation("view", Kind.BACK, (value,), 0, 0, orders=(began,)))
    return judged, more


def _suspects(gets: Iterable[Call], hold: int) -> Iterator[Suspect]:
    for call in gets:
        one = call.operation
        took = one.until - one.called
        if one.ended is not Ended.SUCCEEDED or took > SLOW:
            end = one.called if one.returned is None else one.returned
            yield Suspect(one.called, end + hold, call.most)


def _explained(passing: Passing, suspects: list[Suspect]) -> bool:
    """Whether one of them can have had it (rule 3)."""
    get = passing.get
    if passing.smaller is None:
        return False
    put = passing.verdict.example[0]
    for one in suspects:
        if one.left and one.called <= get.until and one.until >= max(get.called, put.called):
            one.left -= 1
            return True
    return False
