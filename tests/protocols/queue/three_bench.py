"""Three nodes with a queue on all of them: a put at its master goes to all disks at once."""

from typing import Any

from cluster_bench import ClusterBench

from snowmelt.core.batch import Batch
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.fifo.calls import Assign, Assigned, Put


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

    def kept(self) -> Any:
        """The queue as its master has it."""
        name = self.home(self.queue).master.partition("/")[0]
        node = self.slots[NodeId(name)].node
        assert node is not None
        return node._scribe.masters[self.queue]


def three(**settings: Any) -> tuple[Three, str, list[str]]:
    """The bench, its queue's master, and its mirrors."""
    bench = Three(**settings)
    return bench, bench.master, bench.mirrors


def bodies(bench: Three) -> int:
    """How many items can be got, with their bodies, from the master's own disk."""
    master = bench.home(bench.queue).master.partition("/")[0]
    leased = bench.get(master, queue=bench.queue, within=8)
    assert not leased.spans
    return sum(part.count for part in leased.parts)


def settled(bench: Three) -> Any:
    """The queue at its master, when nothing is in doubt any more and all copies are made."""
    bench.run(30)
    queue = bench.kept().journal.queue
    assert not queue.doubts
    assert bench.kept().repair.short_of_copies() == 0
    return queue


def is_kept(bench: Three, name: str, number: int) -> bool:
    """Whether an item is on a node's disk."""
    disk = bench.slots[NodeId(name)].disk
    return any(b"item %d" % number in value for value, _ in disk._values.values())


def given(bench: Three, lease: int = 0, done: int = 0) -> Assigned:
    """What a group has now, at the queue's master."""
    master = bench.home(bench.queue).master.partition("/")[0]
    told = bench.ask(master, Assign(bench.queue, "g", lease, "r1", done, 10, 1 << 20))
    assert isinstance(told, Assigned)
    return told
