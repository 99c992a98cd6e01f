"""Items whose keepers are away: they wait for one of them, and do not fail meanwhile."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from snowmelt.client.connection.steps import Query, Sleep
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core.errors import OutcomeUnknown, Unreachable
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address, NodeId, contact
from snowmelt.protocols.queue.api.calls import (
    Fetched,
    ItemRun,
    Leased,
    NodeAddress,
    Opened,
    Settled,
    Span,
)
from snowmelt.protocols.queue.api.settings import QueueSettings

HERE = NodeAddress(NodeId("n1"), Address("127.0.0.1", 1))
AWAY = NodeAddress(NodeId("n2"), Address("127.0.0.1", 2))
NOTHING = Leased(0, (), (), seconds(30))
LEASED = Leased(7, (), (Span(0, 2, "n2/1/1", 0, (AWAY,)),), seconds(30))


def unreachable() -> Any:
    return Unreachable("nobody listens there")


def silent() -> Any:
    return OutcomeUnknown("no answer")


def damaged() -> Any:
    return Fetched((), damaged=2)


def gone() -> Any:
    return Fetched((), gone=2)


def asked(timeout: float, steps: FifoSteps | None = None) -> Any:
    """A get whose first call is on its way."""
    steps = steps or FifoSteps("orders", None, ProducerSequence())
    getting = steps.lease(2, 1000, Wait(timeout))
    next(getting)
    getting.send(Opened("orders", QueueSettings(), HERE, HERE))
    return getting


def ended(getting: Any, step: Any, again: Leased = NOTHING) -> Any:
    """What comes of it when each further word is that nothing came."""
    while True:
        if isinstance(step, Sleep):
            time.sleep(step.seconds)
        try:
            step = getting.send(None if isinstance(step, Sleep) else again)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize(
    ("told", "reason"),
    [(unreachable, ""), (silent, ""), (gone, ""), (damaged, "no copy could be read")],
)
def test_what_nobody_can_give_has_failed_only_if_it_was_asked_for(
    told: Callable[[], Any], reason: str
) -> None:
    getting = asked(20)
    fetch = getting.send(LEASED)
    assert isinstance(fetch, Query)
    answer = told()
    back = getting.throw(answer) if isinstance(answer, Exception) else getting.send(answer)
    assert isinstance(back, Query)
    assert (back.body.back, back.body.reason) == ((Interval(0, 2),), reason)
    after = getting.send(Settled(0))
    assert isinstance(after, Query if reason else Sleep)


@pytest.mark.parametrize("keepers", [(), (AWAY,)])
def test_what_one_who_is_away_may_have_has_not_failed_whatever_others_say(
    keepers: tuple[NodeAddress, ...],
) -> None:
    getting = asked(20)
    step = getting.send(Leased(7, (), (Span(0, 2, "n2/1/1", 0, keepers, away=True),), seconds(30)))
    if keepers:
        step = getting.send(damaged())
    assert (step.body.back, step.body.reason) == ((Interval(0, 2),), "")
    assert isinstance(getting.send(Settled(0)), Sleep)


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_a_get_that_finds_only_what_is_away_ends_in_its_time_and_says_so(timeout: float) -> None:
    steps = FifoSteps("orders", None, ProducerSequence())
    getting = asked(timeout, steps)
    getting.send(LEASED)
    getting.throw(unreachable())
    assert ended(getting, getting.send(Settled(0))) == (None, None)
    assert steps.empty(1).endswith("; 2 items wait for nodes that are away")


def test_a_get_that_finds_nothing_says_what_was_passed_over() -> None:
    steps = FifoSteps("orders", None, ProducerSequence())
    getting = asked(0.1, steps)
    away = Leased(0, (), (), seconds(30), away=(Interval(0, 2), Interval(4, 5)))
    ended(getting, getting.send(away), away)
    assert steps.empty(1).endswith("; 3 items wait for nodes that are away")
    getting = steps.lease(2, 1000, Wait(0.1))
    ended(getting, next(getting))
    assert steps.empty(1) == "nothing came into orders in 1 s"


def test_who_is_silent_is_asked_for_nothing_more_by_that_get() -> None:
    """Each silence takes five seconds, and the lease may be over before the last."""
    spans = tuple(Span(at, at + 1, "n2/1/1", at, (AWAY,)) for at in range(3))
    other = Span(3, 4, "n1/1/1", 0, (HERE,))
    getting = asked(20)
    fetch = getting.send(Leased(7, (), (*spans, other), seconds(30)))
    assert fetch.target == contact(AWAY.address)
    fetch = getting.throw(silent())
    assert (fetch.target, fetch.body.span) == (contact(HERE.address), other)
    back = getting.send(Fetched((ItemRun(3, bytes(4) + (1).to_bytes(4, "little"), b"x"),)))
    assert (back.body.back, back.body.reason) == ((Interval(0, 3),), "")
    with pytest.raises(StopIteration) as end:
        getting.send(Settled(1))
    assert end.value.value[0].parts[0].start == 3
