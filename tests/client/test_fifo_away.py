"""Items whose only keeper is away: they wait for it, and do not fail meanwhile."""

from collections.abc import Callable
from typing import Any

import pytest

from snowmelt.client.connection.steps import Query, Rest
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.queue.options import Producer
from snowmelt.core.errors import OutcomeUnknown, Unreachable
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.fifo.calls import Fetched, Leased, Opened, Place, Settled, Span
from snowmelt.protocols.fifo.settings import QueueSettings

HERE = Place(NodeId("n1"), Address("127.0.0.1", 1))
AWAY = Place(NodeId("n2"), Address("127.0.0.1", 2))
LEASED = Leased(7, (), (Span(0, 2, "n2/1/1", 0, (AWAY,)),), seconds(30))


def unreachable() -> Any:
    return Unreachable("nobody listens there")


def silent() -> Any:
    return OutcomeUnknown("no answer")


def damaged() -> Any:
    return Fetched((), damaged=2)


@pytest.mark.parametrize(
    ("told", "reason"),
    [(unreachable, ""), (silent, ""), (damaged, "no copy could be read")],
)
def test_what_nobody_can_give_has_failed_only_if_it_was_asked_for(
    told: Callable[[], Any], reason: str
) -> None:
    getting = FifoSteps("orders", None, Producer()).get_many(2, 1000, 20)
    next(getting)
    getting.send(Opened("orders", QueueSettings(), HERE, HERE))
    fetch = getting.send(LEASED)
    assert isinstance(fetch, Query)
    answer = told()
    back = getting.throw(answer) if isinstance(answer, Exception) else getting.send(answer)
    assert isinstance(back, Query)
    assert (back.body.back, back.body.reason) == ((Interval(0, 2),), reason)
    after = getting.send(Settled(0))
    assert isinstance(after, Query if reason else Rest)
