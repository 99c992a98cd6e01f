"""What a fork leaves to the child: nothing that is its parent's.

A child begins with all objects of its parent. Would it use them, the node could not tell the two
apart: puts under one producer's numbers, acknowledgements under one lease, two programs with one
baton. So there is one rule, for every kind of handle:

1. What only names something works in the child as if it were made there: a cluster, a queue, a
   baton or a topic that nobody holds. It has connections of its own, and a producer of its own.
2. What was given to the parent stays the parent's, and says so in the child: items and their
   leases, loops over a queue, batons held, groups, subscriptions. So does what can't be had twice:
   an open folder, an event loop's connections, a part in a pool, a named producer's own count.
3. A child never writes to its parent's connections. It closes its copies of them at once, so that
   nodes see when the parent ends; and however the child ends, nothing of its parent's is touched.

`watch` has an object made anew in each child, right after the fork; an `Origin` knows whether it is
in the process that it was made in.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from snowmelt.client.connection.steps import AsyncEndable, KeepingPort, Port, Query, each
from snowmelt.core.names import NodeId
from snowmelt.runtime.forks import Forked, Origin, watch

__all__ = ["Forked", "KeepingOwn", "Origin", "Own", "watch"]


class Own:
    """A port for what only the process that made it may go on with."""

    def __init__(self, port: Port, what: str, way_out: str) -> None:
        self.shared = port
        """What others use as well."""
        self._what = what
        self._way_out = way_out
        self._origin = Origin()

    def call(self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0) -> Any:
        """Calls, waits, and returns the answer's body; raises what went wrong."""
        self._origin.check(self._what, self._way_out)
        return self.shared.call(body, timeout, target, weight)

    def call_all(self, queries: Sequence[Query]) -> list[Any]:
        """What came of each: its answer, or an error of ours in its place."""
        self._origin.check(self._what, self._way_out)
        return each(self.shared, queries)


class KeepingOwn:
    """The same on an event loop."""

    def __init__(self, port: KeepingPort, what: str, way_out: str) -> None:
        self._port = port
        self._what = what
        self._way_out = way_out
        self._origin = Origin()

    async def call(
        self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0
    ) -> Any:
        """Calls, waits, and returns the answer's body; raises what went wrong."""
        self._origin.check(self._what, self._way_out)
        return await self._port.call(body, timeout, target, weight)

    def check_loop(self) -> None:
        self._port.check_loop()

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        self._port.keep(work)

    def before_closing(self, one: AsyncEndable) -> None:
        self._port.before_closing(one)

    def leave(self, task: asyncio.Task[Any]) -> None:
        self._port.leave(task)
