"""Puts of several callers to one queue, as one call.

They are alike in what their queue says (`alike`), and keep their order. Their time-outs are one,
too: a call goes on asking until its time is over, and no put may be sent when its own is, nor be
told that it may have happened when the call reached nobody. A call for several
waits for no room: a part of them may find some. When there is none for all of them each asks for
itself, and waits for itself.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Final

import msgspec

from snowmelt.client.coalescing.joint import AGAIN, CallerRequest, Value
from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.core.errors import Full, OutcomeUnknown, Unavailable
from snowmelt.core.instant import Duration

WORTH: Final = 1 << 20
"""Bytes; what is larger gains nothing by company."""
_BODY: Final = 128
"""What a body weighs besides its bytes."""


class PutRequest(msgspec.Struct, frozen=True):
    body: bytes
    headers: bytes
    delay: Duration
    priority: int | float = 0


Put = Callable[[Sequence[PutRequest], Wait], Steps[list[int]]]
"""Puts some that are alike; the position of each."""


class Puts:
    worth = WORTH
    ordered = True
    repeats = False
    leaves = False

    def __init__(self, put: Put) -> None:
        self._put = put

    @staticmethod
    def asked(one: PutRequest, wait: Wait, alike: Hashable) -> CallerRequest:
        return CallerRequest(one, wait, alike, len(one.body) + len(one.headers) + _BODY)

    def call(self, asked: Sequence[CallerRequest]) -> Steps[list[int]]:
        if len(asked) == 1:
            return self._put([asked[0].what], asked[0].wait)
        wait = Wait.longest([each.wait for each in asked])
        return self._put([each.what for each in asked], wait.impatient)

    def at_once(self, asked: Sequence[CallerRequest]) -> Steps[list[Value]]:
        """Waiting for no room: one for which there is none asks once more for itself."""
        wait = Wait.longest([each.wait for each in asked])
        try:
            return list((yield from self._put([each.what for each in asked], wait.impatient)))
        except Full:
            if len(asked) > 1:
                raise
            return [AGAIN]

    def share(
        self, answer: list[Value], asked: Sequence[CallerRequest | None]
    ) -> tuple[list[Value], Value]:
        del asked
        return list(answer), None

    def late(self, asked: CallerRequest, *, gone: bool) -> Value:
        """It may be in the queue if it was sent."""
        del asked
        if gone:
            return OutcomeUnknown("no answer to this put in the time given")
        return Unavailable("the put before it was not answered in the time given: it was not sent")

    def unclaimed(self, value: Value) -> Steps[None]:
        del value
        yield from ()
