"""The async client: the same machine on an event loop, any number of calls at once."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from random import SystemRandom
from time import monotonic
from typing import Any, Final

from snowmelt.client.connection.bound import LoopBinding
from snowmelt.client.connection.clients import inquired
from snowmelt.client.connection.forking import watch
from snowmelt.client.connection.session import Session, checked, value
from snowmelt.client.connection.steps import AsyncEndable
from snowmelt.client.connection.targets import MEMBERS_WITHIN, Targets
from snowmelt.client.connection.url import ClusterURL
from snowmelt.core.errors import AccessDenied, SnowmeltError, Unavailable
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId, OperationId, contact
from snowmelt.core.node import Announced, Effect, Event, Expired, Received, Reply, Send, SetTimer
from snowmelt.core.outcome import Outcome, Succeeded, Unknown
from snowmelt.protocols.calling import Abandoned, Answer, Caller, CallTimer, Declined, Lost, Moving
from snowmelt.protocols.membership.messages import GetStatus
from snowmelt.protocols.queue.api.calls import CancelGet, Get
from snowmelt.runtime.clock import seconds_until, steady_now
from snowmelt.runtime.connection import LoopConnection, forsake, stream_of
from snowmelt.runtime.limits import Limits
from snowmelt.runtime.transport import Transport
from snowmelt.runtime.unheard import is_unheard

LEAVE_SECONDS: Final = 5.0


class AsyncClient:
    def __init__(self, place: ClusterURL) -> None:
        self._place = place
        self._session = Session()
        self._targets = Targets(place)
        self._caller = Caller(self._targets.known, SystemRandom())
        self._transport = Transport(
            place.speaker(self._session.name, self._session.key),
            place.credentials,
            Limits(),
            self._received,
        )
        self._transport.contacts = frozenset(map(contact, place.addresses))
        self._transport.refused = self._refused
        self._transport.lost = self._lost
        self._transport.missed = partial(self._lost, reached=False)
        self._answers: dict[OperationId, asyncio.Future[Outcome[Any]]] = {}
        self._sent_before: dict[OperationId, int] = {}
        """What had been sent to anybody when a call began."""
        self._gets: dict[asyncio.Task[Any] | None, tuple[Get, int, NodeId | None]] = {}
        """What each task waits for, with the number of its call, and of whom it was asked first."""
        self._timer: asyncio.TimerHandle | None = None
        self._bound = LoopBinding()
        watch(self)

    def forked(self) -> None:
        """Closes a child's copies of the sockets: its loop shares more than these with the parent.

        A transport that is closed by its loop would take its socket out of what the parent's loop
        waits for.
        """
        for connection in self._transport.connections():
            forsake(connection)

    def check_loop(self) -> None:
        self._bound.check_loop()

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Sees something to its end that nobody awaits; `close` waits for it, a little."""
        self._bound.keep(work)

    def before_closing(self, one: AsyncEndable) -> None:
        self._bound.before_closing(one)

    def leave(self, task: asyncio.Task[Any]) -> None:
        """Nobody waits any more for the get that this task asks for: its node hears that."""
        known = self._gets.pop(task, None)
        if known is not None:
            get, number, target = known
            self.keep(self._left(CancelGet(get.queue, number), target))

    async def _left(self, leave: CancelGet, target: NodeId | None) -> None:
        with suppress(SnowmeltError):  # its patience ends by itself
            await self.call(leave, LEAVE_SECONDS, target)

    async def call(
        self,
        body: Any,
        timeout: float,  # the machine counts
        target: NodeId | None = None,
        weight: int = 0,
    ) -> Any:
        """Calls, waits, and returns the answer's body; raises what went wrong."""
        loop = self._bound.check()
        now = monotonic()
        target = self._targets.first(target, now)
        request = self._session.request(body, checked(timeout), target, weight)
        answer: asyncio.Future[Outcome[Any]] = loop.create_future()
        self._answers[request.operation] = answer
        task = asyncio.current_task() if type(body) is Get else None
        if task is not None:
            self._gets[task] = body, request.operation.number, target
        if self._transport.sent and self._targets.due(now):
            self._handle(self._session.request(GetStatus(), MEMBERS_WITHIN))
        frames = self._sent_before[request.operation] = self._transport.sent
        try:
            self._handle(request)
            outcome = await answer
        finally:
            self._answers.pop(request.operation, None)
            if task is not None:
                self._gets.pop(task, None)
            self._sent_before.pop(request.operation, None)
            if not answer.done() or answer.cancelled():
                self._handle(Announced(Abandoned(request.operation)))
        reached = self._transport.sent > frames
        told = value(outcome, reached, self._transport.last_failure)
        self._targets.heard(target, told)
        return told

    async def inquire(self, timeout: float) -> bytes:
        """Asks the first node that answers how its process is; in a thread, which may wait."""
        self._bound.check()
        return await asyncio.to_thread(inquired, self._place, timeout)

    async def close(self) -> None:
        """Ends the connections; of calls that still wait the outcome is unknown."""
        try:
            if not await self._bound.close():
                return
        except asyncio.CancelledError:
            await self._disconnect()
            raise
        await self._disconnect()
        if self._bound.failure is not None:
            raise self._bound.failure

    async def _disconnect(self) -> None:
        self._bound.closed = True
        if self._timer is not None:
            self._timer.cancel()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(Unknown("the client was closed before the answer came"))
        await self._transport.close()

    def _refused(self, target: NodeId, error: SnowmeltError) -> None:
        """Not let in: waiting would not help a call of which nothing was sent."""
        sent = self._transport.sent
        if not self._targets.hopeless(target, error) or (sent and type(error) is AccessDenied):
            return
        for operation in [one for one in self._answers if self._sent_before[one] == sent]:
            refusal = Declined(type(error).__name__, str(error))
            self._handle(Received(self._session.name, Answer(operation.number, refusal)))

    def _lost(self, target: NodeId, *, reached: bool = True) -> None:
        """The way there has ended, or there is none; not so when this end closed it."""
        self._targets.lost(target, monotonic())
        if not self._bound.closed and self._answers:
            self._handle(Announced(Lost(target, reached)))

    def _received(self, source: NodeId, message: Any) -> None:
        self._handle(Received(source, message))

    def _handle(self, event: Event[Any]) -> None:
        for effect in self._caller.handle(event, steady_now()):
            self._carry_out(effect)

    def _carry_out(self, effect: Effect[Any]) -> None:
        match effect:
            case Send(target, message):
                self._transport.send(target, message)
            case SetTimer(_, at):
                self._set_timer(at)
            case Reply(operation, outcome):
                answer = self._answers.get(operation)
                if answer is not None and not answer.done():
                    answer.set_result(outcome)
                elif isinstance(outcome, Succeeded):  # who is a member, perhaps
                    self._targets.heard(None, outcome.value)
            case _:
                pass

    def _set_timer(self, at: Instant) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds_until(at), self._expire)

    def _expire(self) -> None:
        self._timer = None
        for connection in filter(_is_unheard, self._transport.connections()):
            connection.close(Unavailable(f"{connection.peer} hears nothing"))
        for target, comes in self._transport.moving():
            self._handle(Announced(Moving(target, comes)))
        self._handle(Expired(CallTimer.NEXT))


def _is_unheard(connection: LoopConnection) -> bool:
    """Whether the connection has ended: the next call to that node dials it."""
    stream = stream_of(connection)
    return stream is not None and is_unheard(stream)
