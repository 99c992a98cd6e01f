"""How a queue grows with its partitions, each node on the same small share of one core.

    python benchmarks/partition_scale.py [--partitions 1,2,4,8,16] [--nodes 0] [--share 0.05]
        [--seconds 10] [--clients 64] [--processes 4] [--items 1000,1] [--rest 20] [--json]

For each number of partitions as many nodes are started, and each has its share of a core, as a
small machine of its own (`shares.py`), once all clients are connected. Clients have no bound. First
all of them put, then all of them get and acknowledge; what is done within the seconds counts. Every
queue has one copy, so that only partitions differ. Needs Linux, and root.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.peers.starting import progress

import snowmelt
from snowmelt import Empty, Fifo
from snowmelt.cli.local import LocalCluster, end_on_sigterm
from snowmelt_world.shares import Shares, Unbounded, nanoseconds

HEARTBEAT: Final = 3.0
BODY: Final = b"x" * 100
TIMEOUT: Final = 60.0
SETTLED: Final = 2.0
"""So many seconds before it begins, nodes have their shares."""


class Load(msgspec.Struct, frozen=True):
    """What one process is to do."""

    url: str
    queue: str
    partitions: int
    items: int
    """In one call."""
    clients: int
    """Threads of one process."""
    begin: float
    """When all begin, by the clock that only grows."""
    seconds: float


class Row(msgspec.Struct, frozen=True):
    """What came of it."""

    partitions: int
    items: int
    put: float
    """Items a second."""
    got: float
    busiest: float
    """What of its share the node used that used most, while items were got."""


def _put(queue: Fifo, items: int) -> int:
    queue.put_many([BODY] * items, timeout=TIMEOUT)
    return items


def _get(queue: Fifo, items: int) -> int:
    try:
        some = queue.get_many(items, timeout=TIMEOUT)
    except Empty:
        return 0
    some.ack()
    return len(some)


def _turns(load: Load, call: Callable[[Fifo, int], int], _: int) -> int:
    """What one client does in its time."""
    done = 0
    with snowmelt.connect(load.url) as cluster:
        queue = cluster.fifo(load.queue, partitions=load.partitions, replicas=1)
        for _ in range(load.partitions):  # each has a connection to all of their leaders
            queue.put(BODY, timeout=TIMEOUT)
        queue.get(timeout=TIMEOUT).ack()
        sleep(max(0.0, load.begin - monotonic()))
        end = load.begin + load.seconds
        while monotonic() < end:
            some = call(queue, load.items)
            done += some if monotonic() < end else 0
    return done


def _process(load: Load, call: Callable[[Fifo, int], int]) -> int:
    with ThreadPoolExecutor(load.clients) as threads:
        return sum(threads.map(partial(_turns, load, call), range(load.clients)))


def _measured(told: argparse.Namespace, partitions: int, items: int, shares: Shares) -> Row:
    with (
        tempfile.TemporaryDirectory(prefix="snowmelt-partitions-") as folder,
        LocalCluster(told.nodes or partitions, Path(folder), HEARTBEAT) as started,
        ProcessPoolExecutor(told.processes, mp_context=get_context("spawn")) as pool,
    ):
        started.start()
        with snowmelt.connect(started.url) as cluster:
            cluster.fifo("log", partitions=partitions, replicas=1).create(timeout=TIMEOUT)
        for node in started.nodes:
            shares.bound(node.pid, 1.0)
        rates, used = [], 0.0
        for call in (_put, _get):
            begin = monotonic() + told.rest
            each = told.clients // told.processes
            load = Load(started.url, "log", partitions, items, each, begin, told.seconds)
            asked = [pool.submit(_process, load, call) for _ in range(told.processes)]
            sleep(max(0.0, begin - SETTLED - monotonic()))
            for node in started.nodes:
                shares.bound(node.pid, told.share)
            sleep(max(0.0, begin - monotonic()))
            before = [nanoseconds(node.pid) for node in started.nodes]
            sleep(told.seconds)
            spent = [
                nanoseconds(node.pid) - was for node, was in zip(started.nodes, before, strict=True)
            ]
            used = max(spent) / 1e9 / (told.seconds * told.share)
            for node in started.nodes:  # what is on its way ends soon
                shares.bound(node.pid, 1.0)
            rates.append(sum([one.result() for one in asked]) / told.seconds)
    shares.sweep()
    put, got = rates
    return Row(partitions, items, put, got, used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--partitions", default="1,2,4,8,16")
    parser.add_argument("--nodes", type=int, default=0, help="0: as many as partitions")
    parser.add_argument("--items", default="1000,1", help="in one call")
    parser.add_argument("--share", type=float, default=0.05, help="of one core, for each node")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--rest", type=float, default=20.0, help="seconds in which all connect")
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    counts, items = (
        [int(word) for word in text.split(",")] for text in (told.partitions, told.items)
    )
    end_on_sigterm()
    try:
        shares = Shares(f"snowmelt-partitions-{os.getpid()}")
    except Unbounded as error:
        sys.exit(str(error))
    rows = []
    try:
        for many, count in product(items, counts):
            progress(f"{count} partitions, {many} a call")
            rows.append(_measured(told, count, many, shares))
            progress("")
            if not told.json:
                _print(rows[-1], next(one for one in rows if one.items == many))
    finally:
        shares.close()
    if told.json:
        print(json.dumps([msgspec.structs.asdict(row) for row in rows]))


def _print(row: Row, first: Row) -> None:
    print(
        f"{row.items:>5} a call, {row.partitions:>2} partitions: "
        f"put {row.put:>9,.0f}/s ({row.put / max(first.put, 1e-9):.1f} times), "
        f"got {row.got:>9,.0f}/s ({row.got / max(first.got, 1e-9):.1f} times), "
        f"busiest node {row.busiest:.0%} of its share",
        flush=True,
    )


if __name__ == "__main__":
    main()
