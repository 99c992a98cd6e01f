"""Callers that ask together, and the answer of each: a machine without a clock and without a loop.

It has the tickets of one kind to one queue (`machine.py`), and for each of them a *caller*:
whatever its driver waits by, such as a future. Two functions say how a caller is answered, and
whether it was.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from snowmelt.client.coalescing.joint import CallerRequest, CallKind, Value, refused, sorted_out
from snowmelt.client.coalescing.machine import Coalescer
from snowmelt.client.coalescing.tickets import Bundle, Ticket
from snowmelt.client.connection.steps import Steps
from snowmelt.core.instant import Instant
from snowmelt.runtime.clock import steady_now

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
