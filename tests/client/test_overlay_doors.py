"""Whom a client of a priority queue asks: the queue's home if there is one, else who answered."""

from typing import Any

import pytest

from snowmelt.client.connection.steps import Query
from snowmelt.client.overlay import steps as overlay_steps
from snowmelt.client.overlay.steps import OverlaySteps
from snowmelt.core.errors import SnowmeltError, Unreachable
from snowmelt.core.instant import Duration, Instant
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address, NodeId, contact
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.calls import Open, Opened, Put, PutDone, Via
from snowmelt.protocols.priority.settings import QueueSettings

SETTINGS = QueueSettings(queue="jobs")
NEAR, HOME = Address("127.0.0.1", 1), Address("127.0.0.1", 2)
ANSWERED = Opened(SETTINGS, Via(NodeId("n1"), 1), NEAR, HOME)
AT_HOME = Opened(SETTINGS, Via(NodeId("n2"), 1), HOME)


class Clock:
    """Stands still."""

    def __init__(self) -> None:
        self.now = Instant(1)

    def __call__(self) -> Instant:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(overlay_steps, "steady_now", clock)
    return clock


def known() -> OverlaySteps:
    """What its priorities are it was told before."""
    steps = OverlaySteps("jobs", None)
    steps._known = SETTINGS
    return steps


def put(steps: OverlaySteps, home: Opened | SnowmeltError) -> list[Query]:
    """What is asked for one put, where the home's answer to an opening is this."""
    asked: list[Query] = []
    one = steps.one(b"one", 0, None, 0, 10)
    going = steps.put([one.what], one.wait)
    answer: Any = None
    try:
        while True:
            step = going.throw(answer) if isinstance(answer, Exception) else going.send(answer)
            assert isinstance(step, Query)
            asked.append(step)
            if isinstance(step.body, Put):
                answer = PutDone((Share(0, (Interval(7, 8),)),), 1, (7,))
            else:
                answer = ANSWERED if step.target is None else home
    except StopIteration:
        return asked


def targets(asked: list[Query]) -> list[tuple[type, NodeId | None]]:
    return [(type(one.body), one.target) for one in asked]


def test_where_all_lies_with_one_node_that_is_the_door(clock: Clock) -> None:
    steps = known()
    home = contact(HOME)
    first = put(steps, AT_HOME)
    assert targets(first) == [(Open, None), (Open, home), (Put, home)]
    assert first[-1].body.via == AT_HOME.via
    assert targets(put(steps, AT_HOME)) == [(Put, home)]
    clock.now = Instant(clock.now + overlay_steps.DOOR)
    assert len(put(steps, AT_HOME)) == 3


@pytest.mark.parametrize("answer", [Unreachable("nobody"), ANSWERED], ids=["nobody", "another"])
def test_a_home_that_can_not_be_reached_is_left_alone_for_a_while(
    clock: Clock, answer: Opened | SnowmeltError
) -> None:
    steps = known()
    near, home = contact(NEAR), contact(HOME)
    first = put(steps, answer)
    assert targets(first) == [(Open, None), (Open, home), (Put, near)]
    assert first[1].timeout <= 5
    clock.now = Instant(clock.now + overlay_steps.DOOR)
    assert targets(put(steps, answer)) == [(Open, None), (Put, near)]
    clock.now = Instant(clock.now + Duration(2 * overlay_steps.FAR))
    assert targets(put(steps, AT_HOME)) == [(Open, None), (Open, home), (Put, home)]
