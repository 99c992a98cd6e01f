"""What a fork leaves to the child: whoever must change there is told, right after the fork.

A child begins with all objects of its parent, and none of its threads. `connection.forking` has the
rules of what becomes of them. `watch` has an object made anew in each child; an `Origin` knows
whether it is in the process that it was made in.
"""

import logging
import os
from typing import Final, Protocol
from weakref import WeakSet

from snowmelt.core.errors import Closed
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


def _in_child() -> None:
    _PROCESS.forks += 1
    for one in list(_PROCESS.watched):
        try:
            one.forked()
        except Exception as error:  # the others must hear of it all the same
            tell("a fork left disorder", logging.ERROR, of=type(one).__name__, reason=repr(error))


os.register_at_fork(after_in_child=_in_child)
