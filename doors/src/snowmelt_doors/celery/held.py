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
        self._items: dict[int, Any] = {}
        self._prefetch = 0
        self._closed = False
        self._change = threading.Condition()

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

    def add(self, tag: int, item: Any) -> None:
        with self._change:
            self._items[tag] = item

    def settle(self, tag: int, *, multiple: bool = False) -> list[Any]:
        """The item of a tag, or all up to it; raises `LeaseLost` once the channel is closed."""
        with self._change:
            if self._closed:
                raise snowmelt.LeaseLost("the channel was closed, and its messages went back")
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
        return max(0, (self._prefetch or UNLIMITED) - len(self._items))

    def _taken(self, tags: Iterable[int]) -> list[Any]:
        items = [self._items.pop(tag) for tag in tags if tag in self._items]
        self._change.notify_all()
        return items
