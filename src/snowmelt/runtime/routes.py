"""Which connection leads to whom: between two nodes there may be several, by what is said on them.

A stream keeps its order. A heartbeat that followed some megabytes of copies would come when those
have been read, which may be after its sender is out of the view. So some words have a connection of
their own (`part`); the rest have one together.
"""

import asyncio
from collections import deque
from collections.abc import Collection
from typing import Any

from snowmelt.core.names import NodeId
from snowmelt.runtime.connection import LoopConnection


class TargetRoute:
    """The way to one target: an open connection, or a dial under way with what waits for it."""

    __slots__ = ("connection", "dial", "failures", "not_before", "waiting")

    def __init__(self) -> None:
        self.connection: LoopConnection | None = None
        self.dial: asyncio.Task[None] | None = None
        self.waiting: deque[Any] = deque()
        self.failures = 0
        self.not_before = 0.0


Lane = dict[NodeId, TargetRoute]
"""The routes of some words, by target."""


class Routes:
    """All of one process.

    >>> routes = Routes()
    >>> routes.part((int,))
    >>> routes.parted.get(int, routes.general) is routes.general, len(routes.all)
    (False, 2)
    """

    def __init__(self) -> None:
        self.general: Lane = {}
        """Of all words that have no connection of their own."""
        self.parted: dict[type, Lane] = {}
        """Of those that have, by word."""
        self.all = [self.general]

    def part(self, words: Collection[type]) -> None:
        """These have a connection of their own between two nodes, behind no others."""
        lane: Lane = {}
        self.all.append(lane)
        self.parted.update(dict.fromkeys(words, lane))

    def failures(self, target: NodeId) -> int:
        """How often this one was dialled in vain since it was reached last."""
        return sum([lane[target].failures for lane in self.all if target in lane])

    def names(self, connection: LoopConnection) -> list[NodeId]:
        """Who is reached by it, under each of its names."""
        each = (one for lane in self.all for one in lane.items())
        return list(dict.fromkeys(name for name, route in each if route.connection is connection))
