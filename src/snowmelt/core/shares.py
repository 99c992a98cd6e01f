"""How much one may hold of what many share, while others may come.

Nobody knows beforehand how many will ask, so no fixed part is set aside for each. What one may hold
follows from what is left: who holds much is refused first, and there is room for the next one.
"""

from typing import Final

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
