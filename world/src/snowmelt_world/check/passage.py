"""Values' ways through a queue, as far as the history shows them: a few numbers a value.

A history of fifty million operations is too large for the objects of one machine, and its passages
are not: they are kept as columns, and name operations by their numbers.
"""

from array import array
from collections.abc import Iterable, Iterator, MutableSequence
from typing import Final

import msgspec

from snowmelt_world.check.history import NEVER, Ended, Operation, Value

Column = MutableSequence[int]
NOBODY: Final = NEVER
"""The number of the get of a value that was never got."""

Carried = Iterable[tuple[Value, Operation, int, int]]
"""A value, what carried it, that one's number, and which of its values it is."""


class Named(msgspec.Struct, frozen=True, gc=False):
    """Which operations a value went by."""

    put: int
    place: int
    """Which of the put's values it is."""
    get: int

    @property
    def numbers(self) -> Iterator[int]:
        return iter((self.put,) if self.get == NOBODY else (self.put, self.get))


class Passages(msgspec.Struct):
    """When values may have been put and got; in the order of their puts.

    Each was put at an instant of [put_called, put_returned] and got at one of [got_called,
    got_returned], and put_returned is never after got_returned. A value that was never got has its
    get far in the future.
    """

    put: Column
    put_place: Column
    get: Column
    got_place: Column
    put_called: Column
    put_returned: Column
    got_called: Column
    got_returned: Column

    @classmethod
    def matched(cls, puts: Carried, gets: Carried) -> "Passages":
        """Every value that must have been in the queue; values are distinct, and got once."""
        got = {value: (get, number, at) for value, get, number, at in gets}
        columns = cls(*(array("Q") for _ in cls.__struct_fields__))
        for value, put, number, at in puts:
            if value in got:
                get, *place = got[value]
                times = (put.called, min(put.until, get.until), get.called, get.until)
                columns._add((number, at, *place, *times))
            elif put.ended is Ended.SUCCEEDED:
                columns._add((number, at, NOBODY, 0, put.called, put.until, NEVER, NEVER))
        return columns

    def _add(self, row: Iterable[int]) -> None:
        for column, number in zip(self.columns, row, strict=True):
            column.append(number)

    @property
    def columns(self) -> tuple[Column, ...]:
        return msgspec.structs.astuple(self)

    def __len__(self) -> int:
        return len(self.put)

    def named(self, index: int) -> Named:
        return Named(self.put[index], self.put_place[index], self.get[index])

    def taken_from(self, instant: int) -> "Passages":
        """Where what nobody got may have been taken from then on."""
        pairs = zip(self.get, self.got_called, strict=True)
        called = array("Q", (instant if get == NOBODY else called for get, called in pairs))
        return msgspec.structs.replace(self, got_called=called)

    def sorted(self) -> "Passages":
        """In the order of their puts, after they came from several places."""
        order = sorted(range(len(self)), key=self.put_place.__getitem__)
        order.sort(key=self.put.__getitem__)
        return Passages(*(array("Q", map(one.__getitem__, order)) for one in self.columns))
