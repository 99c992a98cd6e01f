"""Two clients make one queue at once, each of its own kind: one is told what the other made."""

import pytest

from snowmelt.client.coalescing.joint_puts import PutRequest
from snowmelt.client.connection.steps import Query
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.priority.steps import RankedSteps
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core.errors import NoSuchQueue, QueueExists
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.queue.api.calls import NodeAddress, Open, Opened, Put
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings

HERE = NodeAddress(NodeId("n1"), Address("127.0.0.1", 4410))
NONE, THERE = NoSuchQueue("there is no queue"), QueueExists("it is there with other settings")


def opened(**settings):
    return Opened("jobs", QueueSettings(**settings), HERE, HERE)


def put_one(steps, *answers):
    """What was asked after these answers."""
    put = steps.put([PutRequest(b"body", b"", 0, 0)], Wait(5.0))
    step = next(put)
    for answer in answers:
        assert isinstance(step.body, Open)
        step = put.throw(answer) if isinstance(answer, Exception) else put.send(answer)
    assert isinstance(step, Query)
    return step.body


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ({"priorities": 1}, "priorities=1, asked any int"),
        ({"priorities": 4}, "priorities=4, asked any int"),
        ({"priorities": ANY, "floats": True}, "priorities=any float, asked any int"),
        ({"priorities": ANY, "largest_first": True}, "largest_first=True, asked False"),
    ],
    ids=str,
)
@pytest.mark.parametrize("before", [(NONE,), (NONE, NONE, THERE)], ids=["asked", "made"])
def test_a_put_that_was_for_what_nobody_has_made_yet_says_what_is_there(made, told, before):
    steps = RankedSteps("jobs", None, ProducerSequence())
    with pytest.raises(QueueExists, match=f"{told}; nothing was put, say it again"):
        put_one(steps, *before, opened(**made))
    assert isinstance(put_one(steps, opened(**made)), Put)  # said again it is as the queue is


def test_what_is_as_it_would_have_been_made_is_put():
    steps = RankedSteps("jobs", None, ProducerSequence())
    assert isinstance(put_one(steps, NONE, NONE, THERE, opened(priorities=ANY)), Put)


def test_a_fifo_is_told_of_priorities():
    steps = FifoSteps("jobs", None, ProducerSequence())
    with pytest.raises(QueueExists, match="priorities=4, and no fifo"):
        put_one(steps, opened(priorities=4))
