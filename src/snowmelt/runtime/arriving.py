"""Room for large frames: what all clients of a process together may have begun to send.

A frame takes memory from its first byte, and only when its last has come is anything known of it.
So one connection is bounded by the largest frame, and many together by the ledger's
`Cost.ARRIVING`. It is a machine without a clock and without sockets; who asks is a connection.

1. A frame of more than `LARGE` bytes that has not come in one piece has its *place* before more of
   it is read: its whole size counts from then until it is whole, or its connection ends.
2. Who finds no room waits in line. Sessions are served in turn, one frame each.
3. Whoever holds nothing and finds no room is passed by nobody else, or whoever is small would come
   first for ever. There are two exceptions. Who holds something is passed by all: its own frames
   end first. Who holds nothing, but its owner does, is passed by other owners; sessions of its
   owner pass with `SMALL` frames, up to `PASSING` of the total.
4. When nothing is held the first in line has its place, whatever its size.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from snowmelt.runtime.ledger import Cost, CostLedger, Payer

LARGE: Final = 64 << 10
PASSING: Final = 16
"""So small a part of the total may be held by those that passed; `SMALL` is a part of that."""
SMALL: Final = 8
Who = TypeVar("Who", bound=Hashable)


class Arriving(Generic[Who]):
    """Of one process.

    >>> arriving = Arriving[str](CostLedger({Cost.ARRIVING: 100}))
    >>> ann, bob = Payer("a", "ann"), Payer("b", "bob")
    >>> arriving.ask("a1", ann, 60), arriving.ask("a2", ann, 20), arriving.ask("b1", bob, 20)
    (True, False, True)
    >>> arriving.waiting, arriving.leave("a1")
    (1, ['a2'])
    """

    def __init__(self, ledger: CostLedger) -> None:
        self._ledger = ledger
        self._held: dict[Who, tuple[Payer, int]] = {}
        self._lines: OrderedDict[Payer, deque[tuple[Who, int]]] = OrderedDict()
        """Who waits, by payer: the first is whose turn it is."""
        self._passed: set[Who] = set()
        """Of those that have their place, who passed a session of its owner."""

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, self._lines.values()))

    def ask(self, who: Who, payer: Payer, size: int) -> bool:
        """A frame of this size begins to come; whether it has its place, or waits for it."""
        assert who not in self._held
        self._lines.setdefault(payer, deque()).append((who, size))
        has_place = who in self._served()
        if not has_place:
            self._ledger.refuse(Cost.ARRIVING)
        return has_place

    def leave(self, who: Who) -> list[Who]:
        """Its frame is whole, or will never be; who has a place now that waited."""
        held = self._held.pop(who, None)
        if held is not None:
            self._passed.discard(who)
            self._ledger.give(Cost.ARRIVING, *held)
        else:
            self._leave_line(who)
        return self._served() if self._lines else []

    def check(self) -> None:
        """What is held is bounded, and nobody waits without need."""
        used, total = self._ledger.used(Cost.ARRIVING), self._ledger.total(Cost.ARRIVING)
        assert used == sum(size for _, size in self._held.values())
        assert used <= total or len(self._held) == 1
        assert all(self._lines.values())
        assert self._passed <= self._held.keys()
        assert self._held or not self._lines
        assert not self._served(), "somebody waits and need not"

    def _leave_line(self, who: Who) -> None:
        for payer, line in self._lines.items():
            for one in line:
                if one[0] == who:
                    line.remove(one)
                    if not line:
                        del self._lines[payer]
                    return

    def _served(self) -> list[Who]:
        served = list[Who]()
        while (found := self._next()) is not None:
            payer, passes = found
            who, size = self._lines[payer].popleft()
            if self._lines[payer]:
                self._lines.move_to_end(payer)  # rule 2
            else:
                del self._lines[payer]
            self._held[who] = payer, size
            self._ledger.charge(Cost.ARRIVING, payer, size)
            if passes:
                self._passed.add(who)
            served.append(who)
        return served

    def _next(self) -> tuple[Payer, bool] | None:
        """Who has its place next, and whether it passes a session of its owner (rule 3)."""
        ledger, crowded = self._ledger, set[str]()
        for payer, line in self._lines.items():
            size = line[0][1]
            passes = payer.owner in crowded
            if not self._held or (
                ledger.fits(Cost.ARRIVING, payer, size) and (not passes or self._is_small(size))
            ):
                return payer, passes
            if ledger.of_payer(Cost.ARRIVING, payer):
                continue
            if ledger.of_owner(Cost.ARRIVING, payer.owner) <= self._passed_of(payer.owner):
                return None
            crowded.add(payer.owner)
        return None

    def _is_small(self, size: int) -> bool:
        room = self._ledger.total(Cost.ARRIVING) // PASSING
        passed = sum([self._held[one][1] for one in self._passed])
        return size * SMALL <= room and size + passed <= room

    def _passed_of(self, owner: str) -> int:
        """What sessions of an owner hold that passed another of it."""
        held = [self._held[one] for one in self._passed]
        return sum([size for payer, size in held if payer.owner == owner])
