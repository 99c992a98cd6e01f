"""Gets of several callers from one queue, as one call.

A call for several asks for as many items as all of them want, and is answered as soon as there is
one. What came is dealt out, first come first served; a caller that got none asks again with others.
All are under one lease; each caller holds its own positions of it, and settles those alone. Nodes
extend it as a whole. A caller that extends it gives back what another has let run out
(`LeasedItems.overdue`). Items of one earlier lease are acknowledged in the same call.

Only gets with one time-out go together, so that one which waits for nothing is answered at once.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

import msgspec

from snowmelt.client.coalescing.joint import AGAIN, CallerRequest, Value
from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.leases.delivered import LateRefusal, LeasedItems, in_order, portion, runs
from snowmelt.client.leases.steps import BYTES_MAX, LeaseSteps, LeaseUpdate
from snowmelt.core.errors import OutcomeUnknown, SnowmeltError, Unavailable
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.calls import ItemRun

WORTH: Final = 1_000
"""Items, and intervals of earlier leases."""
FEW: Final = 64
"""Who wants more than so many gains nothing by company."""

Told: TypeAlias = Sequence[tuple[LeasedItems, tuple[Interval, ...]]]
"""Parts of one lease, and what of each is said to be done."""


class GetRequest(msgspec.Struct, frozen=True, eq=False):
    """What one caller wants, and the earlier lease it is done with."""

    items_max: int
    bytes_max: int
    before: LeasedItems | None


class Gets:
    worth = WORTH
    ordered = False
    repeats = True
    leaves = True

    def __init__(self, steps: LeaseSteps) -> None:
        self._steps = steps

    def asked(
        self, items_max: int, bytes_max: int, timeout: float, before: LeasedItems | None = None
    ) -> CallerRequest | None:
        """What one caller asks; None for what goes with no others."""
        weight, token = items_max, None
        if before is not None:
            before.check_process()
            weight += len(before.open_in(None))
            token = before.token
        if weight > FEW:
            return None
        size = BYTES_MAX if items_max == 1 else bytes_max  # one comes whatever it weighs
        want = GetRequest(items_max, size, before)
        return CallerRequest(want, Wait(timeout), (timeout, size, token), weight)

    def call(self, asked: Sequence[CallerRequest]) -> Steps[LeasedItems | None]:
        if len(asked) == 1 and asked[0].what.before is None:
            [one] = asked
            want: GetRequest = one.what
            steps = self._steps.lease(want.items_max, want.bytes_max, one.wait)
            return (yield from steps)[0]
        wants: list[GetRequest] = [each.what for each in asked]
        told = [(one.before, one.before.open_in(None)) for one in wants if one.before is not None]
        word = word_of(told)
        count, size = sum([one.items_max for one in wants]), wants[0].bytes_max
        wait = Wait.longest([each.wait for each in asked])
        heard = partial(self._heard, told)
        delivered, late = yield from self._steps.lease(count, size, wait, word, heard)
        if not _settles(told, late):
            try:
                yield from self._tell_each(told)
            except SnowmeltError:  # nobody knows of what came
                with suppress(SnowmeltError):
                    yield from self.unclaimed(delivered)
                raise
        return delivered

    def _heard(self, told: Told, late: LateRefusal | None) -> None:
        """At once, so that an interrupt before the end of the call does not repeat it."""
        if _settles(told, late):
            for before, done in told:
                self._steps.noted(before, done, late)

    def _tell_each(self, told: Told) -> Steps[None]:
        for before, done in told:
            if done:
                word = LeaseUpdate(before.token, done=done)
                self._steps.noted(before, done, (yield from self._steps.tell_done(word, Wait(0))))

    at_once = call

    def share(
        self, answer: LeasedItems | None, asked: Sequence[CallerRequest | None]
    ) -> tuple[list[Value], Value]:
        """What came is dealt out to those who are there; the rest is spare."""
        if answer is None:
            return [None] * len(asked), None
        if len(asked) == 1:
            return ([answer], None) if asked[0] is not None else ([None], answer)
        wants = [0 if each is None else each.what.items_max for each in asked]
        *hands, spare = answer.divided(dealt(in_order(answer.parts), wants))
        return [AGAIN if hand is None else hand for hand in hands], spare

    def late(self, asked: CallerRequest, *, gone: bool) -> Value:
        """Nothing came; an acknowledgement that went along was not sent, or its fate is unknown."""
        if asked.what.before is None:
            return None
        if gone:
            text = "no answer in the time given to this get, nor to what it acknowledges"
            return OutcomeUnknown(text)
        return Unavailable("the call before was not answered in the time given: it was not sent")

    def unclaimed(self, value: LeasedItems | None) -> Steps[None]:
        if value is not None:
            yield from self._steps.give_back(value, None)


def _settles(told: Told, late: LateRefusal | None) -> bool:
    """Whether it was said of each what came of it; a refusal of all may be the fault of one."""
    return len(told) < 2 or late is None or late.lost is not None


def word_of(told: Told) -> LeaseUpdate | None:
    """What several are done with, in one word; None for nothing."""
    done = [one for _, where in told for one in where]
    if not done:
        return None
    return LeaseUpdate(told[0][0].token, done=runs(done) if len(told) > 1 else told[0][1])


def dealt(parts: Sequence[ItemRun], wants: Sequence[int]) -> list[tuple[ItemRun, ...]]:
    """So many items for each, from the first on; and last, what is left.

    >>> from snowmelt.protocols.queue.api.calls import ItemRun
    >>> three = ItemRun(7, b"".join(at.to_bytes(4, "little") for at in range(4)), b"abc")
    >>> [[(part.start, part.blob) for part in hand] for hand in dealt([three], [1, 0, 1])]
    [[(7, b'a')], [], [(8, b'b')], [(9, b'c')]]
    """
    hands: list[tuple[ItemRun, ...]] = []
    at = first = 0
    for want in (*wants, sum([part.count for part in parts])):
        hand: list[ItemRun] = []
        left = want
        while left and at < len(parts):
            count = parts[at].count
            stop = min(first + left, count)
            hand.append(portion(parts[at], first, stop))
            left -= stop - first
            at, first = (at + 1, 0) if stop == count else (at, stop)
        hands.append(tuple(hand))
    return hands
