"""One run of a worker with `await`: its tasks, and how it ends."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from snowmelt.client.connection.bound import until_set
from snowmelt.client.leases.item_source_async import ItemSource
from snowmelt.client.leases.items_async import Item
from snowmelt.client.leases.looping import PASSING, LoopDeadline
from snowmelt.client.pool.face_async import Pool
from snowmelt.client.pool.objects_async import Object
from snowmelt.client.tracing import UNTRACED, Tracing
from snowmelt.client.worker.limits import over_text
from snowmelt.client.worker.loop import POLL_SECONDS, RunLog, tell_failed, tell_untold
from snowmelt.client.worker.options import LAST_SECONDS, REACH_SECONDS, WorkerSettings
from snowmelt.core.errors import Empty, SnowmeltError
from snowmelt.core.instant import Instant, later, seconds
from snowmelt.runtime.clock import seconds_until, steady_now
from snowmelt.runtime.logs import tell


class WorkerLoop:
    """One run: tasks that take items, have the handler work, and say what came of it."""

    def __init__(
        self,
        name: str,
        intake: ItemSource | Pool,
        handler: Callable[[Any], Any],
        settings: WorkerSettings,
        idle: float | None,
        tracing: Tracing = UNTRACED,
    ) -> None:
        self._name = name
        self._intake = intake
        self._handler = handler
        self._settings = settings
        self._idle = idle
        self._tracing = tracing
        self._pursuit = LoopDeadline(name, None, REACH_SECONDS)
        self._chance = Random()
        self._over = asyncio.Event()
        self._hard = False
        self._cancels = False
        self._failure: BaseException | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._resting: asyncio.Task[None] | None = None
        self._ending: asyncio.Timeout | None = None
        self._tally = RunLog(name, settings)
        self._hands: dict[int, Item | Object] = {}
        """What handlers work on."""
        self._since = steady_now()  # something came, or was over
        self._late = self._graced()
        """When `grace` is over, once it is to end."""

    def stop(self, *, hard: bool = False) -> None:
        """It is to end, warmly (rule 4 of the package), or at once."""
        self._over.set()
        if hard:
            self._hard = True
            self._cancel()
            if self._ending is not None and not self._ending.expired():
                soon = asyncio.get_running_loop().time() + LAST_SECONDS / 2
                self._ending.reschedule(soon)

    async def work(self) -> None:
        """Works until `stop`, or until nothing came for long; raises what ended it."""
        self._tally.begin()
        self._tasks = [
            asyncio.create_task(self._serve(), name=f"snowmelt-worker-{number}")
            for number in range(self._settings.at_once)
        ]
        patience = POLL_SECONDS
        try:
            await self._over.wait()
            self._tally.stop(len(self._hands))
            self._late = self._graced()
            self._resting = asyncio.create_task(self._rest())
            _, left = await asyncio.wait(self._tasks, timeout=seconds_until(self._late))
            if left and not self._hard:
                told = {"queue": self._name, "handlers": len(left)}
                tell("a worker gave up its handlers", logging.WARNING, **told)
            patience = LAST_SECONDS / 2
        finally:
            if not self._over.is_set():
                self._late = self._graced()
            self._over.set()  # also for a handler that does not end when it is cancelled
            self._cancel()
            try:
                await asyncio.wait(self._tasks, timeout=patience)
            finally:  # whoever cancels this once more
                await self._end()
                self._tally.end()
        if self._failure is not None:
            raise self._failure

    def _cancel(self) -> None:
        self._cancels = True
        for task in self._tasks:
            task.cancel()

    def _graced(self) -> Instant:
        return later(steady_now(), seconds(self._settings.grace))

    async def _rest(self) -> None:
        if isinstance(self._intake, ItemSource):
            with suppress(SnowmeltError):  # then when it is closed, or the lease ends
                await self._intake.rest()

    async def _end(self) -> None:
        """What is in hand goes back. A second signal leaves that a moment, and so does `grace`."""
        warm = 0.0 if self._hard else seconds_until(self._late)
        with suppress(TimeoutError):
            async with asyncio.timeout(warm + LAST_SECONDS / 2) as self._ending:
                await self._close()
        if self._resting is not None:
            self._resting.cancel()

    async def _close(self) -> None:
        if isinstance(self._intake, ItemSource):
            await self._intake.close()
        for held in list(self._hands.values()):
            if isinstance(held, Object) and held.open:
                with suppress(SnowmeltError):
                    await held.nack()

    # --- in a task --------------------------------------------------------------------------------

    async def _serve(self) -> None:
        try:
            while not self._over.is_set():
                try:
                    held = await self._next()
                except asyncio.CancelledError:
                    await self._go_on()
                    continue
                if held is not None:
                    await self._attend(held)
                elif self._idle_for_long():
                    break
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # a task that raised what stops programs would stop its loop
            self._failure = self._failure or error
        self._over.set()

    async def _next(self) -> Item | Object | None:
        most = POLL_SECONDS if self._idle is None else min(POLL_SECONDS, self._idle)
        try:
            held = await self._taken(most)
        except PASSING as error:
            await until_set(self._over, self._pursuit.failed(error))
            if not self._pursuit.reached:  # it is not idle yet
                self._since = steady_now()
            return None
        self._pursuit.answered()
        return held

    async def _taken(self, timeout: float) -> Item | Object | None:
        if isinstance(self._intake, ItemSource):
            return await self._intake.next(timeout)
        with suppress(Empty):  # nothing is asked for ahead (rule 9)
            return await self._intake.get(timeout=timeout)
        return None

    async def _attend(self, held: Item | Object) -> None:
        if self._over.is_set():  # it came too late
            with suppress(SnowmeltError):
                await (held.nack() if isinstance(held, Object) else held.release())
            return
        self._hands[id(held)] = held
        try:
            await self._work_on(held)
        except Exception as error:
            await self._failed(held, error)
        except asyncio.CancelledError as error:
            await self._go_on()
            await self._failed(held, error)
        except BaseException as error:  # rule 5
            await self._failed(held, error)
            raise
        else:
            await self._done(held)
        finally:
            self._since = steady_now()
        del self._hands[id(held)]  # and not when it was cancelled: then it goes back

    async def _work_on(self, held: Item | Object) -> None:
        limit = self._settings.limit
        try:
            async with asyncio.timeout(limit) as span:
                with self._tracing.process(self._name, held):
                    await self._handler(held)
        except TimeoutError as error:
            if limit is None or not span.expired():
                raise
            where = (error.__cause__ or error).__traceback__
            raise TimeoutError(over_text(limit)).with_traceback(where) from None

    async def _go_on(self) -> None:
        """Something was cancelled here: it is this task that ends, if its worker cancels it.

        Else it was a handler alone, or what it waited for. Where all tasks of a loop are cancelled
        the worker is, too, in this very turn, and what is in hand goes back when it is closed.
        """
        task = asyncio.current_task()
        while task is not None and task.cancelling() and not self._cancels:
            task.uncancel()
        if self._cancels:
            raise asyncio.CancelledError
        await asyncio.sleep(0)

    async def _done(self, held: Item | Object) -> None:
        self._tally.done += 1
        try:
            if not self._settled(held):
                await held.ack()
        except SnowmeltError as error:
            tell_untold("done", self._name, held, error)

    async def _failed(self, held: Item | Object, error: BaseException) -> None:
        self._tally.failed += 1
        failures = 0 if isinstance(held, Object) else held.failures
        fate = self._settings.retrying.fate(error, failures, self._chance)
        tell_failed(self._name, held, fate, error)
        try:
            if self._settled(held):
                pass  # its handler has said what becomes of it
            elif isinstance(held, Object):
                await until_set(self._over, fate.wait)
                await held.nack()
            else:
                await held.nack(fate.wait, fate.reason, dead=fate.dead)
        except SnowmeltError as failure:
            tell_untold("failed", self._name, held, failure)

    def _settled(self, held: Item | Object) -> bool:
        """Whether its handler has said what becomes of it (rule 1)."""
        if isinstance(held, Object):
            return not held.open
        return isinstance(self._intake, ItemSource) and self._intake.settled(held)

    def _idle_for_long(self) -> bool:
        if self._idle is None or self._hands:
            return False
        return seconds_until(later(self._since, seconds(self._idle))) <= 0
