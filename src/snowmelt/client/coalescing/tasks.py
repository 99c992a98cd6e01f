"""What the tasks of one loop ask of a queue goes together (`machine.py`), with `await`.

Tasks that ask in the same turn of the loop go in the same call, since their requests are looked at
when the turn is over. A call is a task of its own, so that the end of one caller ends no other.

Callers that ask together, and the answer of each: a machine without a clock and without a loop.

It has the tickets of one kind to one queue (`machine.py`), and for each of them a *caller*:
whatever its driver waits by, such as a future. Two functions say how a caller is answered, and
whether it was.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

import msgspec

from snowmelt.client.coalescing.joint import CallerRequest, CallKind, Value, refused, sorted_out
from snowmelt.client.coalescing.machine import Coalescer
from snowmelt.client.coalescing.tickets import Bundle, Ticket
from snowmelt.client.connection.steps import KeepingPort, Steps, run_async
from snowmelt.client.leases.leasing_async import Cancellation, unless_left
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import Instant
from snowmelt.runtime.clock import seconds_until, steady_now

C = TypeVar("C")


class CallResult(msgspec.Struct, frozen=True):
    """What a call brought besides the answers of its callers."""

    spare: Value
    """What nobody claims; None for nothing."""
    apart: list[Bundle]
    """The calls to be made now of those that go alone."""


class CoalescedCallers(Generic[C]):
    """What is asked of one queue, of one kind."""

    def __init__(
        self, kind: CallKind, tell: Callable[[C, Value], None], told: Callable[[C], bool]
    ) -> None:
        self._kind = kind
        self._tell = tell
        self._told = told
        self._coalescer = Coalescer(kind.worth, ordered=kind.ordered)
        self._callers: dict[int, tuple[CallerRequest, C]] = {}
        """By their tickets."""

    def ask(self, asked: CallerRequest, caller: C) -> int:
        """A caller asks; the number of its ticket."""
        number = self._coalescer.ask(asked, asked.key, asked.weight, asked.wait.until)
        self._callers[number] = asked, caller
        return number

    def leave(self, number: int) -> int | None:
        """Only this caller's part goes along: in which call it has gone, 0 for none."""
        self._callers.pop(number, None)
        return self._coalescer.leave(number)

    def go(self, *, all_of_it: bool = False) -> list[Bundle]:
        return self._coalescer.go(steady_now(), all_of_it=all_of_it)

    @property
    def due(self) -> Instant | None:
        """When to `expire`, and to `go` again."""
        return self._coalescer.due

    def expire(self) -> None:
        for ticket, call in self._coalescer.over(steady_now()):
            asked, caller = self._callers.pop(ticket.number)
            self._tell(caller, self._kind.late(asked, gone=call != 0))

    def call(self, bundle: Bundle) -> Steps[CallResult]:
        """Makes a call, and answers its callers."""
        tickets = bundle.tickets
        spare: Value = None
        try:
            answer = yield from self._kind.call([each.what for each in tickets])
            values, spare = self._kind.share(answer, [self._here(each) for each in tickets])
        except Exception as error:  # raised where it was asked
            values = refused(error, len(tickets))
        told, again, apart = sorted_out(zip(tickets, values, strict=True))
        for ticket, value in told:
            _, caller = self._callers.pop(ticket.number, (None, None))
            if caller is not None:
                self._coalescer.answered(ticket.number)
                self._tell(caller, value)
        self._coalescer.again(again)
        alone = self._coalescer.apart(apart, steady_now())
        self._coalescer.back(bundle)
        return CallResult(spare, alone)

    def waits_for(self, bundle: Bundle) -> bool:
        """Whether any caller still waits for this call."""
        return any(self._coalescer.within(each.number, bundle) for each in bundle.tickets)

    def abandon(self, bundle: Bundle) -> list[C]:
        """A call is broken off; returns its waiting callers, without an answer."""
        left = [self._callers.pop(each.number, None) for each in bundle.tickets]
        for each in bundle.tickets:
            self._coalescer.answered(each.number)
        self._coalescer.back(bundle)
        return [one[1] for one in left if one is not None]

    def check(self) -> None:
        """Every caller has a ticket without an answer."""
        self._coalescer.check()
        assert all(self._coalescer.waits(number) for number in self._callers)

    def _here(self, ticket: Ticket) -> CallerRequest | None:
        """What was asked, if the caller is still there."""
        asked, caller = self._callers.get(ticket.number, (None, None))
        return None if caller is None or self._told(caller) else asked


class RunningCall(msgspec.Struct, eq=False):
    """One that is on its way."""

    bundle: Bundle
    leaves: Cancellation
    task: asyncio.Task[None] | None = None


class TaskCoalescer:
    """What is asked of one queue, of one kind, by the tasks of one loop."""

    def __init__(self, port: KeepingPort, kind: CallKind) -> None:
        self._port = port
        self._kind = kind
        self._callers: CoalescedCallers[asyncio.Future[Value]] = CoalescedCallers(
            kind, _tell, asyncio.Future.done
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls: dict[int, RunningCall] = {}
        self._looking = False
        """Whether it is looked at what was asked when this turn is over."""
        self._timer: asyncio.TimerHandle | None = None
        self._due: Instant | None = None
        """When the timer ends."""

    async def ask(self, asked: CallerRequest) -> Value:
        """The answer of one caller; raises what it is refused for."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            return await self._alone(asked)  # which says that this is the wrong loop
        caller: asyncio.Future[Value] = loop.create_future()
        number = self._callers.ask(asked, caller)
        if not self._looking:
            self._looking = True
            loop.call_soon(self._look)
        try:
            return await caller
        except (asyncio.CancelledError, GeneratorExit):  # the task ends, or is thrown away
            self._cancelled(number, caller)
            raise

    async def send(self, timeout: float) -> None:
        """What gathers goes now, and so before whatever is asked next."""
        del timeout  # tasks wait for no answer: what they send stays in its order
        if self._loop is asyncio.get_running_loop():
            self._make(self._callers.go(all_of_it=True))

    async def _alone(self, asked: CallerRequest) -> Value:
        answer = await run_async(self._port, self._kind.call([asked]))
        [value], _ = self._kind.share(answer, [asked])
        if isinstance(value, Exception):
            raise value
        return value

    def _cancelled(self, number: int, caller: asyncio.Future[Value]) -> None:
        """Only this caller's part goes along; what it was leased goes back."""
        call = self._calls.get(self._callers.leave(number) or 0)
        if call is not None and self._kind.leaves and not self._callers.waits_for(call.bundle):
            call.leaves.nobody_waits = True
            if call.task is not None:
                self._port.leave(call.task)
        if caller.done() and not caller.cancelled():  # it was told just now, and does not hear it
            if caller.exception() is None:
                self._port.keep(self._unclaimed(caller.result()))
        elif call is not None and call.task is not None:
            self._port.keep(_seen(call.task))

    # --- calls ------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._looking = False
        self._make(self._callers.go())
        due = self._callers.due
        if due is not None and (self._due is None or due < self._due):
            self._set_timer(due)

    def _set_timer(self, due: Instant) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = asyncio.get_running_loop().call_later(seconds_until(due), self._expire)

    def _expire(self) -> None:
        self._timer = self._due = None
        asyncio.get_running_loop().call_soon(self._end)  # first whoever's answer is here by now

    def _end(self) -> None:
        self._callers.expire()
        self._look()

    def _make(self, bundles: Sequence[Bundle]) -> None:
        for each in bundles:
            self._calls[each.number] = call = RunningCall(each, Cancellation())
            call.task = asyncio.ensure_future(self._call(call))

    async def _call(self, call: RunningCall) -> None:
        bundle = call.bundle
        steps = self._callers.call(bundle)
        try:
            brought = await run_async(self._port, unless_left(steps, call.leaves))
        except asyncio.CancelledError:  # the loop ends
            for caller in self._callers.abandon(bundle):
                caller.cancel()
            raise
        finally:
            self._calls.pop(bundle.number, None)
        self._make(brought.apart)
        if brought.spare is not None:
            self._port.keep(self._unclaimed(brought.spare))
        self._look()

    async def _unclaimed(self, value: Value) -> None:
        with suppress(SnowmeltError):  # the lease will end by itself
            await run_async(self._port, self._kind.unclaimed(value))


def _tell(caller: asyncio.Future[Value], value: Value) -> None:
    if caller.done():
        return
    if isinstance(value, BaseException):
        caller.set_exception(value)
    else:
        caller.set_result(value)


async def _seen(call: asyncio.Task[None]) -> None:
    await asyncio.wait([call])
