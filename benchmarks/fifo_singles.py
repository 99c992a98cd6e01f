"""Two million single puts on three nodes, each item on all of them; followers restart meanwhile.

    python benchmarks/fifo_singles.py [--items 2000000] [--restarts 2] [--quick] [--json]
        [--programs 3] [--clients 4] [--at-once 64] [--folder DIR] [--log debug]

Some programs put items one by one, all as much at once as is said, and nobody takes one; each of
their clients comes anew after a while. Meanwhile the nodes that do not lead are killed in turn, and
started again. At the end it waits until nothing is short of copies and the followers lack nothing,
says what the state takes (in blocks, and in memory), gets the first items, and kills the leader: a
follower that was restarted goes on with all of it.

It says how long the longest turn of each node's loop was, by the clock, and how much of the
processor's time the hardest took and what that was about. By the clock a turn is long also when
the system lets other programs work meanwhile, and these nodes share the machine with the programs
that put; so the bar is for the processor's time. Every turn of more than 20 ms is in the nodes'
logs with `--log debug`.

It ends with 1 when a turn took more than the bar, or when a follower did not catch up.
"""

import argparse
import asyncio
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.chaos.memory import resident_mib

import snowmelt
from snowmelt import aio
from snowmelt.cli.local import LocalCluster, LocalNode, end_on_sigterm
from snowmelt.core.errors import SnowmeltError
from snowmelt.protocols.queue.calls import QueueStatus

QUEUE = "long"
BODY = bytes(100)
TURN_SECONDS = 0.05
SETTLED_WITHIN = 600.0
STAY = 5_000
"""So many items a client puts, before another comes in its place."""


class NodeResult(msgspec.Struct, frozen=True):
    """One node, since it was last started; of the two that restart, the worst of both times."""

    longest_turn: float
    """Seconds, by the clock."""
    longest_turn_cpu: float
    longest_turn_event: str
    mib: int
    """In memory, at the end of the puts."""


class Result(msgspec.Struct, frozen=True):
    """The run."""

    items: int
    ready: int
    """Above `items` by those of which nobody knew whether they had come, and that were put anew."""
    seconds: float
    put_per_second: int
    blocks: int
    """Records of puts in the leader's state, for all of it."""
    restarts: int
    caught_up_seconds: float
    """From the last put until nothing was short of copies, and no follower lacked anything."""
    takeover_seconds: float
    """From the death of the leader until another had given out the first items."""
    nodes: dict[str, NodeResult]
    bar: float


class Load:
    """Programs that put one by one, very many at once, and how many they have put."""

    def __init__(self, url: str, options: argparse.Namespace) -> None:
        share, rest = divmod(options.items, options.programs)
        context = multiprocessing.get_context("spawn")
        self._counts = [context.Value("q", 0, lock=False) for _ in range(options.programs)]
        shares = [share + (at < rest) for at in range(options.programs)]
        self._programs = [
            context.Process(target=putting, args=(url, options, items, count), daemon=True)
            for items, count in zip(shares, self._counts, strict=True)
        ]
        for program in self._programs:
            program.start()

    @property
    def put(self) -> int:
        """So many items until now."""
        return sum(count.value for count in self._counts)

    @property
    def busy(self) -> bool:
        """Whether some are not done."""
        for program in self._programs:
            if program.exitcode:
                raise SystemExit(f"a program that puts ended with {program.exitcode}")
        return any(program.is_alive() for program in self._programs)


def putting(url: str, options: argparse.Namespace, items: int, count: Any) -> None:
    """One program: some clients after each other, at some places at once."""
    tickets = iter(range(items))

    async def place() -> None:
        while mine := list(islice(tickets, STAY)):
            async with aio.connect(url) as cluster:
                queue, left = cluster.fifo(QUEUE), iter(mine)
                async with asyncio.TaskGroup() as group:
                    for _ in range(options.at_once):
                        group.create_task(putter(queue, left))

    async def putter(queue: aio.Fifo, left: Iterator[int]) -> None:
        for _ in left:
            while not await came(queue):
                await asyncio.sleep(0.2)
            count.value += 1

    async def places() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(options.clients):
                group.create_task(place())

    asyncio.run(places())


async def came(queue: aio.Fifo) -> bool:
    """Puts an item; whether it is known to have come."""
    try:
        await queue.put(BODY, timeout=60)
    except SnowmeltError as error:  # its node is away
        print(f"a put: {error}", file=sys.stderr, flush=True)
        return False
    return True


def filled(local: LocalCluster, options: argparse.Namespace, turns: "Turns") -> float:
    """Seconds of the puts. Each follower is away for a moment, at an equal distance."""
    begin = time.monotonic()
    load = Load(local.url, options)
    for restart in range(options.restarts):
        while load.busy and load.put < options.items * (restart + 1) // (options.restarts + 1):
            time.sleep(0.1)
        followers = [node for node in reversed(local.nodes) if node.name != leader(local)]
        node = followers[restart % 2]
        print(f"restart {node.name} at {load.put:,} items", file=sys.stderr, flush=True)
        turns.look(node)
        node.kill()
        time.sleep(2.0)
        node.start()
    while load.busy:
        time.sleep(0.1)
    return time.monotonic() - begin


def status_of(local: LocalCluster) -> QueueStatus:
    """How the queue is."""
    with snowmelt.connect(local.url) as cluster:
        return cluster.fifo(QUEUE).stats(timeout=60)


def leader(local: LocalCluster) -> str:
    """Which node leads the queue."""
    return status_of(local).leader


def settled(local: LocalCluster) -> float:
    """Waits until nothing is short, and no follower behind; how long that took."""
    begin = time.monotonic()
    while (status := status_of(local)).short_of_copies or status.followers_behind:
        if time.monotonic() - begin > SETTLED_WITHIN:
            raise SystemExit(f"after {SETTLED_WITHIN:.0f} s: {status}")
        time.sleep(0.2)
    return time.monotonic() - begin


class Turns:
    """What the nodes say of their longest turns; before one is killed, and at the end."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeResult] = {}

    def look(self, node: LocalNode) -> None:
        """One more look at a node that runs."""
        with snowmelt.connect(f"snowmelt://{node.address}") as cluster:
            now = cluster.statistics(timeout=60)
        before = self.nodes.get(node.name)
        event, cpu = now.longest_turn_event, now.longest_turn_cpu
        if before is not None and before.longest_turn_cpu > cpu:
            event, cpu = before.longest_turn_event, before.longest_turn_cpu
        longest = max(now.longest_turn, 0.0 if before is None else before.longest_turn)
        mib = max(resident_mib(node.pid), 0 if before is None else before.mib)
        self.nodes[node.name] = NodeResult(longest, cpu, event, mib)


def taken_over(local: LocalCluster, turns: Turns) -> float:
    """Kills the leader; seconds until another has given out the first items."""
    before = status_of(local)
    begin = time.monotonic()
    for node in local.nodes:
        turns.look(node)
    next(node for node in local.nodes if node.name == before.leader).kill()
    with snowmelt.connect(local.url) as cluster:
        held = cluster.fifo(QUEUE).get_many(1000, timeout=120)
    took = time.monotonic() - begin
    after = status_of(local)
    first = next(iter(held)).position
    assert first == 0, f"the first is {first}"
    if after.ready + after.leased != before.ready:
        raise SystemExit(f"of {before.ready} items {after.leader} has {after}")
    for node in local.nodes:
        if node.running:
            turns.look(node)
    return took


def measured(options: argparse.Namespace, folder: Path) -> Result:
    with LocalCluster(3, folder, options=["--log", options.log]) as local:
        local.start()
        turns = Turns()
        with snowmelt.connect(local.url) as cluster:
            cluster.fifo(QUEUE, replicas=3).put(BODY)
        took = filled(local, options, turns)
        caught_up = settled(local)
        status = status_of(local)
        takeover = taken_over(local, turns)
        return Result(
            items=options.items,
            ready=status.ready,
            seconds=round(took, 1),
            put_per_second=round(options.items / took),
            blocks=status.blocks,
            restarts=options.restarts,
            caught_up_seconds=round(caught_up, 1),
            takeover_seconds=round(takeover, 1),
            nodes=turns.nodes,
            bar=TURN_SECONDS,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=2_000_000)
    parser.add_argument("--programs", type=int, default=3, help="that put")
    parser.add_argument("--clients", type=int, default=4, help="of each program")
    parser.add_argument("--at-once", type=int, default=64, help="puts of each client")
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a fiftieth of it")
    parser.add_argument("--folder", type=Path, default=None, help="where the disks are made")
    parser.add_argument("--log", default="info", help="level of the nodes' logs; debug keeps them")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.items //= 50
    end_on_sigterm()
    folder = Path(tempfile.mkdtemp(prefix="singles-", dir=options.folder))
    try:
        result = measured(options, folder)
    except SnowmeltError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    finally:
        if options.log == "debug":
            print(f"the nodes' logs are in {folder}", file=sys.stderr)
            for data in folder.iterdir():
                if data.is_dir():
                    shutil.rmtree(data)
        else:
            shutil.rmtree(folder)
    print(msgspec.json.encode(result).decode() if options.json else result)
    return 1 if max(one.longest_turn_cpu for one in result.nodes.values()) > TURN_SECONDS else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:  # the nodes are stopped by now
        raise SystemExit(130) from None
