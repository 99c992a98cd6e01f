"""Names of queues are shared: who pays for most of them leaves some to others."""

from typing import Any

import msgspec
from nodes_bench import Nodes

from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announced, Requested
from snowmelt.protocols.calling import Came, Declined, Elsewhere, Gone
from snowmelt.protocols.queue.api.calls import Open, Opened
from snowmelt.protocols.queue.api.deletes import Delete, Deleted
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.limits import LIMITS

MOST = 20


class Shared(Nodes):
    """Nodes that keep few queues, asked by clients for whom others pay."""

    def __init__(self) -> None:
        super().__init__(2)
        self.limited()

    def limited(self) -> None:
        for node in self.nodes.values():
            node._outbox.limits = msgspec.structs.replace(LIMITS, queues=MOST)

    def fact(self, fact: Came | Gone) -> None:
        self._events.extend((name, Announced(fact)) for name in self.nodes)
        self._run()

    def asks(self, payer: str, number: int, request: Any, at: str = "n2") -> Any:
        """A new client each time, which is gone when it was told."""
        client = NodeId(f"c-{payer}-{number}")
        self.fact(Came(client, payer))
        self._calls += 1
        for _ in range(100):
            operation = OperationId(client, self._calls)
            self._events.append((NodeId(at), Requested(operation, request)))
            self._run()
            told = self.told.pop(self._calls, None)
            if isinstance(told, Elsewhere):
                at = told.node
            elif told is not None:
                self.fact(Gone(client))
                return told
            else:
                self.pass_time(0.1)
        raise AssertionError(f"no answer to {request}")

    def makes(self, payer: str, first: int, count: int, partitions: int = 1) -> list[Any]:
        settings = QueueSettings(partitions=partitions)
        names = [f"q-{payer}-{at}" for at in range(first, first + count)]
        return [self.asks(payer, at, Open(name, settings)) for at, name in enumerate(names)]


def made(told: list[Any]) -> int:
    return sum(isinstance(one, Opened) for one in told)


def test_one_who_pays_for_many_clients_leaves_names_to_others() -> None:
    bench = Shared()
    told = bench.makes("mallory", 0, MOST)
    assert made(told) == 16
    refused = [one for one in told if isinstance(one, Declined)]
    assert {one.error for one in refused} == {"BadOption"}
    assert "mallory had 16 of 16 queues made, of 20" in refused[0].text
    assert made(bench.makes("ann", 0, 3)) == 3
    assert made(bench.makes("bob", 0, 1)) == 1
    assert "no cluster keeps more than 20" in bench.makes("eve", 0, 1)[0].text


def test_what_is_deleted_is_given_back_to_who_had_it_made() -> None:
    bench = Shared()
    assert made(bench.makes("mallory", 0, MOST)) == 16
    assert isinstance(bench.asks("ops", 0, Delete("q-mallory-3")), Deleted)
    assert made(bench.makes("mallory", 40, 2)) == 1


def test_a_coordinator_that_begins_anew_knows_who_pays() -> None:
    bench = Shared()
    assert made(bench.makes("mallory", 0, MOST)) == 16
    for name in ("n1", "n2"):
        bench.restart(name)
    bench.limited()
    bench.view("n1", "n2")
    assert made(bench.makes("mallory", 40, 1)) == 0
    assert made(bench.makes("ann", 0, 1)) == 1


def test_a_queue_of_many_partitions_takes_as_many_names() -> None:
    bench = Shared()
    assert made(bench.makes("mallory", 0, 3, partitions=6)) == 2
    assert made(bench.makes("ann", 0, 1, partitions=6)) == 1


def test_a_client_within_the_process_has_no_share() -> None:
    bench = Shared()
    assert made(bench.makes("", 0, MOST)) == MOST
