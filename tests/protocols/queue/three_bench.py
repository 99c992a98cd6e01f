"""Three nodes with a queue on all of them: a put at its master goes to all disks at once."""

from typing import Any

from cluster_bench import ClusterBench

from snowmelt.core.batch import Batch
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.queue.api.calls import Put
from snowmelt.protocols.queue.leader.leader import Leader
from snowmelt.protocols.queue.messages.words import Append, Fence, SnapshotChunk
from snowmelt.protocols.queue.state.state import QueueState


class Three(ClusterBench):
    """Three nodes with a queue on all of them, whose master is not the one that decides."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(3)
        names = (f"q{number}" for number in range(40))
        self.queue = next(one for one in names if self.open(one, replicas=3, **settings) != "n1")
        self.master = self.home(self.queue).master.partition("/")[0]
        self.mirrors = [name for name in self.slots if name != self.master]
        self.run(2)

    def request(self, number: int, **more: Any) -> Put:
        """To put one item."""
        batch = Batch.of([b"item %d" % number])
        return Put(self.queue, "p", number, bytes(batch.offsets), bytes(batch.blob), **more)

    def asked(self, number: int) -> OperationId:
        """One put, not waited for."""
        return self.call(self.master, self.request(number))

    def told(self, node: str, number: int, within: float = 2) -> Any:
        """One put, asked again until it is told."""
        return self.put(node, number, self.queue, within)

    def leader(self) -> Leader:
        """Who leads the queue, at whatever node."""
        return self.terms(self.home(self.queue).master.partition("/")[0]).leaders[self.queue]


def three(**settings: Any) -> tuple[Three, str, list[str]]:
    """The bench, its queue's master, and its mirrors."""
    bench = Three(**settings)
    return bench, bench.master, bench.mirrors


def got(bench: Three) -> list[bytes]:
    """What a get has now, whoever leads."""
    leased = bench.get(
        bench.home(bench.queue).master.partition("/")[0], queue=bench.queue, within=8
    )
    return [body for part in leased.parts for body in Batch(part.offsets, part.blob)]


def settled(bench: Three) -> QueueState:
    """The queue when all copies are made."""
    bench.run(30)
    leader = bench.leader()
    assert not leader.followers.behind
    return leader.state


def without_steps(bench: Three, *names: str) -> None:
    """Nothing of the queue's copies comes to these."""
    bench.drops.append(
        lambda _s, target, one: target in names and isinstance(one, Append | SnapshotChunk | Fence)
    )


def is_kept(bench: Three, name: str, number: int) -> bool:
    """Whether an item is on a node's disk."""
    disk = bench.slots[NodeId(name)].disk
    return any(b"item %d" % number in value for value, _ in disk._values.values())
