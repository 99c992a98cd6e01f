"""Processor time of an item in priority queues: what other work on the machine does not change.

    python benchmarks/priority_cpu.py [--peers snowmelt-1,snowmelt-any,redis,redis-zpopmin]
        [--calls 24] [--items 1000] [--tasks 64] [--json]

Items of 100 B are put, and then all got and acknowledged, 1,000 a call (`--items`), one call after
another, by one blocking client; with `--tasks` one a call, by so many tasks of an event loop, each
with its part of the calls. Counted is what the client and all processes of the server worked
meanwhile, in user and in system mode: a flush is waited for and costs little. The peers are those
of `priority_peers.py`, and each takes part alone.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec
from benchmarks.fifo.peer import Peer
from benchmarks.priority_peers_parts.peers import KINDS, make
from benchmarks.shares import nanoseconds

PEERS: Final = "snowmelt-1,snowmelt-any,redis,redis-zpopmin"
BATCH: Final = 1_000
SIZE: Final = 100

Worked = tuple[float, float]
"""Microseconds of the client, and of the server."""


class Spent(msgspec.Struct, frozen=True):
    """Microseconds for an item."""

    peer: str
    put_client: float
    put_server: float
    get_client: float
    get_server: float
    both: float


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="priority_cpu", description=__doc__.splitlines()[0])
    parser.add_argument("--peers", default=PEERS, help=f"of {', '.join(KINDS)}")
    parser.add_argument("--calls", type=int, default=24, help="so many puts, and as many gets")
    parser.add_argument("--items", type=int, default=BATCH, help="of so many items each")
    parser.add_argument("--tasks", type=int, default=0, help="of one item, by so many at once")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    options = parser.parse_args(argv)
    peers = options.peers.split(",")
    if not set(peers) <= set(KINDS) or min(options.calls, options.items) < 1:
        parser.error(f"--peers: of {', '.join(KINDS)}; --calls, --items: 1 or more")
    found = [spent(peer, options.calls, options.items, options.tasks) for peer in peers]
    if options.json:
        print(json.dumps([msgspec.to_builtins(one) for one in found]))
        return 0
    for one in found:
        print(
            f"{one.peer:18} put {one.put_client:5.1f} + {one.put_server:5.1f}, "
            f"get and acknowledge {one.get_client:5.1f} + {one.get_server:5.1f}, "
            f"both {one.both:5.1f} us an item (client + server)"
        )
    return 0


def spent(name: str, calls: int, items: int = BATCH, tasks: int = 0) -> Spent:
    """One peer, alone."""
    peer = make(name)
    before = set(processes(os.getpid()))
    with tempfile.TemporaryDirectory(prefix="priority-cpu-") as folder:
        try:
            peer.start(Path(folder))
            servers = [one for one in processes(os.getpid()) if one not in before]
            if tasks:
                each = -(-calls // tasks)
                counted, items = each * tasks, 1
                marks = asyncio.run(at_once(peer, each, tasks, servers))
            else:
                counted = calls
                marks = one_by_one(peer, calls, items, servers)
        finally:
            peer.stop()
    counted *= items
    (a, b), (c, d), (e, f) = marks
    parts = [round(one / counted, 2) for one in (c - a, d - b, e - c, f - d)]
    return Spent(name, *parts, round((e - a + f - b) / counted, 2))


def one_by_one(peer: Peer, calls: int, items: int, servers: list[int]) -> list[Worked]:
    """One call after another; what was worked before, between and after."""
    client = peer.client("cpu", items)()
    bodies = [os.urandom(SIZE)] * items
    client.put(bodies)  # what is done once is not counted
    client.take(items)
    client.settle()
    marks = [worked(servers)]
    for _ in range(calls):
        client.put(bodies)
    marks.append(worked(servers))
    left = calls * items
    while left:
        left -= client.take(items)
    client.settle()
    marks.append(worked(servers))
    client.close()
    return marks


async def at_once(peer: Peer, each: int, tasks: int, servers: list[int]) -> list[Worked]:
    """The same by so many tasks, each with so many calls of one item."""
    client = await peer.tasks("cpu", tasks)()
    body = os.urandom(SIZE)

    async def puts(_: int, count: int) -> None:
        for _ in range(count):
            await client.put(body)

    async def takes(task: int, count: int) -> None:
        for _ in range(count):
            await client.take(task)
        await client.settle(task)

    async def all_of(way: Callable[[int, int], Awaitable[None]], count: int) -> None:
        await asyncio.gather(*[way(task, count) for task in range(tasks)])

    await all_of(puts, 1)
    await all_of(takes, 1)
    marks = [worked(servers)]
    for way in (puts, takes):
        await all_of(way, each)
        marks.append(worked(servers))
    await client.close()
    return marks


def worked(servers: list[int]) -> Worked:
    """Microseconds of this process, and of these."""
    return time.process_time() * 1e6, sum(map(nanoseconds, servers)) / 1e3


def processes(process: int) -> Iterator[int]:
    """A process and all below it."""
    yield process
    for thread in Path(f"/proc/{process}/task").iterdir():
        for child in (thread / "children").read_text().split():
            yield from processes(int(child))


if __name__ == "__main__":
    raise SystemExit(main())
