"""How much one may hold of what many share, while others may come.

Nobody knows beforehand how many will ask, so no fixed part is set aside for each. What one may hold
follows from what is left: who holds much is refused first, and there is room for the next one.
"""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

SHARE: Final = 4
"""One may hold so many times what it leaves free: alone it has four fifths."""


def has_share(held: int, asked: int, free: int, share: int = SHARE) -> bool:
    """Whether one that holds so much may have so much more, where so much is free.

    >>> has_share(0, 79, 100), has_share(0, 81, 100), has_share(60, 10, 40), has_share(0, 30, 40)
    (True, False, True, True)
    >>> has_share(0, 1, 1), has_share(4, 1, 1)
    (True, False)
    """
    return asked <= free and held + asked <= share * (free - asked + 1)


class SharesHeld(Generic[K]):
    """What many share, counted by who has it.

    >>> shared = SharesHeld[str]()
    >>> shared.add("ann", 60)
    >>> shared.has_room("ann", 10, 100), shared.has_room("bob", 10, 100)
    (True, True)
    >>> shared.has_room("ann", 30, 100), shared.has_room("bob", 30, 100)
    (False, True)
    >>> shared.remove("ann", 60); shared.total
    0
    """

    __slots__ = ("_held", "total")

    def __init__(self) -> None:
        self.total = 0
        """What all have together."""
        self._held: dict[K, int] = {}

    def __len__(self) -> int:
        """How many have some."""
        return len(self._held)

    def has_room(self, who: K, asked: int, most: int, share: int = SHARE) -> bool:
        """Whether one may have so much more of so much for all; the first thing of each may."""
        held = self.held(who)
        return has_share(held, asked, most - self.total, share if held else asked)

    def held(self, who: K) -> int:
        """What one has."""
        return self._held.get(who, 0)

    def add(self, who: K, size: int = 1) -> None:
        """It has so much more."""
        self.total += size
        self._held[who] = self._held.get(who, 0) + size

    def remove(self, who: K, size: int = 1) -> None:
        """It has so much less."""
        self.total -= size
        left = self._held[who] - size
        if left:
            self._held[who] = left
        else:
            del self._held[who]
