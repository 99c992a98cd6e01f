"""A worker with `await`: its handlers are tasks of one event loop; `face.py` says more."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Self, TypeAlias, Unpack

import msgspec

from snowmelt.client.connection.session import checked
from snowmelt.client.connection.staying import stays
from snowmelt.client.fifo.face_async import Fifo
from snowmelt.client.pool.face_async import Pool
from snowmelt.client.priority.face_async import PriorityQueue
from snowmelt.client.queue.step_async import Step, in_step
from snowmelt.client.worker.loop_async import WorkerLoop
from snowmelt.client.worker.loops import TaskLoops
from snowmelt.client.worker.options import (
    AsyncWorkerOptions,
    checked_handler,
    shares,
    weighed,
    worker_settings,
)
from snowmelt.client.worker.signals import stopped_by_signals
from snowmelt.core.errors import BadOption

Source = Fifo | PriorityQueue | Pool
Sources: TypeAlias = Source | Sequence[Source] | Mapping[Any, int]


class Worker:
    """A function and a queue: each item is handed to it, and acknowledged when it has returned.

    As `snowmelt.Worker`, with an async function; `tasks` of it work at once (1).

    With `step=True` the handler gets a `Step` as well, as that of `snowmelt.Worker` does.

    >>> import asyncio, snowmelt.aio, tempfile
    >>> async def handle(item):
    ...     print("order", item.value["id"])
    >>> async def work(folder):
    ...     async with snowmelt.aio.open(folder) as cluster:
    ...         orders = cluster.fifo("orders", codec="json")
    ...         await orders.put_many([{"id": 1}, {"id": 2}])
    ...         await snowmelt.aio.Worker(orders, handle, tasks=2).run(timeout=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(work(folder))
    order 1
    order 2
    """

    __reduce__ = stays("make it there, of the queue's name")

    def __init__(
        self,
        queue: Sources,
        handler: Callable[..., Awaitable[object]],
        **options: Unpack[AsyncWorkerOptions],
    ) -> None:
        self._queues = weighed(queue, Source, "a fifo, a priority queue or a pool of snowmelt.aio")
        self._handler = checked_handler(handler, awaits=True)
        self._settings = settings = worker_settings(dict(options), "tasks", AsyncWorkerOptions)
        self._shares = shares("tasks", settings.at_once, list(self._queues.values()))
        pools = any(isinstance(one, Pool) for one in self._queues)
        if pools and settings.step:
            raise BadOption("step", True, "False for a pool: steps are of queues")
        if pools and settings.retrying.buries:
            raise BadOption("retry", options["retry"], "no times and no None: a pool has no dead")
        self._running: WorkerLoop | TaskLoops | None = None
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"Worker({', '.join(one.name for one in self._queues)!r})"

    async def run(self, timeout: float | None = None) -> None:
        """Works until it is stopped, or until nothing came for `timeout` seconds.

        When it is cancelled, its handlers are, and what they had in hand goes back.
        """
        worker_loop = self._begin(timeout)
        loop = asyncio.get_running_loop()

        def stop(*, hard: bool = False) -> None:
            loop.call_soon_threadsafe(partial(worker_loop.stop, hard=hard))

        try:
            with stopped_by_signals(stop) if self._settings.signals else nullcontext():
                await worker_loop.work()
        finally:
            self._running = None

    def stop(self) -> None:
        """Ends it warmly; an `async with` waits for that when it is left."""
        if self._running is not None:
            self._running.stop()

    async def __aenter__(self) -> Self:
        worker_loop = self._begin(None)

        async def work() -> None:
            try:
                await worker_loop.work()
            finally:
                self._running = None

        self._task = asyncio.ensure_future(work())
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.stop()
        if self._task is None:
            return
        try:
            await self._task
        except Exception as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # the first failure is the one to raise

    def _begin(self, timeout: float | None) -> WorkerLoop | TaskLoops:
        if self._running is not None:
            raise BadOption("run", self, "one at a time; it runs already, make another Worker")
        idle = None if timeout is None else max(0.0, checked(timeout))
        some = [self._loop_over(*one, idle) for one in zip(self._queues, self._shares, strict=True)]
        self._running = some[0] if len(some) == 1 else TaskLoops(some)
        return self._running

    def _loop_over(self, queue: Source, tasks: int, idle: float | None) -> WorkerLoop:
        intake = queue if isinstance(queue, Pool) else queue.intake(self._settings.prefetch)
        settings = msgspec.structs.replace(self._settings, at_once=tasks)
        if isinstance(queue, Pool):
            return WorkerLoop(queue.name, intake, self._handler, settings, idle)
        works = in_steps(queue, self._handler) if settings.step else self._handler
        return WorkerLoop(queue.name, intake, works, settings, idle, queue.tracing)


def in_steps(
    queue: Fifo | PriorityQueue, handler: Callable[..., Awaitable[object]]
) -> Callable[[Any], Awaitable[None]]:
    """The same handler; what it puts, and its item's acknowledgement, are one step."""

    async def work(item: Any) -> None:
        async with Step(queue._port) as step:  # noqa: SLF001
            step.ack(item)
            await handler(in_step(item), step)

    return work
