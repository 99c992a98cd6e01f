"""What a step costs: taking, putting and acknowledging in one, beside the same in three calls.

    python benchmarks/steps.py [--rounds 100]

Three nodes of this machine, each with its disk; items of 100 bytes, one caller. Each round does
each kind once, in turn. What is told is milliseconds of an item: the median, and the best tenth.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import snowmelt
from snowmelt.cli.local import LocalCluster


def plain(source: Any, target: Any) -> None:
    """Get, put, acknowledge: two of it when the program dies between."""
    with source.get() as item:
        target.put(item.body)


def in_step(cluster: Any, sources: list[Any], targets: list[Any]) -> None:
    """All of it at once."""
    with cluster.step() as step:
        items = [step.get(one) for one in sources]
        for one in targets:
            step.put(one, items[0].body)


def main() -> None:
    """Prints a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder, LocalCluster(3, Path(folder), 0.5) as nodes:
        nodes.start()
        nodes.wait_for(["n1", "n2", "n3"], 60)
        with snowmelt.connect(nodes.url) as cluster:
            one, two, three, four = [cluster.fifo(f"q{at}") for at in range(4)]
            for source in (one, two):
                source.put_many([bytes(100)] * 4 * rounds)
            kinds: dict[str, Callable[[], None]] = {
                "get, put, ack": lambda: plain(one, three),
                "a step": lambda: in_step(cluster, [one], [three]),
                "a step into two queues": lambda: in_step(cluster, [one], [three, four]),
                "a step from two queues": lambda: in_step(cluster, [one, two], [three]),
            }
            times: dict[str, list[float]] = {kind: [] for kind in kinds}
            for _ in range(rounds):
                for kind, do in kinds.items():
                    begun = time.perf_counter()
                    do()
                    times[kind].append(1e3 * (time.perf_counter() - begun))
    for kind, some in times.items():
        best = sorted(some)[len(some) // 10]
        print(f"{kind:24} {statistics.median(some):7.1f} {best:7.1f}")


if __name__ == "__main__":
    main()
