"""Two million single puts over three nodes, each item on all of them; mirrors restart meanwhile.

    python benchmarks/fifo_runs.py [--items 2000000] [--clients 48] [--restarts 2] [--quick]
        [--json]

Clients put items one by one through all three nodes, and nobody takes one. Meanwhile the nodes that
are not the master are restarted in turn. At the end it waits until nothing is short of copies, and
says what the journal takes, in runs and in the nodes' memory, how long the longest turn of each
node's loop was, and whether the first and the last items can still be got.

It ends with 1 when a node heard nobody for longer than the bar.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.chaos.memory import resident_mib

import snowmelt
from snowmelt import aio
from snowmelt.cli.local import LocalCluster, end_on_sigterm
from snowmelt.core.errors import SnowmeltError

QUEUE = "long"
BODY = bytes(100)
TURN_SECONDS = 0.05
SETTLED_WITHIN = 600.0


class Result(msgspec.Struct, frozen=True):
    """The run."""

    items: int
    put_per_second: int
    runs: int
    """Records of the master's journal for all of it."""
    restarts: int
    caught_up_seconds: float
    """From the last put until nothing was short of copies."""
    nodes_mib: dict[str, int]
    longest_turn: dict[str, float]
    bar: float


class Load:
    """Clients that put one by one, and how many they have put."""

    def __init__(self, items: int, clients: int) -> None:
        self.put = 0
        self._left = items
        self._clients = clients

    async def run(self, urls: list[str]) -> None:
        """Puts all."""
        async with asyncio.TaskGroup() as group:
            for at in range(self._clients):
                group.create_task(self._client(urls[at % len(urls)]))

    async def _client(self, url: str) -> None:
        async with aio.connect(url) as cluster:
            queue = cluster.fifo(QUEUE)
            while self._left > 0:
                self._left -= 1
                while not await self._puts(queue):
                    await asyncio.sleep(0.2)
                self.put += 1

    async def _puts(self, queue: aio.Fifo) -> bool:
        try:
            await queue.put(BODY, timeout=60)
        except SnowmeltError as error:  # its node is away
            print(f"a put: {error}", file=sys.stderr, flush=True)
            return False
        return True


async def filled(local: LocalCluster, options: argparse.Namespace) -> float:
    """Seconds of the puts. Each mirror is away for a moment, at an equal distance."""
    load = Load(options.items, options.clients)
    urls = [f"snowmelt://{node.address}" for node in local.nodes]
    begin = time.monotonic()
    putting = asyncio.create_task(load.run([local.url, *urls]))
    for restart in range(options.restarts):
        while not putting.done() and load.put < options.items * (restart + 1) // (
            options.restarts + 1
        ):
            await asyncio.sleep(0.1)
        node = mirrors(local)[restart % 2]
        print(f"restart {node.name} at {load.put:,} items", file=sys.stderr, flush=True)
        await asyncio.to_thread(node.kill)
        await asyncio.sleep(2.0)
        await asyncio.to_thread(node.start)
    await putting
    return time.monotonic() - begin


def mirrors(local: LocalCluster) -> list:
    """The nodes that are not the master, nor the coordinator where there is a choice."""
    with snowmelt.connect(local.url) as cluster:
        master = cluster.fifo(QUEUE).stats().master
    return [node for node in reversed(local.nodes) if node.name != master]


def settled(queue: snowmelt.Fifo, items: int) -> float:
    """Waits until nothing is short; how long that took."""
    begin = time.monotonic()
    while (status := queue.stats(timeout=60)).short_of_copies or status.ready < items:
        if time.monotonic() - begin > SETTLED_WITHIN:
            raise SystemExit(f"after {SETTLED_WITHIN:.0f} s: {status}")
        time.sleep(0.2)
    return time.monotonic() - begin


def turns(local: LocalCluster) -> dict[str, float]:
    """The longest turn of each node's loop, since it began."""
    found = {}
    for node in local.nodes:
        with snowmelt.connect(f"snowmelt://{node.address}") as cluster:
            found[node.name] = cluster.statistics().longest_turn
    return found


def measured(options: argparse.Namespace, folder: Path) -> Result:
    with LocalCluster(3, folder) as local:
        local.start()
        with snowmelt.connect(local.url) as cluster:
            queue = cluster.fifo(QUEUE, replicas=3)
            queue.put(BODY)
            took = asyncio.run(filled(local, options))
            caught_up = settled(queue, options.items)
            assert len(queue.get_many(1000)) == 1000
            return Result(
                options.items,
                round(options.items / took),
                queue.stats().extents,
                options.restarts,
                round(caught_up, 1),
                {node.name: resident_mib(node.pid) for node in local.nodes},
                turns(local),
                TURN_SECONDS,
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=2_000_000)
    parser.add_argument("--clients", type=int, default=48)
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a fiftieth of it")
    parser.add_argument("--folder", type=Path, default=None, help="where the disks are made")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.items //= 50
    end_on_sigterm()
    folder = Path(tempfile.mkdtemp(prefix="runs-", dir=options.folder))
    try:
        result = measured(options, folder)
    except SnowmeltError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder)
    print(msgspec.json.encode(result).decode() if options.json else result)
    return 1 if max(result.longest_turn.values()) > TURN_SECONDS else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:  # the nodes are stopped by now
        raise SystemExit(130) from None
