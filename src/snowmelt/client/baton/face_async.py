"""A baton as a program holds it, with `await`; `face.py` tells more of each call."""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Final, Self, TypeVar

from snowmelt.client.baton.holding import Entered, Holding, Word, leave_word
from snowmelt.client.baton.keeping import LOOK, Keeping
from snowmelt.client.baton.steps import TURN_SECONDS, Hold, Home, Want, statuses
from snowmelt.client.connection.forking import Origin
from snowmelt.client.connection.session import TIMEOUT, checked
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import KeepingPort, Steps, run_async
from snowmelt.core.batch import Buffer
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import Instant, later, seconds
from snowmelt.protocols.baton.calls import BatonStatus
from snowmelt.protocols.baton.settings import baton_name
from snowmelt.runtime.clock import seconds_until, steady_now

T = TypeVar("T")


class Keeper:
    """The task that renews what is held of a cluster's batons; `keeping.py` has the books."""

    def __init__(self, port: KeepingPort) -> None:
        self.home = Home()
        """Where all batons of the cluster are asked for."""
        self._port = port
        self._keeping = Keeping()
        self._words: deque[Word] = deque()
        self.leave: Callable[[Word], None] = self._words.append
        """Takes the word of whoever is dropped; the task looks at it now and then, or when told."""
        self._sooner = asyncio.Event()
        self._next = Instant(0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._origin = Origin()

    def add(self, hold: Hold) -> None:
        """Renews this from now on, until it is over."""
        self._keeping.add(hold)
        if hold.renewal < self._next:
            self._sooner.set()
        if self._task is None:
            self._loop = asyncio.get_running_loop()
            self._port.before_closing(self)
            self._task = self._loop.create_task(self._work())
            self._task.add_done_callback(self._done)

    def give_back(self, work: Steps[None]) -> None:
        """Somebody was interrupted who wanted or held something: it is given up behind the scenes.

        Where no loop runs, there is none that could.
        """
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            self._port.keep(_tried(self._port, work))

    def look(self) -> None:
        """There may be a word; from within the collector of garbage, which is in any thread."""
        if self._loop is not None and not self._origin.left:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._sooner.set)

    def lose(self) -> None:
        """The cluster is closed; what is held still is over."""
        self._keeping.close()

    async def end(self) -> None:
        """Ends the task."""
        self.lose()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _done(self, _: asyncio.Task[None]) -> None:
        self._task = None

    async def _work(self) -> None:
        idle = False
        while True:
            due = self._keeping.next(steady_now())
            while self._words:
                self.give_back(self._words.popleft().hold.give_back())
            if isinstance(due, list):
                await run_async(self._port, self._keeping.renew(due))
                continue
            if due is None and idle:
                return
            idle = due is None
            self._next = later(steady_now(), LOOK) if due is None else due
            self._sooner.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._sooner.wait(), seconds_until(self._next))


async def _tried(port: KeepingPort, work: Steps[None]) -> None:
    with suppress(SnowmeltError):
        await run_async(port, work)


class Held(Holding):
    """The baton while it is yours. `Baton.acquire` gives it; release it, or use it in a `with`.

    A task renews it for as long as you hold it, so the loop must not be blocked for longer than its
    lease (5 s). One that you drop is given up behind the scenes.
    """

    def __init__(self, hold: Hold, port: KeepingPort, keeper: Keeper) -> None:
        super().__init__(hold)
        self._port = port
        self._keeper = keeper
        leave_word(self, hold, None, keeper.leave)
        keeper.add(hold)

    def __del__(self) -> None:
        if self._hold.word is not None and not sys.is_finalizing():
            self._keeper.look()

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
        if kind is GeneratorExit:
            self._keeper.give_back(self._hold.give_back())
            return
        try:
            await self._through(self._hold.release(changed=error is None))
        except SnowmeltError as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # what went wrong first is what is to be told

    async def wait_lost(self, timeout: float | None = None) -> bool:
        """Waits until it is over, or for so many seconds; whether it was lost."""
        end = None if timeout is None else later(steady_now(), seconds(max(0.0, checked(timeout))))
        over = asyncio.Event()
        self._hold.watch(over.set)
        try:
            while not (self.lost or self._hold.over):
                left = self.seconds_left
                if end is not None:
                    left = min(left, seconds_until(end))
                    if not left:
                        break
                with suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), left)
        finally:
            self._hold.unwatch(over.set)
        return self.lost

    async def save(self, value: Buffer, *, timeout: float = TIMEOUT) -> None:
        """Sets the value and puts it on a disk: it is there though you die, or your node."""
        await run_async(self._port, self._hold.save(value, timeout))

    async def release(self) -> None:
        """Gives it up, with the value. Raises `BatonLost` when it was lost or given up before."""
        await self._through(self._hold.release())

    async def through(self, steps: Callable[[Hold], Steps[T]]) -> T:
        """Takes steps that end with the release."""
        return await self._through(steps(self._hold))

    async def _through(self, steps: Steps[T]) -> T:
        try:
            return await run_async(self._port, steps)
        finally:
            if not self._hold.settled:
                self._keeper.give_back(self._hold.give_back())


class Baton:
    """A lock that heals, and carries a value. `cluster.baton(name)` gives it.

    Use it in an `async with`, whose name is then a `Held`, or call `acquire`. Tasks may share one
    `Baton`, each for turns of its own; a task that holds it and asks again waits for itself, in
    vain.
    """

    __reduce__ = stays("send its name and the URL, and connect there")

    def __init__(
        self, port: KeepingPort, keeper: Keeper, name: str, timeout: float = TURN_SECONDS
    ) -> None:
        self.name: Final = baton_name(name)
        self._port = port
        self._keeper = keeper
        self._timeout = checked(timeout)
        self._entered: Entered[Held] = Entered()

    def __repr__(self) -> str:
        return f"Baton({self.name!r})"

    def __aenter__(self) -> Coroutine[Any, Any, Held]:
        return self._enter(sys._getframe(1))  # noqa: SLF001

    async def _enter(self, frame: FrameType) -> Held:
        held = await self.acquire()
        self._entered.enter(frame, _task(), held)
        return held

    def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Coroutine[Any, Any, None]:
        held = self._entered.leave(sys._getframe(1), _task())  # noqa: SLF001
        return held.__aexit__(kind, error, traceback)

    async def acquire(self, timeout: float | None = None) -> Held:
        """Waits for a turn, as long as the baton's own `timeout` if none is given.

        Raises `NotGranted` when it does not come in time. Cancelled, it gives up its place.
        """
        want = Want(self._keeper.home, self.name, self._timeout if timeout is None else timeout)
        try:
            hold = await run_async(self._port, want.granted())
        except BaseException:
            if want.open:
                self._keeper.give_back(want.withdraw())
            raise
        return Held(hold, self._port, self._keeper)

    async def status(self, *, timeout: float = TIMEOUT) -> list[BatonStatus]:
        """How each node of the cluster that answers sees it; none of them sees the whole."""
        return await run_async(self._port, statuses(self.name, timeout))


def _task() -> int:
    """Which task this is; 0 where no loop runs."""
    try:
        return id(asyncio.current_task())
    except RuntimeError:
        return 0
