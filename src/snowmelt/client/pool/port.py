"""How threads ask their process' part in a pool."""

from typing import Any

from snowmelt.client.pool.loop_state import ObjectLoopState
from snowmelt.client.pool.open_pools import PoolPortBase
from snowmelt.client.pool.steps import check_kept
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.calls import PoolPut
from snowmelt.runtime.bell import Bell
from snowmelt.runtime.clock import seconds_until
from snowmelt.runtime.peer.asking import PendingCall


class PoolPort(PoolPortBase):
    """A port to one process' part in a pool."""

    def call(self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0) -> Any:
        del target, weight
        return self.ask(body, timeout).take()

    def ask(self, body: Any, timeout: float) -> PendingCall:
        """The same; the answer stays where it goes back by itself if nobody takes it."""
        self.check()
        return self._engine.ask(body, timeout)

    def put(self, put: PoolPut, timeout: float) -> None:
        """Returns when one object is kept."""
        self.check()
        if not self._engine.put_ahead(put):
            check_kept(self.call(put, timeout), timeout)

    def wait(self, state: ObjectLoopState, until: Instant) -> None:
        """Until there is something for a loop to look at, or the time is over."""
        self.check()
        self._engine.check()
        bell = Bell()
        if not state.ready(bell):
            bell.wait(seconds_until(until))
