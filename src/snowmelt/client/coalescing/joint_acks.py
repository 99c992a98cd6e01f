"""Acknowledgements of several callers that share a lease, as one call."""

from collections.abc import Sequence
from typing import Final

import msgspec

from snowmelt.client.coalescing.joint import CallerRequest, Value
from snowmelt.client.coalescing.joint_gets import word_of
from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.leases.steps import LeaseSteps
from snowmelt.core.errors import LeaseLost, OutcomeUnknown, Unavailable
from snowmelt.core.interval import Interval

WORTH: Final = 1_000
"""Intervals."""
FEW: Final = 64


class AckRequest(msgspec.Struct, frozen=True, eq=False):
    delivered: LeasedItems
    where: tuple[Interval, ...]


class Acks:
    worth = WORTH
    ordered = False
    repeats = True
    leaves = False

    def __init__(self, steps: LeaseSteps) -> None:
        self._steps = steps

    def asked(self, delivered: LeasedItems, where: tuple[Interval, ...]) -> CallerRequest | None:
        """What one caller asks; None for what goes with no others."""
        if len(where) > FEW:
            return None
        if delivered.lost:
            raise LeaseLost(delivered.lost)
        return CallerRequest(AckRequest(delivered, where), Wait(0), delivered.token, len(where))

    def call(self, asked: Sequence[CallerRequest]) -> Steps[list[Value]]:
        """One update for all; the answer of each caller, which may have left by then."""
        told: list[tuple[LeasedItems, tuple[Interval, ...]]] = [
            (each.what.delivered, each.what.where) for each in asked
        ]
        wait = Wait.longest([each.wait for each in asked])
        word = word_of(told)
        late = None if word is None else (yield from self._steps.tell_done(word, wait))
        if late is not None and late.lost is None and len(asked) > 1:
            raise LeaseLost(late.why)  # it may be the fault of one
        refusals = [self._steps.noted(delivered, done, late) for delivered, done in told]
        return [None if each is None else LeaseLost(each.why) for each in refusals]

    at_once = call

    def share(
        self, answer: list[Value], asked: Sequence[CallerRequest | None]
    ) -> tuple[list[Value], Value]:
        del asked
        return answer, None

    def late(self, asked: CallerRequest, *, gone: bool) -> Value:
        """It may be known to the queue, if it was sent."""
        del asked
        if gone:
            return OutcomeUnknown("no answer to this acknowledgement in the time given")
        return Unavailable("the call before was not answered in the time given: it was not sent")

    def unclaimed(self, value: Value) -> Steps[None]:
        del value
        yield from ()
