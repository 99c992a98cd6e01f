"""Waiting for many sockets at once, with as little in the way as there can be."""

import select
import selectors
from collections.abc import Iterable
from math import ceil
from typing import Any, Final, Protocol

from snowmelt.core.instant import MILLISECOND

READ: Final = selectors.EVENT_READ
WRITE: Final = selectors.EVENT_WRITE


class Pollable(Protocol):
    def fileno(self) -> int: ...


class EpollPoller:
    """On Linux. One thread waits at a time; others may change what for."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._out = select.EPOLLOUT
        self._owners: dict[int, Any] = {}

    def add(self, stream: Pollable, owner: Any, *, edge: bool = False) -> None:
        """Waits until it can be read; or, by edges, until more can be."""
        self._owners[stream.fileno()] = owner
        self._epoll.register(stream.fileno(), select.EPOLLIN | (select.EPOLLET if edge else 0))

    def change(self, stream: Pollable, owner: Any, *, write: bool) -> None:
        """Waits until it can be written as well, or no more."""
        del owner
        mask = select.EPOLLIN | select.EPOLLOUT if write else select.EPOLLIN
        self._epoll.modify(stream.fileno(), mask)

    def remove(self, stream: Pollable) -> None:
        """Waits for it no more."""
        del self._owners[stream.fileno()]
        self._epoll.unregister(stream.fileno())

    def wait(self, nanoseconds: int) -> Iterable[tuple[Any, int]]:
        """The owners of those that are ready, and for what; a millisecond late at most."""
        ready = self._epoll.poll(nanoseconds / 1e9 if nanoseconds > 0 else 0)
        owner, out = self._owners.get, self._out
        # One that was removed meanwhile is nobody's; an error or an end shows when it is read.
        return [
            (owner(number), READ if not mask & out else WRITE | (mask != out))
            for number, mask in ready
        ]

    def close(self) -> None:
        """Ends it; nobody may be waiting."""
        self._epoll.close()


class SelectorPoller:
    """The same elsewhere; by edges it does not."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def add(self, stream: Pollable, owner: Any, *, edge: bool = False) -> None:
        del edge
        self._selector.register(stream, READ, owner)

    def change(self, stream: Pollable, owner: Any, *, write: bool) -> None:
        self._selector.modify(stream, READ | WRITE if write else READ, owner)

    def remove(self, stream: Pollable) -> None:
        self._selector.unregister(stream)

    def wait(self, nanoseconds: int) -> Iterable[tuple[Any, int]]:
        seconds = max(0, ceil(nanoseconds / MILLISECOND)) / 1e3
        return [(key.data, mask) for key, mask in self._selector.select(seconds)]

    def close(self) -> None:
        self._selector.close()


Poller = EpollPoller | SelectorPoller


def new_poller() -> Poller:
    """The best there is on this system."""
    return EpollPoller() if hasattr(select, "epoll") else SelectorPoller()
