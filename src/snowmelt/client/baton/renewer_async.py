"""Who renews what a process holds at the nodes of a cluster, on an event loop: a task.

It follows the plan (`renewals.py`), through the connections that all calls of its cluster share.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from snowmelt.client.baton.holding import DropNotice
from snowmelt.client.baton.renewals import LOOK, RenewalPlan
from snowmelt.client.baton.steps import AcquireRequest, BatonHold, CurrentNode
from snowmelt.client.connection.bound import until_set
from snowmelt.client.connection.forking import Origin
from snowmelt.client.connection.steps import KeepingPort, Steps, run_async
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import Instant, later
from snowmelt.runtime.clock import seconds_until, steady_now

Way: TypeAlias = KeepingPort
"""What a hold comes by, and is given up by."""


class Wakeup:
    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def wait(self, timeout: float) -> None:
        await until_set(self._rung, timeout)


class HoldRenewer:
    """The task that renews what is held of a cluster's batons; `renewals.py` has the plan."""

    def __init__(self, port: KeepingPort) -> None:
        self.home = CurrentNode()
        """Where all batons of the cluster are asked for."""
        self.port = port
        self._plan = RenewalPlan()
        self._words: deque[DropNotice] = deque()
        self.leave: Callable[[DropNotice], None] = self._words.append
        """Takes the notice of a dropped holder; the task reads it now and then, or when woken."""
        self._sooner = asyncio.Event()
        self._next = Instant(0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._origin = Origin()

    def way(self) -> Way:
        return self.port

    def in_vain(self, want: AcquireRequest, way: Way, error: BaseException) -> None:
        del way, error
        if want.open:
            self._give_back(want.withdraw())

    def begin(self, hold: BatonHold, way: Way) -> None:
        """It is held from now on, and renewed until it is over."""
        del way
        self._plan.add(hold)
        if hold.renewal < self._next:
            self._sooner.set()
        if self._task is None:
            self._loop = asyncio.get_running_loop()
            self.port.before_closing(self)
            self._task = self._loop.create_task(self._work())
            self._task.add_done_callback(self._done)

    def done(self, hold: BatonHold, way: Way) -> None:
        """Its holder is done with it, or was interrupted: then it is given up behind the scenes."""
        if not hold.settled:
            self.dropped(hold, way)

    def dropped(self, hold: BatonHold, way: Way) -> None:
        """It is given up behind the scenes."""
        del way
        self._give_back(hold.give_back())

    def _give_back(self, work: Steps[None]) -> None:
        """Where somebody was cancelled who wanted or held something.

        Where no loop runs, there is none that could.
        """
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            self.port.keep(_tried(self.port, work))

    def look(self) -> None:
        """There may be a word; from within the collector of garbage, which is in any thread."""
        if self._loop is not None and not self._origin.left:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._sooner.set)

    def lose(self) -> None:
        """The cluster is closed; what is held still is over."""
        self._plan.close()

    async def end(self) -> None:
        self.lose()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _done(self, _: asyncio.Task[None]) -> None:
        self._task = None

    async def _work(self) -> None:
        idle = False
        while True:
            due = self._plan.next(steady_now())
            while self._words:
                self._give_back(self._words.popleft().hold.give_back())
            if isinstance(due, list):
                await run_async(self.port, self._plan.renew(due))
                continue
            if due is None and idle:
                return
            idle = due is None
            self._next = later(steady_now(), LOOK) if due is None else due
            self._sooner.clear()
            await until_set(self._sooner, seconds_until(self._next))


async def _tried(port: KeepingPort, work: Steps[None]) -> None:
    with suppress(SnowmeltError):
        await run_async(port, work)
