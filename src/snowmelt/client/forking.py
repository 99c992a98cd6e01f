"""What a fork leaves to the child: nothing that is its parent's.

A child begins with all objects of its parent. Would it use them, the node could not tell the two
apart: puts under one producer's numbers, acknowledgements under one lease, two programs with one
baton. So there is one rule, for every kind of handle:

1. What only names something works in the child as if it were made there: a cluster, a queue, a
   baton or a topic that nobody holds. It has connections of its own, and a producer of its own.
2. What was given to the parent stays the parent's, and says so in the child: items and their
   leases, loops over a queue, batons held, groups, subscriptions; and what can't be had twice: an
   open folder, an event loop's connections, a part in a pool, a named producer's own count.
3. A child never writes to its parent's connections. It closes its copies of them at once, so that
   nodes see when the parent ends; and however the child ends, nothing of its parent's is touched.

`watch` has an object made anew in each child, right after the fork; an `Origin` knows whether it is
in the process that it was made in.
"""

import logging
import os
from typing import Any, Final, Protocol
from weakref import WeakSet

from snowmelt.client.steps import Port
from snowmelt.core.errors import Closed
from snowmelt.core.names import NodeId
from snowmelt.runtime.logs import tell


class Forked(Protocol):
    """What must change in a child."""

    def forked(self) -> None:
        """This is a child; no other thread is here, and locks may be held by those that are not."""


class _Process:
    """This process: how many forks it is away from the first one."""

    def __init__(self) -> None:
        self.forks = 0
        self.watched: WeakSet[Forked] = WeakSet()


_PROCESS: Final = _Process()


def watch(one: Forked) -> None:
    """Has it told in every child, for as long as it lives."""
    _PROCESS.watched.add(one)


class Origin:
    """The process that something was made in."""

    __slots__ = ("_forks",)

    def __init__(self) -> None:
        self._forks = _PROCESS.forks

    @property
    def left(self) -> bool:
        """Whether this is a child of that process."""
        return self._forks != _PROCESS.forks

    def check(self, what: str, way_out: str) -> None:
        """Raises `Closed` in a child.

        >>> Origin().check("this loop", "begin another")
        """
        if self._forks != _PROCESS.forks:
            raise Closed(f"{what} belongs to the process that this one was forked from; {way_out}")


class Own:
    """A port for what only the process that made it may go on with."""

    def __init__(self, port: Port, what: str, way_out: str) -> None:
        self._port = port
        self._what = what
        self._way_out = way_out
        self._origin = Origin()

    def call(self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0) -> Any:
        """Calls, waits, and returns the answer's body; raises what went wrong."""
        self._origin.check(self._what, self._way_out)
        return self._port.call(body, timeout, target, weight)


def _in_child() -> None:
    _PROCESS.forks += 1
    for one in list(_PROCESS.watched):
        try:
            one.forked()
        except Exception as error:  # the others must hear of it all the same
            tell("a fork left disorder", logging.ERROR, of=type(one).__name__, reason=repr(error))


os.register_at_fork(after_in_child=_in_child)
