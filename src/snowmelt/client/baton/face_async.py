"""A baton as a program holds it: a lock that heals, whose holder carries a value; with `await`."""

import sys
from collections.abc import Callable, Coroutine
from types import FrameType, TracebackType
from typing import Any, Final, Self, TypeVar

from snowmelt.client.baton.holding import AsyncHeldBaton, EnteredBlocks, leave_notice
from snowmelt.client.baton.renewer_async import HoldRenewer, Wakeup, Way
from snowmelt.client.baton.steps import TURN_SECONDS, AcquireRequest, BatonHold, statuses
from snowmelt.client.connection.session import TIMEOUT, checked
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import KeepingPort, Steps, run_async
from snowmelt.client.connection.takers import this_task
from snowmelt.core.batch import Buffer
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import later, seconds
from snowmelt.protocols.baton.calls import BatonStatus
from snowmelt.protocols.baton.settings import baton_name
from snowmelt.runtime.clock import seconds_until, steady_now

T = TypeVar("T")


class Held(AsyncHeldBaton):
    """The baton while it is yours. `Baton.acquire` gives it; release it, or use an `async with`.

    A task renews it for as long as you hold it; one that you drop is given up behind the scenes.
    When the nodes can't be reached for too long it is lost: another may hold it then, while you
    still work. What you change elsewhere under its protection should therefore carry `fence`, and
    refuse a smaller one.

    On an event loop nothing is renewed while the loop is blocked: not for longer than its lease,
    which is 5 s.

    When the body of an `async with` raises, the value goes on as you got it, or as you last saved
    it.
    """

    _renewer: HoldRenewer

    def __init__(self, hold: BatonHold, way: Way, renewer: HoldRenewer) -> None:
        super().__init__(hold)
        self._way = way
        self._renewer = renewer
        leave_notice(self, hold, way, renewer.leave)
        renewer.begin(hold, way)

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
            self._renewer.dropped(self._hold, self._way)
            return
        try:
            await self._through(self._hold.release(changed=error is None))
        except SnowmeltError as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # the first failure is the one to raise

    async def wait_lost(self, timeout: float | None = None) -> bool:
        """Waits until it is over, or for so many seconds; whether it was lost."""
        end = None if timeout is None else later(steady_now(), seconds(max(0.0, checked(timeout))))
        over = Wakeup()
        self._hold.watch(over.ring)
        try:
            while not (self.lost or self._hold.over):
                left = self.seconds_left
                if end is not None:
                    left = min(left, seconds_until(end))
                    if not left:
                        break
                await over.wait(left)
        finally:
            self._hold.unwatch(over.ring)
        return self.lost

    async def save(self, value: Buffer, *, timeout: float = TIMEOUT) -> None:
        """Sets the value and puts it on the root's disk: it is there though you die, or your node.

        Raises `BatonLost`, or `OutcomeUnknown` when the time ran out with no answer.
        """
        await run_async(self._way, self._hold.save(value, timeout))

    async def release(self) -> None:
        """Gives it up, with the value. Raises `BatonLost` when it was lost or given up before."""
        await self._through(self._hold.release())

    async def through(self, steps: Callable[[BatonHold], Steps[T]]) -> T:
        """Takes steps that end with the release."""
        return await self._through(steps(self._hold))

    async def _through(self, steps: Steps[T]) -> T:
        self._way.check_loop()
        try:
            return await run_async(self._way, steps)
        finally:
            self._renewer.done(self._hold, self._way)


class Baton:
    """A lock that heals, and carries a value. `cluster.baton(name)` gives it.

    Use it in an `async with`, whose name is then a `Held`, or call `acquire`. The first to ask is
    the first to get it, as the nodes see it. Tasks may share one `Baton`, each for turns of its
    own; a task that holds it and asks again waits for itself until its time is over.
    """

    __reduce__ = stays("send its name and the URL, and connect there")

    def __init__(
        self, port: KeepingPort, renewer: HoldRenewer, name: str, timeout: float = TURN_SECONDS
    ) -> None:
        self.name: Final = baton_name(name)
        self._port = port
        self._renewer = renewer
        self._timeout = checked(timeout)
        self._entered: EnteredBlocks[Held] = EnteredBlocks()

    def __repr__(self) -> str:
        return f"Baton({self.name!r})"

    def __aenter__(self) -> Coroutine[Any, Any, Held]:
        return self._enter(sys._getframe(1))  # noqa: SLF001

    async def _enter(self, frame: FrameType) -> Held:
        held = await self.acquire()
        try:
            self._entered.enter(frame, this_task(), held)
        except BaseException:  # no `with` comes of it
            self._entered.forget(held)
            raise
        return held

    def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Coroutine[Any, Any, None]:
        held = self._entered.leave(sys._getframe(1), this_task())  # noqa: SLF001
        return held.__aexit__(kind, error, traceback)

    async def acquire(self, timeout: float | None = None) -> Held:
        """Waits for a turn, as long as the baton's own `timeout` if none is given.

        With `timeout=0` it is granted only if nobody has it or waits for it.

        Raises `NotGranted` when it does not come in time; an answer that is on its way is given
        0.2 s more. What was waited for is given up then, and when the wait is interrupted.
        """
        want = AcquireRequest(
            self._renewer.home, self.name, self._timeout if timeout is None else timeout
        )
        way = self._renewer.way()
        try:
            return Held(await run_async(way, want.granted()), way, self._renewer)
        except BaseException as error:
            self._renewer.in_vain(want, way, error)
            raise

    async def delete(self, timeout: float | None = None) -> None:
        """In a turn of its own it gives the value up: the next to hold it gets none.

        What is kept of the name goes once nobody has used it for some minutes.
        """
        held = await self.acquire(timeout)
        async with held:
            held.value = b""

    async def status(self, *, timeout: float = TIMEOUT) -> list[BatonStatus]:
        """How each node of the cluster that answers sees it; none of them sees the whole."""
        return await run_async(self._port, statuses(self.name, timeout))
