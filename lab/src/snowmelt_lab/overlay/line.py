"""A small family for the overlay: a line in which the i-th get receives what the i-th put brought.

A get that comes before its put waits for it, so this tries the table's waiting gets too.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from snowmelt_lab.machines.overlay import key
from snowmelt_lab.machines.overlay.family import Fetch, Store, TableOnly
from snowmelt_lab.machines.overlay.table import Slot


class Counts(msgspec.Struct, frozen=True, array_like=True):
    """As a batch: how many puts and gets. As a grant, or the anchor's state: the first of each."""

    puts: int = 0
    gets: int = 0


def slot(position: int) -> Slot:
    """Where the element at a position of the line is kept."""
    return Slot(key("line", position), (position,))


class Line(TableOnly):
    def __init__(self) -> None:
        self.buffered: list[object] = []
        self.wanted = 0
        self.asked: tuple[list[object], int] = ([], 0)
        """What the batch on its way stands for."""
        self.unkept: Final[set[int]] = set()
        self.open_gets: Final[set[int]] = set()
        self.placed: Final[dict[int, object]] = {}
        """What this node put, by position."""
        self.received: Final[dict[int, object]] = {}

    def put(self, element: object) -> None:
        self.buffered.append(element)

    def get(self) -> None:
        self.wanted += 1

    def snapshot(self) -> Counts | None:
        if not self.buffered and not self.wanted:
            return None
        self.asked = (self.buffered, self.wanted)
        self.buffered, self.wanted = [], 0
        return Counts(len(self.asked[0]), self.asked[1])

    def granted(self, grant: Counts) -> Sequence[Store | Fetch]:
        elements, gets = self.asked
        self.asked = ([], 0)
        wishes: list[Store | Fetch] = []
        for at, element in enumerate(elements, grant.puts):
            self.unkept.add(at)
            self.placed[at] = element
            wishes.append(Store(at, slot(at), element))
        for at in range(grant.gets, grant.gets + gets):
            self.open_gets.add(at)
            wishes.append(Fetch(at, slot(at)))
        return wishes

    def taken_back(self) -> None:
        elements, gets = self.asked
        self.asked = ([], 0)
        self.buffered = elements + self.buffered
        self.wanted += gets

    def kept(self, ticket: int) -> None:
        self.unkept.remove(ticket)

    def got(self, ticket: int, element: object) -> None:
        self.open_gets.remove(ticket)
        self.received[ticket] = element

    @property
    def pending(self) -> bool:
        waiting = self.buffered or self.wanted or self.asked != ([], 0)
        return bool(waiting or self.unkept or self.open_gets)

    def initial(self) -> Counts:
        return Counts()

    def assign(self, state: Counts, batch: Counts) -> tuple[Counts, Counts]:
        return Counts(state.puts + batch.puts, state.gets + batch.gets), state

    def combine(self, batches: Sequence[Counts]) -> Counts:
        return Counts(sum(one.puts for one in batches), sum(one.gets for one in batches))

    def decompose(self, grant: Counts, batches: Sequence[Counts]) -> list[Counts]:
        shares = []
        for batch in batches:
            shares.append(grant)
            grant = Counts(grant.puts + batch.puts, grant.gets + batch.gets)
        return shares
