"""The loops over queues that have not ended: they end with their cluster, and with the program."""

import atexit
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from snowmelt.core.errors import SnowmeltError


class Loop(Protocol):
    def end_of(self, port: Any) -> None:
        """Ends it when it is of this port, which is about to be closed, or whatever its port."""


class Endable(Protocol):
    """What is to be ended before its port is closed."""

    def end(self) -> None:
        """Ends it, if it has not ended."""


_OPEN: Final[WeakValueDictionary[int, Loop]] = WeakValueDictionary()


def opened(loop: Loop) -> None:
    _OPEN[id(loop)] = loop


def end_loops(port: Any = None) -> None:
    """Ends the loops over a cluster's queues, or all there are; what they gathered is acknowledged.

    Raises what the first of them could not acknowledge, once all have ended.
    """
    failures: list[SnowmeltError] = []
    for reference in _OPEN.valuerefs():
        loop = reference()
        if loop is not None:
            try:
                loop.end_of(port)
            except SnowmeltError as failure:
                failures.append(failure)
    if failures and port is not None:  # else the program ends, and it is logged
        raise failures[0]


atexit.register(end_loops)  # later there is no thread any more that could tell
