"""What more nodes move when each has the same small share of a core, as on machines of their own.

One queue, each item on one node. Tasks of one process, some for each node and each with that node
for a door, put a batch and then get one, acknowledging the one before, for as long as is measured.
The process has a core of its own; how busy it was is told, so that it can be seen whether it, and
not the nodes, set the pace. So is how long all nodes worked for an item, and the busiest of them,
which does not depend on what else the machine has to do as the rest does. Needs Linux and root.
"""

import asyncio
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.fifo.cell import Bounds, Cell
from benchmarks.fifo.load import Phase, Turn, turn
from benchmarks.fifo.starting import progress
from benchmarks.priority_peers_parts.urgency import PRIORITIES
from benchmarks.shares import Shares, nanoseconds
from rich.table import Table

import snowmelt.aio
from snowmelt.cli.local import LocalCluster
from snowmelt.core.errors import Empty, SnowmeltError

NODES: Final = (1, 2, 4, 8, 16)
QUICK: Final = (1, 2)
SHARE: Final = 0.05
CELL: Final = Cell(100, 1_000)
TASKS: Final = 8
"""For each node: so many that none is ever idle."""
STEADY_SECONDS: Final = 3.0
CALL_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Scale:
    """What so many nodes moved."""

    nodes: int
    items_per_second: float
    batch_ms: float
    """Median of the time from one batch got to the next, put and got."""
    client_busy: float
    """How much of its core the client used."""
    nodes_us: float
    """Processor time of all nodes for an item, in microseconds."""
    busiest_us: float
    """Of the node that worked most."""


def scale(nodes: tuple[int, ...], seconds: float, folder: Path) -> list[Scale]:
    """A line for each number of nodes; raises `Unbounded` and `TurnFailed`."""
    shares = Shares(f"snowmelt-priority-{os.getpid()}")
    try:
        return [measured(count, shares, seconds, folder) for count in nodes]
    finally:
        progress("")
        shares.close()


def measured(count: int, shares: Shares, seconds: float, folder: Path) -> Scale:
    progress(f"{count} nodes on {SHARE:.0%} of a core each")
    with tempfile.TemporaryDirectory(prefix="scale-", dir=folder) as place:
        cluster = LocalCluster(count, Path(place))
        try:
            cluster.start()
            for node in cluster.nodes:
                shares.bound(node.pid, SHARE)
            nodes = [(node.url, node.pid) for node in cluster.nodes]
            bounds = Bounds(seconds, 0, 0)
            found = turn(partial(list, nodes), CELL, bounds, work=by_nodes)
        finally:
            cluster.stop()
            shares.sweep()
    moved, busy = found.put, found.take
    assert busy is not None
    items = moved.calls * CELL.batch
    return Scale(
        count, items / moved.seconds, 1000 * moved.p50, busy.seconds / moved.seconds,
        1e6 * busy.p50 / items, 1e6 * busy.p99 / items,
    )  # fmt: skip


def by_nodes(nodes: Any, cell: Cell, bounds: Bounds) -> Turn:
    """Batches that went all the way; and, in place of what was taken, the processors' time.

    That of this process, of all nodes together, and of the busiest.
    """
    return asyncio.run(_moved(nodes(), cell, bounds.seconds))


async def _moved(nodes: list[tuple[str, int]], cell: Cell, seconds: float) -> Turn:
    items = [(number % PRIORITIES, os.urandom(cell.size)) for number in range(cell.batch)]
    marks: list[tuple[float, int, float]] = []
    begin = time.perf_counter() + STEADY_SECONDS
    end = begin + seconds

    async def work(queue: snowmelt.aio.PriorityQueue) -> None:
        taken = None
        last = time.perf_counter()
        while last < end:
            await queue.put_many(items, timeout=CALL_SECONDS)
            try:
                taken = await queue.get_many(cell.batch, timeout=CALL_SECONDS, ack=taken)
            except Empty:
                taken = None
                continue
            now = time.perf_counter()
            marks.append((now, len(taken), now - last))
            last = now

    clusters = [snowmelt.aio.connect(url) for url, _ in nodes]
    try:
        queues = [each.priority("scale", priorities=PRIORITIES, replicas=1) for each in clusters]
        pids = [pid for _, pid in nodes]
        used = asyncio.get_running_loop().create_task(_used_between(begin, end, pids))
        async with asyncio.TaskGroup() as group:
            for queue in queues * TASKS:
                group.create_task(work(queue))
        busy = await used
    finally:
        for each in clusters:
            await each.close()
    within = [(count, took) for at, count, took in marks if begin < at <= end]
    if not within:
        raise SnowmeltError("no batch came all the way in the time")
    times = sorted(took for _, took in within)
    batches = round(sum(count for count, _ in within) / cell.batch)
    moved = Phase(batches, seconds, times[len(times) // 2], times[-1])
    return Turn(moved, busy)


async def _used_between(begin: float, end: float, pids: list[int]) -> Phase:
    """How much processor time this process used meanwhile, all of these, and the busiest."""
    await asyncio.sleep(begin - time.perf_counter())
    before, worked = time.process_time(), [nanoseconds(pid) for pid in pids]
    await asyncio.sleep(end - time.perf_counter())
    used = time.process_time() - before
    each = [(nanoseconds(pid) - was) / 1e9 for pid, was in zip(pids, worked, strict=True)]
    return Phase(1, used, sum(each), max(each))


def told(found: list[Scale]) -> list[dict[str, Any]]:
    """As JSON has it."""
    return [
        {key: round(value, 3) for key, value in asdict(one).items()}
        | {"times_one": round(one.items_per_second / found[0].items_per_second, 2)}
        for one in found
    ]


def table(found: list[Scale]) -> Table:
    table = Table(title=f"More nodes, each on {SHARE:.0%} of a core; {CELL}, one copy")
    heads = "nodes", "items/s", "times one", "put and get p50 ms", "client's core", "us an item"
    for head in (*heads, "of the busiest"):
        table.add_column(head, justify="right")
    for one in found:
        times = one.items_per_second / found[0].items_per_second
        rate, took = f"{one.items_per_second:,.0f}", f"{one.batch_ms:,.0f}"
        busy, worked = f"{one.client_busy:.0%}", (f"{one.nodes_us:.2f}", f"{one.busiest_us:.2f}")
        table.add_row(str(one.nodes), rate, f"{times:.2f}", took, busy, *worked)
    return table
