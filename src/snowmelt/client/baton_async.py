"""A baton as a program holds it, with `await`; `baton.py` tells more of each call."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from snowmelt.client.baton_keeping import AGAIN
from snowmelt.client.baton_steps import TURN_SECONDS, Hold, Home, Want, statuses
from snowmelt.client.holding import Holding
from snowmelt.client.session import TIMEOUT, checked
from snowmelt.client.staying import stays
from snowmelt.client.steps import AsyncPort, run_async
from snowmelt.core.batch import Buffer
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import SECOND, later, seconds
from snowmelt.protocols.baton.calls import BatonStatus
from snowmelt.protocols.baton.settings import baton_name
from snowmelt.runtime.clock import seconds_until, steady_now


class Keeper:
    """What goes on for a cluster's batons while nobody awaits it; a loop keeps no task alive."""

    def __init__(self) -> None:
        self.home = Home()
        """Where all batons of the cluster are asked for."""
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begins it; whoever wants it to end cancels it."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def close(self) -> None:
        """Ends all of it."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class Held(Holding):
    """The baton while it is yours. `Baton.acquire` gives it; release it, or use it in a `with`.

    A task renews it for as long as you hold it, so the loop must not be blocked for longer than its
    lease (5 s).
    """

    def __init__(self, hold: Hold, port: AsyncPort, keeper: Keeper) -> None:
        super().__init__(hold)
        self._port = port
        self._renewal = keeper.start(_renewed(hold, port))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._hold.over and not self._hold.lost:
            return  # given up within
        try:
            await self._give_up(changed=error is None)
        except SnowmeltError as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # what went wrong first is what is to be told

    async def wait_lost(self, timeout: float | None = None) -> bool:
        """Waits until it is over, or for so many seconds; whether it was lost."""
        end = None if timeout is None else later(steady_now(), seconds(max(0.0, checked(timeout))))
        over = asyncio.Event()
        self._hold.watch(over.set)
        while not (self.lost or over.is_set()):
            left = self.seconds_left
            if end is not None:
                left = min(left, seconds_until(end))
                if not left:
                    break
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), left)
        return self.lost

    async def save(self, value: Buffer, *, timeout: float = TIMEOUT) -> None:
        """Sets the value and puts it on a disk: it is there though you die, or your node."""
        await run_async(self._port, self._hold.save(value, timeout))

    async def release(self) -> None:
        """Gives it up, with the value. Raises `BatonLost` when it was lost or given up before."""
        await self._give_up(changed=True)

    async def _give_up(self, *, changed: bool) -> None:
        try:
            await run_async(self._port, self._hold.release(changed=changed))
        finally:
            self._renewal.cancel()


async def _renewed(hold: Hold, port: AsyncPort) -> None:
    """Renews a hold until it is over."""
    pause = seconds_until(hold.renewal)
    try:
        while not hold.over:
            await asyncio.sleep(pause)
            answered = await run_async(port, hold.keep())
            pause = seconds_until(hold.renewal) if answered else AGAIN / SECOND
    finally:
        hold.lose(f"the cluster was closed while baton {hold.name!r} was held")


class Baton:
    """A lock that heals, and carries a value. `cluster.baton(name)` gives it.

    Use it in an `async with`, whose name is then a `Held`, or call `acquire`. Tasks may share one
    `Baton`, each for turns of its own; a task that holds it and asks again waits for itself, in
    vain.
    """

    __reduce__ = stays("send its name and the URL, and connect there")

    def __init__(
        self, port: AsyncPort, keeper: Keeper, name: str, timeout: float = TURN_SECONDS
    ) -> None:
        self.name: Final = baton_name(name)
        self._port = port
        self._keeper = keeper
        self._timeout = checked(timeout)
        self._entered: dict[asyncio.Task[Any] | None, list[Held]] = {}

    def __repr__(self) -> str:
        return f"Baton({self.name!r})"

    async def __aenter__(self) -> Held:
        held = await self.acquire()
        self._entered.setdefault(asyncio.current_task(), []).append(held)
        return held

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task = asyncio.current_task()
        held = self._entered[task].pop()
        if not self._entered[task]:
            del self._entered[task]
        await held.__aexit__(kind, error, traceback)

    async def acquire(self, timeout: float | None = None) -> Held:
        """Waits for a turn, as long as the baton's own `timeout` if none is given.

        Raises `NotGranted` when it does not come in time. Cancelled, it gives up its place.
        """
        want = Want(self._keeper.home, self.name, self._timeout if timeout is None else timeout)
        try:
            hold = await run_async(self._port, want.granted())
        except asyncio.CancelledError:
            self._keeper.start(run_async(self._port, want.withdraw()))
            raise
        return Held(hold, self._port, self._keeper)

    async def status(self, *, timeout: float = TIMEOUT) -> list[BatonStatus]:
        """How each node of the cluster that answers sees it; none of them sees the whole."""
        return await run_async(self._port, statuses(self.name, timeout))
