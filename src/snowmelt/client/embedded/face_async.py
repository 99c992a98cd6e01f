"""A cluster of one, inside an async program: a thread drives the machine of `face.py`.

The thread opens the folder, gives the machine the calls as they come, fires its timers, and hands
the answers to the event loop. So the loop never waits for the disk. The loop hands calls over in a
queue without locks of its own.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from queue import Empty as NothingCame
from queue import SimpleQueue
from typing import Any, Final, Self, TypeAlias, Unpack

import msgspec

from snowmelt.client.baton.renewer_async import HoldRenewer
from snowmelt.client.connection.bound import LoopBinding
from snowmelt.client.connection.session import TIMEOUT, checked
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import AsyncEndable
from snowmelt.client.embedded.face import EmbeddedCall, Machine, folder_of, open_store
from snowmelt.client.pool.face_async import Pool
from snowmelt.client.pool.open_pools import OpenPools
from snowmelt.client.pool.options import PoolOptions
from snowmelt.client.queue.codecs import codec_of
from snowmelt.client.queue.queues_async import Queues
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.settings import pool_name
from snowmelt.protocols.queue.api.calls import Get

_IDLE: Final = 3600.0
_AT_ONCE: Final = 256
"""So many calls at most are written with one flush."""


class HandedCall(msgspec.Struct, eq=False):
    """A call that was handed over, and the future that waits for it."""

    body: Any
    timeout: float
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    asked: EmbeddedCall | None = None
    """The same within the machine."""


class AbandonedCall(msgspec.Struct, eq=False):
    """Nobody waits for this any more."""

    wanted: HandedCall


Handed: TypeAlias = HandedCall | AbandonedCall | None
"""A call, or the end of one; None when there are no more."""


class DriverThread:
    """The thread that has the machine to itself."""

    def __init__(self, folder: Path, timeout: float) -> None:
        self._folder = folder
        self._timeout = timeout
        self._handed: SimpleQueue[Handed] = SimpleQueue()
        self._open: dict[EmbeddedCall, HandedCall] = {}
        self._gets: dict[asyncio.Task[Any] | None, HandedCall] = {}
        """What each task waits for."""
        self._bound = LoopBinding()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._failure: Exception | None = None
        """Of closing it."""

    async def call(
        self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0
    ) -> Any:
        """Calls, waits, and returns the answer's body; raises what went wrong."""
        del target, weight
        loop = self._bound.check()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="snowmelt-driver", daemon=True)
            self._thread.start()
        future: asyncio.Future[Any] = loop.create_future()
        wanted = HandedCall(body, checked(timeout), loop, future)
        self._handed.put(wanted)
        if type(body) is not Get:
            return await future
        task = asyncio.current_task()
        self._gets[task] = wanted
        try:
            return await future
        finally:
            self._gets.pop(task, None)

    def leave(self, task: asyncio.Task[Any]) -> None:
        """Nobody waits any more for the get that this task asks for."""
        wanted = self._gets.pop(task, None)
        if wanted is not None:
            self._handed.put(AbandonedCall(wanted))

    def check_loop(self) -> None:
        """Raises `WrongLoop` where another event loop runs than the one that it is used by."""
        self._bound.check_loop()

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Goes on with this; closing waits for it a little."""
        self._bound.keep(work)

    def before_closing(self, one: AsyncEndable) -> None:
        """Ends this before it closes."""
        self._bound.before_closing(one)

    async def close(self) -> None:
        """Gives the folder back. Calls that still wait end with `OutcomeUnknown`."""
        if await self._bound.close() and self._thread is not None:
            self._closing.set()
            self._handed.put(None)
            await asyncio.to_thread(self._thread.join)
            failure = self._failure or self._bound.failure
            if failure is not None:
                raise failure

    # --- in the thread ----------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            store = open_store(self._folder, self._timeout, self._closing.wait)
            try:
                machine = Machine(self._folder, store)
            except BaseException:
                store.close()
                raise
        except Exception as error:
            self._refuse(error)
            return
        try:
            self._drive(machine)
        finally:
            try:
                machine.close()
            except Exception as error:  # it is raised where it is closed
                self._failure = error
            with machine.turn, machine.turn.lock:
                self._tell(machine)

    def _drive(self, machine: Machine) -> None:
        while True:
            with machine.turn, machine.turn.lock:
                machine.fire()  # also when nobody waits: a timer that stays due leaves no pause
                self._tell(machine)
                pause = min(_IDLE, machine.pause(self._open))
            came = self._came(pause)
            with machine.turn, machine.turn.lock, machine.together():
                for wanted in came:
                    if isinstance(wanted, HandedCall):
                        self._begin(machine, wanted)
                    elif wanted is None:
                        return
                    elif wanted.wanted.asked is not None:
                        machine.leave(wanted.wanted.asked)

    def _came(self, pause: float) -> list[Handed]:
        """What was handed over by now, waiting for the first."""
        came: list[Handed] = []
        with suppress(NothingCame):
            came.append(self._handed.get(timeout=pause))
            while len(came) < _AT_ONCE:
                came.append(self._handed.get_nowait())
        return came

    def _begin(self, machine: Machine, wanted: HandedCall) -> None:
        try:
            wanted.asked = machine.begin(wanted.body, wanted.timeout)
            self._open[wanted.asked] = wanted
        except Exception as error:
            _settle(wanted, wanted.future.set_exception, error)

    def _tell(self, machine: Machine) -> None:
        """Answers all calls that have an outcome by now; one may bring about another's."""
        told = True
        while told:
            told = False
            for asked, wanted in list(self._open.items()):
                try:
                    if not machine.due(asked):
                        continue
                    outcome = machine.outcome(asked)
                except Exception as error:
                    _settle(wanted, wanted.future.set_exception, error)
                else:
                    _settle(wanted, wanted.future.set_result, outcome)
                del self._open[asked]
                told = True

    def _refuse(self, error: Exception) -> None:
        while (wanted := self._handed.get()) is not None:
            if isinstance(wanted, HandedCall):
                _settle(wanted, wanted.future.set_exception, error)


def _settle(wanted: HandedCall, say: Callable[[Any], None], what: Any) -> None:
    def tell() -> None:
        if not wanted.future.done():
            say(what)

    with suppress(RuntimeError):  # the loop has ended
        wanted.loop.call_soon_threadsafe(tell)


class EmbeddedCluster(Queues):
    """Queues in a folder, made by `snowmelt.aio.open`. Close it, or use it in an `async with`.

    For one event loop; any number of calls may wait at once.
    """

    __reduce__ = stays("one process has a folder open; others connect to a node")

    def __init__(self, folder: Path, timeout: float) -> None:
        self.folder = folder
        self._parts = OpenPools()
        self._driver = DriverThread(folder, timeout)
        super().__init__(self._driver, HoldRenewer(self._driver))

    def __repr__(self) -> str:
        return f"EmbeddedCluster({str(self.folder)!r})"

    async def __aenter__(self) -> Self:
        try:
            await self.queues()  # so that a folder in use raises here
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Gives the folder back, so that others may open it."""
        try:
            await asyncio.to_thread(self._parts.close)
        finally:
            self._renewer.lose()
            await self._driver.close()

    def pool(self, name: str, *, codec: str | None = None, **options: Unpack[PoolOptions]) -> Pool:
        """A pool within this process; as `snowmelt.EmbeddedCluster.pool`."""
        written = codec_of(codec)
        if options.get("spill") is True:
            options["spill"] = self.folder / "pools" / pool_name(name)
        return Pool(self._parts.share(name, **options), written)


def open(folder: str | Path, *, timeout: float = TIMEOUT) -> EmbeddedCluster:  # noqa: A001
    """The queues in a folder, made when missing; opened by the first call, or by `async with`.

    >>> import asyncio, snowmelt.aio, tempfile
    >>> async def one(folder):
    ...     async with snowmelt.aio.open(folder) as cluster:
    ...         await cluster.fifo("orders").put(b"one")
    ...         return (await cluster.fifo("orders").get()).body
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(one(folder))
    b'one'
    """
    return EmbeddedCluster(folder_of(folder), checked(timeout))
