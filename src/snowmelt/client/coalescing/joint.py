"""How what several callers ask becomes one call, and its answer each one's own (`machine.py`).

A *kind* says what a call for several is, as steps; how its answer is shared out; and what becomes
of what nobody claims. A call for one is the very call that it would be without any of this.
"""

from collections.abc import Hashable, Iterable, Sequence
from copy import copy
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from snowmelt.client.coalescing.tickets import Ticket
from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.core.errors import CallerError, DiskFull, Full, SnowmeltError


class CallerRequest(msgspec.Struct, frozen=True, eq=False):
    """What one caller asks, and with which others it may be one call."""

    what: Any
    wait: Wait
    key: Hashable
    weight: int


class SendAgain(msgspec.Struct, frozen=True):
    apart: bool
    """Whether it goes alone now, or with others once more."""


AGAIN: Final = SendAgain(apart=False)
APART: Final = SendAgain(apart=True)

Value: TypeAlias = Any
"""The answer of a caller; an error is raised."""


class CallKind(Protocol):
    """One kind of what is asked of a queue."""

    worth: int
    """What a call for several weighs at most."""
    ordered: bool
    """Whether none may overtake another."""
    repeats: bool
    """Whether what was broken off may be asked again."""
    leaves: bool
    """Whether a call that nobody waits for any more is left, and not seen to its end."""

    def call(self, asked: Sequence[CallerRequest]) -> Steps[Any]:
        """One call for all of them."""

    def at_once(self, asked: Sequence[CallerRequest]) -> Steps[Any]:
        """The same, by one who has no part in it: it waits for nothing but the answer."""

    def share(
        self, answer: Any, asked: Sequence[CallerRequest | None]
    ) -> tuple[list[Value], Value]:
        """The answer of each, in their order, and what is left over; None is a caller that left.

        One alone gets its final answer.
        """

    def late(self, asked: CallerRequest, *, gone: bool) -> Value:
        """The answer of a caller whose time is over, and whose call was sent or not."""

    def unclaimed(self, value: Value) -> Steps[None]:
        """Undoes an answer whose caller has left."""


def sorted_out(
    values: Iterable[tuple[Ticket, Value]],
) -> tuple[list[tuple[Ticket, Value]], list[Ticket], list[Ticket]]:
    """Tickets with an answer; those that go with others once more; those that go alone now."""
    told: list[tuple[Ticket, Value]] = []
    again: list[Ticket] = []
    apart: list[Ticket] = []
    for ticket, value in values:
        if type(value) is SendAgain:
            (apart if value.apart else again).append(ticket)
        else:
            told.append((ticket, value))
    return told, again, apart


def refused(error: BaseException, count: int) -> list[Value]:
    """The answer of each of so many callers when their call failed.

    >>> refused(Full("no room"), 1), refused(Full("no room"), 2)
    ([Full('no room')], [SendAgain(apart=True), SendAgain(apart=True)])
    """
    if count == 1:
        return [error]
    if isinstance(error, CallerError | Full | DiskFull) and error.definite:
        return [APART] * count  # it may be the fault of one
    if isinstance(error, SnowmeltError):
        return [copy(error) for _ in range(count)]  # each traceback is its own
    return [error] * count
