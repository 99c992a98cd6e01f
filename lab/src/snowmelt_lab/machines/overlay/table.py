"""The part of the hash table that one virtual node keeps (rules 3 and 14)."""

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

import msgspec

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay.labels import Virtual
from snowmelt_lab.machines.overlay.routing import keeps, point

E = TypeVar("E")


class Slot(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Where an element is put: a point of the circle, and numbers that tell it from its like."""

    point: int
    name: tuple[int, ...] = ()


class Getter(msgspec.Struct, frozen=True, array_like=True):
    """Who waits for an element, and under which of its own numbers."""

    node: NodeId
    ticket: int


class Met(msgspec.Struct, Generic[E], frozen=True):
    getter: Getter
    element: E


class Arc(msgspec.Struct, Generic[E], frozen=True, array_like=True):
    """All that lies on a stretch of the circle, for handing over."""

    stored: tuple[tuple[Slot, E], ...] = ()
    waiting: tuple[tuple[Slot, Getter], ...] = ()


class Table(Generic[E]):
    """Elements under slots, and gets that came before their put.

    >>> table = Table()
    >>> table.get(Slot(5), Getter("a", 1))
    []
    >>> table.put(Slot(5), "x")
    [Met(getter=Getter(node='a', ticket=1), element='x')]
    >>> table.put(Slot(5), "y"), table.get(Slot(5), Getter("b", 1))
    ([], [Met(getter=Getter(node='b', ticket=1), element='y')])
    """

    def __init__(self) -> None:
        self.stored: Final[dict[Slot, E]] = {}
        self.waiting: Final[dict[Slot, list[Getter]]] = {}

    def put(self, slot: Slot, element: E) -> list[Met[E]]:
        """Keeps an element, or gives it to the first who waits; a slot that is taken stays so."""
        waiting = self.waiting.get(slot)
        if not waiting:
            self.stored.setdefault(slot, element)
            return []
        getter = waiting.pop(0)
        if not waiting:
            del self.waiting[slot]
        return [Met(getter, element)]

    def get(self, slot: Slot, getter: Getter) -> list[Met[E]]:
        """Takes an element out, or waits for it."""
        if slot in self.stored:
            return [Met(getter, self.stored.pop(slot))]
        self.waiting.setdefault(slot, []).append(getter)
        return []

    def cut(self, here: Virtual, succ: Virtual) -> Arc[E]:
        """Takes out what lies from here up to the next, to be handed over."""
        slots = list(self._slots_between(here, succ))
        stored = tuple((slot, self.stored.pop(slot)) for slot in slots if slot in self.stored)
        waiting = [(slot, self.waiting.pop(slot)) for slot in slots if slot in self.waiting]
        return Arc(stored, tuple((slot, one) for slot, each in waiting for one in each))

    def cut_all(self) -> Arc[E]:
        stored = tuple(self.stored.items())
        waiting = tuple((slot, one) for slot, each in self.waiting.items() for one in each)
        self.stored.clear()
        self.waiting.clear()
        return Arc(stored, waiting)

    def add(self, arc: Arc[E]) -> list[Met[E]]:
        """Takes in what another kept."""
        met = [one for slot, element in arc.stored for one in self.put(slot, element)]
        return met + [one for slot, getter in arc.waiting for one in self.get(slot, getter)]

    def _slots_between(self, here: Virtual, succ: Virtual) -> Iterator[Slot]:
        for slot in sorted(self.stored.keys() | self.waiting.keys()):
            if keeps(here, succ, point(slot.point)):
                yield slot
