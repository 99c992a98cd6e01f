"""How long a call may take, and what of that a node may wait.

A `timeout` is kept: an answer that is not there when it is over, or a twentieth of a second later,
is not waited for. So that a wait ends by the node's answer (nothing came, no room was made) and not
by silence, the node is asked to wait a little less than there is left. No caller hears so before
its time is over: a get asks again while that can be kept, and waits for the rest of it.

A `timeout` of 0 means that nobody waits for items or for room; the way there and back takes what it
takes, up to `ANSWER_SECONDS`, as it does for calls that have no `timeout`.

What a person asks for is one call, however many calls of ours it takes: `within` bounds them all by
one end.
"""

from collections.abc import Sequence
from typing import Final, Self, TypeVar

from snowmelt.client.connection.session import TIMEOUT_MAX, checked
from snowmelt.client.connection.steps import AtOnce, Query, Sleep, Step, Steps
from snowmelt.core.errors import OutcomeUnknown, SnowmeltError
from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.runtime.clock import seconds_until, steady_now

ANSWER_SECONDS: Final = 5.0
CLOSING_LONGEST: Final = 4 * ANSWER_SECONDS
"""Closing waits so long for a thread: a call, the last acknowledgements, a silent node."""
LOOP: Final = seconds(1.0)
"""So long a loop waits for an answer at least: its `timeout` is how long nothing may come."""
ANSWER: Final = seconds(ANSWER_SECONDS)
LATE: Final = milliseconds(50)
"""How much later than its time an answer still counts."""
_SOON: Final = milliseconds(10)
EARLY: Final = milliseconds(200)
"""How much earlier than that a node ends its wait, or a fifth of what is left."""


T = TypeVar("T")


class Wait:
    __slots__ = ("end", "over_at")

    def __init__(
        self, timeout: float, least: Duration = LATE, longest: float = TIMEOUT_MAX
    ) -> None:
        now, timeout = steady_now(), checked(timeout)
        timeout = longest if timeout > longest else timeout
        span = seconds(timeout) if timeout > 0 else Duration(0)
        self.over_at: Instant = later(now, span)
        """When the person's time is over."""
        answer = span + LATE if span else ANSWER
        self.end: Instant = later(now, Duration(answer) if answer > least else least)

    @classmethod
    def longest(cls, waits: "Sequence[Wait]") -> "Wait":
        """The time of one call for several."""
        if len(waits) == 1:
            return waits[0]
        return cls._made(max([one.over_at for one in waits]), max([one.end for one in waits]))

    @classmethod
    def _made(cls, over: Instant, end: Instant) -> Self:
        wait = cls.__new__(cls)
        wait.over_at, wait.end = over, end
        return wait

    @property
    def impatient(self) -> "Wait":
        """The same, for a call that waits for nothing but its answer."""
        return self._made(steady_now(), self.end)

    def sooner(self, timeout: float) -> "Wait":
        """The same, for a call that waits no longer than so many seconds."""
        over = later(steady_now(), seconds(timeout))
        return self._made(min(over, self.over_at), self.end)

    @property
    def until(self) -> Instant:
        """When it is over for one who shares a call with others, whose own end is told first."""
        return later(self.end, _SOON)

    @property
    def left(self) -> float:
        """Seconds for which an answer is waited for."""
        return seconds_until(self.end)

    @property
    def patience(self) -> Duration:
        """How long a node may wait for items or for room."""
        left = self.over_at - steady_now()
        if left <= 0:
            return Duration(0)
        return Duration(left - EARLY if left >= 5 * EARLY else left - left // 5)

    def out(self) -> Steps[None]:
        """Until the person's time is over."""
        if (left := seconds_until(self.over_at)) > 0:
            yield Sleep(left)

    @property
    def over(self) -> bool:
        """Whether the person's time is over, or so nearly that asking again would not be kept."""
        return steady_now() + EARLY >= self.over_at


def within(steps: Steps[T], timeout: float) -> Steps[T]:
    """The same steps, which end by one deadline: no call among them waits beyond it."""
    wait = Wait(timeout)
    failed: SnowmeltError | None = None
    try:
        step = next(steps)
        while left := wait.left:
            try:
                answer = yield _sooner(step, left)
            except BaseException as error:  # an interrupt, too: see `SoFar`
                failed = error if isinstance(error, SnowmeltError) else failed
                step = steps.throw(error)
            else:
                step = steps.send(answer)
        steps.close()
        raise failed or OutcomeUnknown(f"not done within {timeout:g} s")
    except StopIteration as end:
        value: T = end.value
        return value


def _sooner(step: Step, left: float) -> Step:
    if isinstance(step, Sleep):
        return Sleep(min(step.seconds, left))
    if isinstance(step, AtOnce):
        return AtOnce(tuple([_query_sooner(one, left) for one in step.queries]))
    return _query_sooner(step, left)


def _query_sooner(step: Query, left: float) -> Query:
    return Query(step.body, min(step.timeout, left), step.target, step.weight)
