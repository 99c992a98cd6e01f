"""What is leased to a channel and not settled, and how much more may be (rule 10)."""

import threading
from collections.abc import Iterable
from typing import Any, Final

import snowmelt

UNLIMITED: Final = 100
"""So many messages of a channel without `prefetch_count` are leased at a time, and wait here."""


class HeldMessages:
    """Items by their tags, also those that no consumer has heard of yet; threads share it."""

    def __init__(self) -> None:
        self._items: dict[int, tuple[Any, Any]] = {}
        """Each with its consumer, or None."""
        self._kept = 0
        """So many places are kept for what is leased instead of what was there."""
        self._prefetch = 0
        self._closed = False
        self._change = threading.Condition()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._items)

    def limit(self, prefetch: int) -> None:
        """No more than so many; 0 is no limit of the program's."""
        with self._change:
            self._prefetch = prefetch
            self._change.notify_all()

    def wake(self) -> None:
        with self._change:
            self._change.notify_all()

    def room(self, timeout: float) -> int:
        """How many more may be leased, waiting until it is one; 0 when it is none."""
        with self._change:
            self._change.wait_for(self._left, timeout)
            return self._left()

    def add(self, tag: int, item: Any, consumer: Any = None) -> None:
        with self._change:
            self._items[tag] = item, consumer

    def swap(self, tag: int) -> tuple[Any, Any, int] | None:
        """The item of a tag, its consumer, and how many may be leased in its place.

        That place is kept until `swapped`.
        """
        with self._change:
            self._check_open()
            found = self._items.pop(tag, None)
            if found is None:
                return None
            room = self._left()
            self._kept += 1
            return *found, room

    def swapped(self) -> None:
        """Others may have the place, where nothing came."""
        with self._change:
            self._kept -= 1
            self._change.notify_all()

    def settle(self, tag: int, *, multiple: bool = False) -> list[Any]:
        """The item of a tag, or all up to it; raises `LeaseLost` once the channel is closed."""
        with self._change:
            self._check_open()
            return self._taken([one for one in self._items if one <= tag] if multiple else [tag])

    def take_back(self, tags: Iterable[int]) -> list[Any]:
        """Those of these that are held."""
        with self._change:
            return self._taken(tags)

    def take_all(self) -> list[Any]:
        with self._change:
            return self._taken(list(self._items))

    def close(self) -> None:
        with self._change:
            self._closed = True
            self._items.clear()
            self._change.notify_all()

    def _left(self) -> int:
        return max(0, (self._prefetch or UNLIMITED) - len(self._items) - self._kept)

    def _check_open(self) -> None:
        if self._closed:
            raise snowmelt.LeaseLost("the channel was closed, and its messages went back")

    def _taken(self, tags: Iterable[int]) -> list[Any]:
        items = [self._items.pop(tag)[0] for tag in tags if tag in self._items]
        self._change.notify_all()
        return items
