"""Processor time of one item at a time, by thread: what other work on the machine does not change.

    python benchmarks/one_cpu.py [--kinds fifo,priority] [--nodes 1]
        [--calls 1000] [--rounds 3] [--folder DIR] [--json]

One blocking client, one node in another process, or several with as many replicas; items of 100 B.
First so many puts, one after another, then as many gets, each followed by its acknowledgement.
Counted is what the client, the loops and the commit threads of all nodes worked meanwhile, in
microseconds an operation (a get and its acknowledgement are one), and how often the nodes' threads
went to sleep. Of several rounds the least is told. Linux only.

Two sources of the program are compared by running this under each `PYTHONPATH` in turn.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

import snowmelt
from snowmelt.cli.local import LocalCluster, end_on_sigterm

BODY: Final = os.urandom(100)
KINDS: Final = "fifo,priority"


class Spent(msgspec.Struct, frozen=True):
    """Microseconds an operation."""

    kind: str
    what: str
    client: float
    loop: float
    commit: float
    sleeps: float
    """Times that a thread of the node waited for something."""

    @property
    def all(self) -> float:
        """By all threads."""
        return self.client + self.loop + self.commit


class Mark(msgspec.Struct, frozen=True):
    """Nanoseconds worked so far, and times slept."""

    client: int
    loop: int
    commit: int
    sleeps: int


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="one_cpu", description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default=KINDS)
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--folder", help="where the node's disk is to be; /dev/shm leaves it out")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    options = parser.parse_args(argv)
    kinds = options.kinds.split(",")
    if (
        not set(kinds) <= set(KINDS.split(","))
        or min(options.calls, options.rounds, options.nodes) < 1
    ):
        parser.error(f"--kinds: of {KINDS}; the numbers: 1 or more")
    end_on_sigterm()
    with (
        tempfile.TemporaryDirectory(prefix="one-cpu-", dir=options.folder) as folder,
        LocalCluster(options.nodes, Path(folder)) as nodes,
    ):
        nodes.start()
        found = run(nodes, kinds, options.calls, options.rounds)
    if options.json:
        print(json.dumps([msgspec.to_builtins(one) for one in found]))
        return 0
    for one in found:
        print(
            f"{one.kind:9} {one.what:8} client {one.client:6.1f}  loop {one.loop:6.1f}  "
            f"commit {one.commit:6.1f}  all {one.all:6.1f} us  sleeps {one.sleeps:.2f}"
        )
    return 0


def run(nodes: LocalCluster, kinds: list[str], calls: int, rounds: int) -> list[Spent]:
    """Of each kind and operation the round with the least work."""
    found: dict[tuple[str, str], Spent] = {}
    with snowmelt.connect(nodes.url) as cluster:
        for kind in kinds:
            queue: Any = getattr(cluster, kind)(f"one-{kind}", replicas=len(nodes.nodes))
            steps: dict[str, Callable[[], None]] = {
                "put": partial(queue.put, BODY),
                "get, ack": partial(get_and_ack, queue),
            }
            for round_ in range(rounds + 1):
                for what, step in steps.items():
                    before = marked(nodes)
                    for _ in range(calls if round_ else 50):
                        step()
                    one = spent(kind, what, before, marked(nodes), calls)
                    if round_:  # what is done once is not counted
                        known = found.get((kind, what), one)
                        found[kind, what] = min(known, one, key=lambda each: each.all)
    return list(found.values())


def get_and_ack(queue: Any) -> None:
    queue.get(timeout=5).ack()


def spent(kind: str, what: str, before: Mark, after: Mark, calls: int) -> Spent:
    """Between two marks, an operation."""
    client, loop, commit = (
        round((getattr(after, one) - getattr(before, one)) / calls / 1e3, 2)
        for one in ("client", "loop", "commit")
    )
    sleeps = round((after.sleeps - before.sleeps) / calls, 2)
    return Spent(kind, what, client, loop, commit, sleeps)


def marked(nodes: LocalCluster) -> Mark:
    """Now. Of a node's threads the first is the loop; what the others work is the commit's."""
    loop = others = sleeps = 0
    for node in nodes.nodes:
        tasks = sorted(Path(f"/proc/{node.pid}/task").iterdir(), key=lambda one: int(one.name))
        first, *rest = [int((one / "schedstat").read_text().split()[0]) for one in tasks]
        loop, others, sleeps = loop + first, others + sum(rest), sleeps + sum(map(slept, tasks))
    return Mark(time.thread_time_ns(), loop, others, sleeps)


def slept(task: Path) -> int:
    """How often this thread gave up the processor by itself."""
    lines = (task / "status").read_text().splitlines()
    return int(next(one for one in lines if one.startswith("voluntary")).split()[1])


if __name__ == "__main__":
    raise SystemExit(main())
