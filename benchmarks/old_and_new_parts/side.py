"""One of the two sources: does what it is told, a cell a line, and says how long it took.

    python -m benchmarks.old_and_new_parts.side FOLDER    with PYTHONPATH=SOURCE

Each line that it reads names a cell; each that it writes is a JSON pair, seconds by the clock and
seconds of processor of this process and all its nodes.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from pathlib import Path
from random import Random
from typing import Any, Final

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalCluster, end_on_sigterm

BODY: Final = bytes(100)
WAIT: Final = 10.0
TASKS: Final = 64
BATCH: Final = 1_000
WARM: Final = 10
"""Of what a cell does, one part in so many is done before the clock starts."""

ASIDE: Final = 0.02
"""Seconds in which what the warm-up left to be done aside, as a loop that is left does, is done."""

Took = tuple[float, float]
"""Seconds by the clock, and of processor."""


def put(queue: Any, count: int) -> None:
    for _ in range(count):
        queue.put(BODY)


def get_ack(queue: Any, count: int) -> None:
    for _ in range(count):
        queue.get(timeout=WAIT).ack()


def consume(queue: Any, count: int) -> None:
    for done, item in enumerate(queue.consume(), 1):
        item.ack()
        if done == count:
            break


def put_batches(queue: Any, count: int) -> None:
    for _ in range(count // BATCH):
        queue.put_many([BODY] * BATCH)


def put_generated(queue: Any, count: int) -> None:
    queue.put_many(repeat(BODY, count))


def get_batches(queue: Any, count: int) -> None:
    taken = 0
    while taken < count:
        items = queue.get_many(BATCH, timeout=WAIT)
        taken += len(items)
        items.ack()


async def put_tasks(queue: Any, count: int) -> None:
    async def one() -> None:
        for _ in range(count // TASKS):
            await queue.put(BODY)

    await asyncio.gather(*(one() for _ in range(TASKS)))


async def get_ack_tasks(queue: Any, count: int) -> None:
    async def one() -> None:
        for _ in range(count // TASKS):
            await (await queue.get(timeout=WAIT)).ack()

    await asyncio.gather(*(one() for _ in range(TASKS)))


WAYS: Final[dict[str, tuple[Callable[[Any, int], Any], int]]] = {
    "put": (put, 300),
    "get+ack": (get_ack, 300),
    "put, consume": (put, 1_000),
    "consume": (consume, 1_000),
    "put 1,000 a call": (put_batches, 40_000),
    "get 1,000 a call": (get_batches, 40_000),
    "put_many of a generator": (put_generated, 40_000),
    "get all of it": (get_batches, 40_000),
    "put, 64 tasks": (put_tasks, 64 * 60),
    "get+ack, 64 tasks": (get_ack_tasks, 64 * 60),
}
"""In this order: each second way takes out what the one before it put in."""

KINDS: Final = ("fifo", "priority", "any", "ten", "drawn")
"""One priority, one of any number, one of ten by chance, any number by chance."""
PLACES: Final = {"folder": 0, "1 node": 1, "3 nodes": 3}
"""How many nodes: none is a folder of this process."""


class Drawn:
    """A queue with priorities into which each item is put with one by chance."""

    def __init__(self, queue: Any, below: int) -> None:
        self._queue = queue
        self._below = below
        self._chance = Random(1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def put(self, body: bytes) -> Any:
        return self._queue.put(body, priority=self._chance.randrange(self._below))

    def put_many(self, bodies: Iterable[bytes]) -> Any:
        draw, below = self._chance.randrange, self._below
        return self._queue.put_many((draw(below), body) for body in bodies)


class Side:
    """Opens what a cell needs when it is first named, and keeps it."""

    def __init__(self, folder: Path, kept: contextlib.ExitStack) -> None:
        self._folder = folder
        self._kept = kept
        self._nodes: dict[str, LocalCluster] = {}
        self._clusters: dict[str, Any] = {}

    def measure(self, place: str, kind: str, way: str) -> Took:
        step, count = WAYS[way]
        if asyncio.iscoroutinefunction(step):
            return asyncio.run(self._tasks(place, kind, step, count))
        if place not in self._clusters:
            self._clusters[place] = self._kept.enter_context(self._open(snowmelt, place))
        queue = queue_of(self._clusters[place], place, kind)
        step(queue, count // WARM)
        time.sleep(ASIDE)
        before = self._now()
        step(queue, count)
        return since(before, self._now())

    async def _tasks(self, place: str, kind: str, step: Any, count: int) -> Took:
        async with self._open(snowmelt.aio, place) as cluster:
            queue = queue_of(cluster, place, f"{kind}-tasks")
            await step(queue, count // WARM)
            before = self._now()
            await step(queue, count)
            return since(before, self._now())

    def _open(self, source: Any, place: str) -> Any:
        nodes = PLACES[place]
        if not nodes:
            return source.open(self._folder / source.__name__)
        if place not in self._nodes:
            folder = self._folder / f"{nodes}-nodes"
            folder.mkdir()
            self._nodes[place] = self._kept.enter_context(LocalCluster(nodes, folder))
            self._nodes[place].start()
        return source.connect(self._nodes[place].url)

    def _now(self) -> Took:
        pids = [node.pid for nodes in self._nodes.values() for node in nodes.nodes]
        return time.perf_counter(), time.process_time() + sum(map(processor, pids))


def queue_of(cluster: Any, place: str, name: str) -> Any:
    """A queue of the kind that its name begins with, with a copy on each node."""
    replicas: dict[str, Any] = {"replicas": PLACES[place]} if PLACES[place] else {}
    if name.startswith("fifo"):
        return cluster.fifo(name, **replicas)
    if name.startswith("ten"):
        return Drawn(cluster.priority(name, priorities=10, **replicas), 10)
    if name.startswith("drawn"):
        return Drawn(cluster.priority(name, priorities=int, **replicas), 1 << 62)
    priorities = int if name.startswith("any") else 1
    return cluster.priority(name, priorities=priorities, **replicas)


def since(before: Took, after: Took) -> Took:
    return after[0] - before[0], after[1] - before[1]


def processor(pid: int) -> float:
    """Seconds that all threads of a process have worked."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((one / "schedstat").read_text().split()[0]) for one in tasks) / 1e9


def cells() -> Iterator[tuple[str, str, str]]:
    """All of them, in an order in which what is got was put."""
    return ((place, kind, way) for place in PLACES for kind in KINDS for way in WAYS)


def main() -> int:
    end_on_sigterm()
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as kept:
        side = Side(folder, kept)
        for line in sys.stdin:
            place, kind, way = json.loads(line)
            print(json.dumps(side.measure(place, kind, way)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
