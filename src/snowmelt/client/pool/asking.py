"""How threads ask their process' part in a pool."""

from typing import Any

from snowmelt.client.pool.catching import Catch
from snowmelt.client.pool.parts import Part
from snowmelt.core.errors import Closed
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.calls import CLOSED
from snowmelt.runtime.bell import Bell
from snowmelt.runtime.clock import seconds_until
from snowmelt.runtime.peer.asking import Asked


class Asking:
    """A port to one process' part in a pool."""

    def __init__(self, part: Part) -> None:
        self._engine = part.engine
        self._closed = False

    def close(self) -> None:
        """Nothing is asked through this one any more; the part may go on for others."""
        self._closed = True

    def check(self) -> None:
        """Raises `Closed` when it is."""
        if self._closed:
            raise Closed(CLOSED)
        self._engine.check()

    def call(self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0) -> Any:
        del target, weight
        return self.ask(body, timeout).take()

    def ask(self, body: Any, timeout: float) -> Asked:
        """The same; the answer stays where it goes back by itself if nobody takes it."""
        self.check()
        return self._engine.ask(body, timeout)

    def wait(self, catch: Catch, until: Instant) -> None:
        """Until there is something for a loop to look at, or the time is over."""
        self.check()
        bell = Bell()
        if not catch.ready(bell):
            bell.wait(seconds_until(until))
