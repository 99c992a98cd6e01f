"""What a get costs at a backlog of ten million items, against one at ten thousand, in one run.

    python benchmarks/fifo_backlog.py [--items 10000000] [--small 10000] [--single 200000]
        [--quick] [--json]

One node, two queues: one with the small backlog, one with the large, put in batches of 1,000. Gets
of 1,000 and gets of one are measured at both in turn; whatever was got is acknowledged along with
the next get, and put again, so the backlogs stay what they are. Only gets are timed. A third queue
is filled with single puts, which shows what these cost the leader in blocks.

It ends with 1 when the rate at the large backlog is below 0.8 of that at the small one.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import msgspec
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.chaos.memory import resident_mib

import snowmelt
from snowmelt.cli.local import LocalCluster, end_on_sigterm
from snowmelt.core.errors import SnowmeltError

BATCH = 1000
BODY = bytes(100)
BAR = 0.8
PUTTERS = 16


class Row(msgspec.Struct, frozen=True):
    """One backlog."""

    backlog: str
    items: int
    extents: int
    node_mib: int
    """What the node holds in memory, all queues so far together."""
    put_per_second: int
    """Items, while it was filled."""
    batch_gets_per_second: float
    single_gets_per_second: float


class Result(msgspec.Struct, frozen=True):
    """The run."""

    rows: list[Row]
    batch_ratio: float
    single_ratio: float
    bar: float


class Backlog:
    """A queue with so many items in it, and how fast gets are there."""

    def __init__(self, cluster: snowmelt.Cluster, name: str, items: int) -> None:
        self.name = name
        self.items = items
        self.queue = cluster.fifo(name, lease=3600)
        self.node_mib = 0
        self.extents = 0
        self.filled: float = 0.0
        self.batches: list[float] = []
        self.singles: list[float] = []

    def fill(self) -> None:
        """In batches."""
        begin = time.perf_counter()
        for _ in range(0, self.items, BATCH):
            self.queue.put_many([BODY] * BATCH)
        self.filled = self.items / (time.perf_counter() - begin)

    def fill_singly(self) -> None:
        """One by one, from some threads."""
        begin = time.perf_counter()
        share = self.items // PUTTERS
        threads = [Thread(target=self._put_singly, args=(share,)) for _ in range(PUTTERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.filled = share * PUTTERS / (time.perf_counter() - begin)

    def _put_singly(self, count: int) -> None:
        for _ in range(count):
            self.queue.put(BODY)

    def measure(self, gets: int) -> None:
        """Some gets of many and some of one; then as many items are put again."""
        self.batches.append(self._rate(gets, BATCH))
        self.singles.append(self._rate(gets, 1))
        self._put_again(gets * (BATCH + 1))

    def _rate(self, gets: int, items_max: int) -> float:
        held = None
        begin = time.perf_counter()
        for _ in range(gets):
            held = self.queue.get_many(items_max, ack=held)
        rate = gets / (time.perf_counter() - begin)
        assert held is not None
        held.ack()
        return rate

    def _put_again(self, items: int) -> None:
        while items > 0:
            self.queue.put_many([BODY] * min(BATCH, items))
            items -= BATCH

    def row(self) -> Row:
        """What was seen; the rates are the medians of the rounds."""
        return Row(
            self.name,
            self.items,
            self.extents,
            self.node_mib,
            round(self.filled),
            round(statistics.median(self.batches), 1),
            round(statistics.median(self.singles), 1),
        )


def filled(cluster: snowmelt.Cluster, pid: int, options: argparse.Namespace) -> Iterator[Backlog]:
    """The queues, each when it is full."""
    small = Backlog(cluster, "small", options.small)
    large = Backlog(cluster, "large", options.items)
    single = Backlog(cluster, "single", options.single)
    for backlog, fill in (
        (small, small.fill),
        (large, large.fill),
        (single, single.fill_singly),
    ):
        fill()
        backlog.node_mib = resident_mib(pid)
        backlog.extents = backlog.queue.stats().blocks
        print(f"{backlog.name}: {backlog.filled:,.0f} items/s put", file=sys.stderr, flush=True)
        yield backlog


def measured(options: argparse.Namespace, folder: Path) -> Result:
    with LocalCluster(1, folder) as local:
        local.start()
        with snowmelt.connect(local.url) as cluster:
            backlogs = list(filled(cluster, local.nodes[0].pid, options))
            small, large, single = backlogs
            gets = min(options.gets, options.small // (2 * BATCH))
            for _ in range(options.rounds):
                small.measure(gets)
                large.measure(gets)
            for _ in range(options.single // (2 * BATCH * gets)):  # half of what was put singly
                single.measure(gets)
            rows = [backlog.row() for backlog in backlogs]
    return Result(
        rows,
        round(statistics.median(large.batches) / statistics.median(small.batches), 2),
        round(statistics.median(large.singles) / statistics.median(small.singles), 2),
        BAR,
    )


def show(result: Result) -> None:
    table = Table(title="get at a backlog")
    for name in Row.__struct_fields__:
        table.add_column(name.replace("_", " "), justify="right")
    for row in result.rows:
        cells = msgspec.structs.astuple(row)
        table.add_row(cells[0], *(f"{cell:,}" for cell in cells[1:]))
    console = Console(width=140)
    console.print(table)
    ratios = f"{result.batch_ratio:.2f} for batches and {result.single_ratio:.2f} for single gets"
    console.print(f"large to small: {ratios}; the bar is {result.bar}", highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=10_000_000, help="the large backlog")
    parser.add_argument("--small", type=int, default=10_000, help="the small backlog")
    parser.add_argument("--single", type=int, default=200_000, help="items put one by one")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--gets", type=int, default=5, help="of each kind, at each, in a round")
    parser.add_argument("--quick", action="store_true", help="a tenth of it")
    parser.add_argument("--folder", type=Path, default=None, help="where the disk is made")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.items, options.single = options.items // 10, options.single // 10
    end_on_sigterm()
    folder = Path(tempfile.mkdtemp(prefix="backlog-", dir=options.folder))
    try:
        result = measured(options, folder)
    except SnowmeltError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder)
    if options.json:
        print(msgspec.json.encode(result).decode())
    else:
        show(result)
    return 1 if min(result.batch_ratio, result.single_ratio) < BAR else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:  # the node is stopped by now
        raise SystemExit(130) from None
