"""A worker as a program holds it, blocking."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Self, TypeAlias, Unpack

import msgspec

from snowmelt.client.connection.session import checked
from snowmelt.client.connection.staying import stays
from snowmelt.client.embedded.face import Machine
from snowmelt.client.fifo.face import Fifo
from snowmelt.client.pool.face import Pool
from snowmelt.client.priority.face import PriorityQueue
from snowmelt.client.queue.step import Step, in_step
from snowmelt.client.worker.loop import WorkerLoop
from snowmelt.client.worker.loops import LocalLoops, ThreadLoops
from snowmelt.client.worker.options import (
    REACH_SECONDS,
    WorkerOptions,
    check_worked,
    checked_handler,
    shares,
    weighed,
    worker_settings,
)
from snowmelt.client.worker.processes import WorkerProcesses
from snowmelt.client.worker.signals import stopped_by_signals
from snowmelt.core.errors import BadOption, NoSuchQueue
from snowmelt.runtime.logs import tell

Source = Fifo | PriorityQueue | Pool
Sources: TypeAlias = Source | Sequence[Source] | Mapping[Any, int]
Runnable: TypeAlias = LocalLoops | WorkerProcesses


class Worker:
    """A function and a queue: each item is handed to it, and acknowledged when it has returned.

    The handler gets the item: `item.value`, `item.headers`, `item.failures`. When it raises, the
    item comes again later; `retry` says when: a `Retry` for all errors, None for "dead at once", or
    a map from kinds of error to these. So many `threads` work at once (1), in so many `processes`
    of their own, if that is said. Their leases are renewed for as long as it takes. A handler that
    takes longer than `limit` seconds fails, at its next step in Python.

    With `step=True` the handler is called with a `Step` behind the item. What it puts by that comes
    in with the acknowledgement of its item, in one step: both happen once, or neither.

    Several queues are given in a list, or with weights, as in `{orders: 3, letters: 1}`. The
    threads are shared out among them by weight.

    `run` works for ever, until SIGTERM or SIGINT: then what is in hand has `grace` seconds (30) to
    be done, and the rest goes back; a second signal ends it at once. A handler that the program has
    for them is called as well; with `signals=False` it is the program that stops the worker. In a
    `with` it works in the background.

    >>> import snowmelt, tempfile
    >>> def handle(item):
    ...     print("order", item.value["id"])
    >>> with tempfile.TemporaryDirectory() as folder, snowmelt.open(folder) as cluster:
    ...     orders = cluster.fifo("orders", codec="json")
    ...     _ = orders.put_many([{"id": 1}, {"id": 2}])
    ...     snowmelt.Worker(orders, handle).run(timeout=0.1)
    order 1
    order 2
    """

    __reduce__ = stays("make it there, of the queue's name")

    def __init__(
        self, queue: Sources, handler: Callable[..., object], **options: Unpack[WorkerOptions]
    ) -> None:
        self._queues = weighed(queue, Source, "a fifo, a priority queue or a pool that blocks")
        self._handler = checked_handler(handler, awaits=False)
        self._settings = settings = worker_settings(dict(options), "threads", WorkerOptions)
        self._shares = shares("threads", settings.at_once, list(self._queues.values()))
        for one in self._queues:
            if isinstance(one, Pool) and settings.step:
                raise BadOption("step", True, "False for a pool: steps are of queues")
            if isinstance(one, Pool) and settings.retrying.buries:
                allowed = "no times and no None: a pool has no dead"
                raise BadOption("retry", options["retry"], allowed)
            if settings.processes:
                check_shared(one, settings.processes)
        self._running: Runnable | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def __repr__(self) -> str:
        return f"Worker({self._named!r})"

    def run(self, timeout: float | None = None) -> None:
        """Works until it is stopped, or until nothing came for `timeout` seconds.

        Raises what makes it useless to go on: a cluster that never was there or is closed, a token
        that is refused, and what a handler raised to end the program.
        """
        running = self._begin(timeout)
        try:
            with self._signals(running):
                running.work()
        finally:
            self._running = None

    def stop(self) -> None:
        """Ends it warmly, from anywhere; a `with` waits for that when it is left."""
        running = self._running
        if running is not None:
            running.stop()

    def __enter__(self) -> Self:
        running = self._begin(None)

        def work() -> None:
            try:
                running.work()
            except BaseException as error:
                self._failure = error
                tell("a worker failed", logging.ERROR, error, queue=self._named)
            finally:
                self._running = None

        self._thread = threading.Thread(target=work, name="snowmelt-worker", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            if error is None:
                raise failure
            error.add_note(str(failure))  # the first failure is the one to raise

    @property
    def _named(self) -> str:
        return ", ".join(one.name for one in self._queues)

    def _begin(self, timeout: float | None) -> Runnable:
        if self._running is not None:
            raise BadOption("run", self, "one at a time; it runs already, make another Worker")
        idle = None if timeout is None else max(0.0, checked(timeout))
        running: Runnable
        if self._settings.processes:
            self._reach()
            running = WorkerProcesses(lambda: self._loops(idle), self._settings)
        else:
            running = self._loops(idle)
        self._running = running
        return running

    def _signals(self, running: Runnable) -> AbstractContextManager[None]:
        return stopped_by_signals(running.stop) if self._settings.signals else nullcontext()

    def _reach(self) -> None:
        """Raises here what would end each of its processes."""
        for one in self._queues:
            assert not isinstance(one, Pool)
            with suppress(NoSuchQueue):
                one.stats(timeout=REACH_SECONDS)

    def _loops(self, idle: float | None) -> LocalLoops:
        some = [self._loop_over(*one, idle) for one in zip(self._queues, self._shares, strict=True)]
        return some[0] if len(some) == 1 else ThreadLoops(some)

    def _loop_over(self, queue: Source, threads: int, idle: float | None) -> WorkerLoop:
        intake = queue if isinstance(queue, Pool) else queue.intake(self._settings.prefetch)
        settings = msgspec.structs.replace(self._settings, at_once=threads)
        if isinstance(queue, Pool):
            return WorkerLoop(queue.name, intake, self._handler, settings, idle)
        works = in_steps(queue, self._handler) if settings.step else self._handler
        return WorkerLoop(queue.name, intake, works, settings, idle, queue.tracing)


def in_steps(queue: Fifo | PriorityQueue, handler: Callable[..., object]) -> Callable[[Any], None]:
    """The same handler; what it puts, and its item's acknowledgement, are one step."""

    def work(item: Any) -> None:
        with Step(queue._port) as step:  # noqa: SLF001
            step.ack(item)
            check_worked(handler, handler(in_step(item), step))

    return work


def check_shared(queue: Source, processes: int) -> None:
    """Raises `BadOption` for a queue that only one process can have."""
    if isinstance(queue, Pool):
        allowed = "none for a pool: each process joins it; start several programs, or say threads="
        raise BadOption("processes", processes, allowed)
    if isinstance(queue.intake().port, Machine):
        allowed = "none for an open folder, which one process has: connect to a node, or threads="
        raise BadOption("processes", processes, allowed)
