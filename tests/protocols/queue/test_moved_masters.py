"""A master that was replaced, and lives: it sends on who asks it, who soon asks it no more."""

from typing import Any

import pytest
from nodes_bench import Nodes

from snowmelt.client.connection.steps import run
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core.errors import OutcomeUnknown
from snowmelt.core.names import NodeId, OperationId, contact
from snowmelt.core.node import Requested
from snowmelt.protocols.calling import Elsewhere
from snowmelt.protocols.queue.api.calls import Describe, Get, Open
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.messages.home_words import LocateQueue

CALLS = 256
QUEUE = "mails"
"""Its master is not who decides on homes."""


def opened() -> Nodes:
    nodes = Nodes(3)
    nodes.ask(Open(QUEUE, QueueSettings(replicas=3)))
    assert master(nodes) != "n1"
    return nodes


def master(nodes: Nodes) -> NodeId:
    name: NodeId = nodes.ask(Describe(QUEUE)).leader
    return name


class Client:
    """Asks nodes whatever steps ask, and goes where they point."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._names = {contact(one.address): one.id for one in nodes.members.values()}
        self._steps = FifoSteps(QUEUE, None, ProducerSequence())
        self._number = 0
        self.kinds: list[type] = []
        """What was asked, and each time a node pointed elsewhere."""
        self.last = NodeId("n1")

    def call(self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0) -> Any:
        del weight
        self.kinds.append(type(body))
        self._number += 1
        operation = OperationId(NodeId("c-9"), self._number)
        at, end = self.last if target is None else self._names[target], self._nodes.now + timeout
        while self._nodes.now < end:
            self._nodes._events.append((at, Requested(operation, body)))
            self._nodes._run()
            told = self._nodes.told.pop(self._number, None)
            if told is None:
                self._nodes.pass_time(0.1)
            elif isinstance(told, Elsewhere):
                self.kinds.append(Elsewhere)
                at = told.node
            else:
                self.last = at
                return told
        raise OutcomeUnknown("no answer")

    def get(self, times: int) -> list[type]:
        self.kinds = []
        for _ in range(times):
            assert run(self, self._steps.lease(1, 1000, Wait(0)))[0] is None
        return self.kinds


def moved(nodes: Nodes) -> None:
    """Another is master now; who was lives, and knows that."""
    old = master(nodes)
    nodes.view(*[name for name in nodes.members if name != old])
    nodes.pass_time(5)
    nodes.view(*nodes.members)
    nodes.pass_time(5)
    assert master(nodes) != old


def test_who_replaced_a_master_that_lives_is_asked_at_once_before_long() -> None:
    nodes = opened()
    client = Client(nodes)
    assert client.get(2) == [Open, Get, Get]
    moved(nodes)
    assert client.get(1) == [Get, Elsewhere]
    rest = client.get(CALLS)
    assert rest.count(Open) == 1
    assert rest[rest.index(Open) :].count(Elsewhere) == 0
    assert client.get(2 * CALLS).count(Elsewhere) == 0


@pytest.mark.parametrize("knows", [True, False])
def test_gets_go_on_where_nobody_can_say_who_is_master(knows: bool) -> None:
    nodes = opened()
    client = Client(nodes)
    client.get(1)
    nodes.lost = lambda _, __, message: isinstance(message, LocateQueue)
    client.last = NodeId("n1")
    if not knows:
        nodes.nodes[client.last]._metadata.forget(QUEUE)
    kinds = client.get(2 * CALLS)
    assert kinds.count(Get) == 2 * CALLS
    assert kinds.count(Open) == 2
