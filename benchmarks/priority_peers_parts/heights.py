"""How long one call takes, beside the height of the tree that operations climb.

A client puts, and then gets and acknowledges, one item at a time: at the anchor, which is the root
of the queue's tree, and at a node that is as deep in it as any. Every node shares the servers'
core, and none has other work.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.fifo import cores
from benchmarks.fifo.cell import Bounds, Cell
from benchmarks.fifo.load import turn
from benchmarks.fifo.starting import progress
from benchmarks.priority_peers_parts.snowmelt_priority import PriorityClient
from rich.table import Table

from snowmelt.cli.local import LocalCluster
from snowmelt.core.names import NodeId
from snowmelt.protocols.overlay.tree import FlatTree
from snowmelt.protocols.priority.limits import LIMITS

NODES: Final = (1, 3, 9, 16)
QUICK: Final = (1, 3)
CELL: Final = Cell(100, 1)
QUEUE: Final = "heights"


@dataclass(frozen=True)
class Height:
    """One door's calls, in milliseconds."""

    nodes: int
    height: int
    depth: int
    """Of the door that was asked: the edges from it to the anchor."""
    put_p50_ms: float
    put_p99_ms: float
    take_p50_ms: float
    take_p99_ms: float

    def told(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


def heights(nodes: tuple[int, ...], bounds: Bounds, folder: Path) -> Iterator[Height]:
    """Both doors of each cluster; raises `TurnFailed`."""
    for count in nodes:
        progress(f"one call at a time, {count} nodes")
        with tempfile.TemporaryDirectory(prefix="heights-", dir=folder) as place:
            cluster = LocalCluster(count, Path(place))
            try:
                with cores.on(cores.SERVER):
                    cluster.start()
                yield from doors(cluster, bounds)
            finally:
                cluster.stop()
    progress("")


def doors(cluster: LocalCluster, bounds: Bounds) -> Iterator[Height]:
    """The anchor, and the deepest node, unless they are one."""
    tree = FlatTree([NodeId(node.name) for node in cluster.nodes], QUEUE, LIMITS.arity)
    urls = {node.name: node.url for node in cluster.nodes}
    for depth, name in sorted({0: tree.nodes[0], tree.height: tree.nodes[-1]}.items()):
        found = turn(partial(PriorityClient, urls[name], QUEUE, 1), CELL, bounds)
        assert found.take is not None
        times = (found.put.p50, found.put.p99, found.take.p50, found.take.p99)
        yield Height(len(urls), tree.height, depth, *(1000 * each for each in times))


def table(found: list[Height]) -> Table:
    title = "One call at a time: milliseconds, beside the height of the tree"
    table = Table(title=title)
    heads = "nodes", "height", "door's depth", "put p50", "p99 ms", "get+ack p50", "p99 ms"
    for head in heads:
        table.add_column(head, justify="right")
    for one in found:
        counts = map(str, (one.nodes, one.height, one.depth))
        times = (one.put_p50_ms, one.put_p99_ms, one.take_p50_ms, one.take_p99_ms)
        table.add_row(*counts, *(f"{each:.2f}" for each in times))
    return table
