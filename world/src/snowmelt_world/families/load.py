"""Clients of a simulated world: who calls whom, and what is still unanswered."""

from random import Random
from typing import Any

from snowmelt.core.instant import Duration, Instant, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Ask, Caller
from snowmelt_world.world import World

PATIENCE = seconds(15)


class Clients:
    """Client machines in the world, each with a name of its own and its calls counted."""

    def __init__(self) -> None:
        self._called: dict[NodeId, int] = {}
        self._open: dict[OperationId, Any] = {}

    def add(self, world: World, client: NodeId, targets: list[NodeId]) -> None:
        self._called[client] = 0

        def build(chance: Random) -> Caller:
            return Caller(list(targets), chance)

        world.add(client, build)
        world.start(client)

    def call(
        self, world: World, client: NodeId, body: Any, at: Instant, patience: Duration = PATIENCE
    ) -> OperationId:
        """A person makes a client call something at a moment to come."""
        self._called[client] += 1
        operation = OperationId(client, self._called[client])
        self._open[operation] = body
        world.request(client, operation, Ask(body, patience), at)
        return operation

    def answered(self, operation: OperationId) -> Any:
        """Takes the answer in; returns what had been asked, None when it was answered before."""
        return self._open.pop(operation, None)

    def waiting(self) -> str:
        """Who still waits, in words; nothing when nobody does."""
        for operation in self._open:
            return f"{operation.client} still waits for its call {operation.number}"
        return ""
