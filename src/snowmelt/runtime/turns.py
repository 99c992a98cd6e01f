"""How long the turns of a driver take: by the clock, and of the processor.

While a turn lasts the node hears nobody. By the clock that includes what the system gave to other
programs meanwhile; what this program is responsible for is the processor's time. Asking for that is
a call to the system, of microseconds on some: so it is asked for only where the last answer is not
fresh, and what the thread did since that answer is counted to the turn. It is too much by `FRESH`
at most, and never too little.
"""

import logging
from time import perf_counter, thread_time
from typing import Any, Final

from snowmelt.core.node import Announced, Event, Expired, Received, Requested
from snowmelt.protocols.calling import Call
from snowmelt.runtime.logs import LOG, tell

FRESH: Final = 0.002
LONG: Final = 0.02
"""Turns that take so much of the processor are told, one by one, where the log has `debug`."""


class Turns:
    """The longest of them.

    >>> turns = Turns()
    >>> _ = turns.begin(),  sum(range(500_000)); turns.end(Expired(None))
    >>> 0 < turns.longest_cpu <= turns.longest, turns.longest_event
    (True, 'Expired NoneType')
    """

    def __init__(self) -> None:
        self.longest = 0.0
        """Seconds by the clock of the longest one."""
        self.longest_cpu = 0.0
        """Seconds of the processor of the one that took most of those."""
        self.longest_event = ""
        """What that one was about."""
        self._began = 0.0
        self._asked = -1.0
        self._cpu = 0.0

    def begin(self) -> float:
        """A turn begins, at this moment of `perf_counter`."""
        now = perf_counter()
        if now - self._asked > FRESH:
            self._cpu, self._asked = thread_time(), now
        self._began = now
        return now

    def end(self, event: Event[Any]) -> None:
        """The turn that this event began is over."""
        took = perf_counter() - self._began
        if took <= self.longest_cpu and took < LONG:
            return
        cpu = min(took, thread_time() - self._cpu)
        self.longest = max(self.longest, took)
        if cpu > self.longest_cpu:
            self.longest_cpu, self.longest_event = cpu, named(event)
        if cpu > LONG and LOG.isEnabledFor(logging.DEBUG):
            fields = {"about": named(event), "seconds": round(took, 4), "cpu": round(cpu, 4)}
            tell("a long turn", logging.DEBUG, **fields)


def named(event: Event[Any]) -> str:
    """What an event is, in a word or two.

    >>> from snowmelt.core.names import NodeId, OperationId
    >>> named(Received(NodeId("n1"), Call(7, "put")))
    'Call str'
    """
    match event:
        case Received(_, Call(_, body)):
            return f"Call {type(body).__name__}"
        case Received(_, message):
            return f"Received {type(message).__name__}"
        case Requested(_, body):
            return f"Requested {type(body).__name__}"
        case Announced(fact):
            return f"Announced {type(fact).__name__}"
        case Expired(timer):
            return f"Expired {type(timer).__name__}"
        case _:
            return type(event).__name__
