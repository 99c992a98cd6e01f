"""Places for objects that a pool's machine has told of ahead (rule 19 of `protocols/pool`).

Whoever takes one has room for one object. He fills it, and leaves it as a word for the owner; both
are one step, without a lock. Should he be interrupted between them, or find it too small, he drops
it: then it says by itself that it is given up.
"""

from collections import deque
from typing import Any

from snowmelt.protocols.pool.calls import Ahead, GiveUp
from snowmelt.runtime.peer.asking import ObjectSlot, Words


class FreeSlots:
    """Those that nobody has taken.

    >>> words = Words(lambda: None)
    >>> places = FreeSlots(words)
    >>> places.told(Ahead(2, 100))
    >>> places.leave(places.take(70), "what is put")
    >>> places.told(Ahead(0, 0)), list(words.take())
    (None, ['what is put', GiveUp(size=100)])
    """

    def __init__(self, words: Words) -> None:
        self._words = words
        self._free: deque[ObjectSlot] = deque()

    def __bool__(self) -> bool:
        return bool(self._free)

    def told(self, ahead: Ahead) -> None:
        """In the owner's thread: there are more, or none."""
        for _ in range(ahead.count):
            place = ObjectSlot(ahead.size)
            place.watch = self._words.watch(place, GiveUp(ahead.size))
            self._free.append(place)
        if not ahead.count:
            self._free.clear()

    def take(self, size: int) -> ObjectSlot | None:
        """One for an object of this size, if there is any."""
        try:
            place = self._free.popleft()
        except IndexError:
            return None
        return place if size <= place.size else None

    def leave(self, place: ObjectSlot, word: Any) -> None:
        place.word = word
        self._words.leave(place)
