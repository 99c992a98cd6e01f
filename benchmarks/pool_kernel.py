"""How many objects a second the compiled experiment simulates on one core, beside the machines.

    python benchmarks/pool_kernel.py [--objects 1000000] [--rounds 3] [--json]

Each row is an experiment of its own, the best of some rounds; objects of the warm-up count, since
they are simulated as well. Beside them the same experiment with the pool's own machines, in the
same run, with fewer objects. The time to compile is told apart: in a first process, which finds
nothing compiled, and in a second one, which finds what the first has kept.

It ends with 1 when a hundred producers and a hundred consumers at three hops come to less than a
million objects a second.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import track

from snowmelt_lab.pool import kernel, machine
from snowmelt_lab.pool.measures import Measured
from snowmelt_lab.pool.options import Algorithm, PoolOptions

BAR = 1_000_000
FIRST = """
from time import perf_counter
begin = perf_counter()
from snowmelt_lab.pool.kernel import run
from snowmelt_lab.pool.options import PoolOptions
run(PoolOptions(producers=1, consumers=1, objects=1))
print(perf_counter() - begin)
"""


class Row(msgspec.Struct, frozen=True):
    """One experiment."""

    algorithm: str
    producers: int
    consumers: int
    max_hops: int
    fan_out: int
    process: float
    kernel: float
    """Objects a second."""
    machine: float | None
    ratio: float | None


def cases() -> Iterator[tuple[PoolOptions, int]]:
    """Each with the number of objects for the machines; 0 leaves them out."""
    yield PoolOptions(), 10_000
    yield PoolOptions(consumers=50), 10_000
    yield PoolOptions(consumers=200), 10_000
    yield PoolOptions(max_hops=1), 0
    yield PoolOptions(producers=10, consumers=10), 10_000
    yield PoolOptions(producers=1_000, consumers=1_000), 0
    yield PoolOptions(producers=10_000, consumers=10_000), 0
    yield PoolOptions(fan_out=10), 0
    yield PoolOptions(process=0.1), 0
    yield PoolOptions(algorithm=Algorithm.CENTRAL), 10_000
    yield PoolOptions(algorithm=Algorithm.MANAGER), 10_000


def rate(
    run: Callable[[PoolOptions], Measured], options: PoolOptions, objects: int, rounds: int
) -> float:
    """Objects a second, warm-up and all."""
    options = msgspec.structs.replace(options, objects=objects, half_width=0)
    best = min(run(options).seconds for _ in range(rounds))
    return (objects + options.warm_up) / best


def measured(objects: int, rounds: int) -> list[Row]:
    console = Console(stderr=True)
    all_of_them = list(cases())
    shown = track(all_of_them, "", console=console, disable=not console.is_terminal, transient=True)
    return [row(options, objects, slow, rounds) for options, slow in shown]


def row(options: PoolOptions, objects: int, slow: int, rounds: int) -> Row:
    fast = rate(kernel.run, options, objects, rounds)
    beside = rate(machine.run, options, slow, 1) if slow else None
    return Row(
        algorithm=options.algorithm.value,
        producers=options.producers,
        consumers=options.consumers,
        max_hops=options.max_hops,
        fan_out=options.fan_out,
        process=options.process,
        kernel=fast,
        machine=beside,
        ratio=fast / beside if beside else None,
    )


def compiling() -> tuple[float, float]:
    """Seconds until a process has its first result, with nothing compiled, and again."""
    with tempfile.TemporaryDirectory(prefix="snowmelt-lab-") as folder:
        told = [
            subprocess.run(
                [sys.executable, "-c", FIRST],
                env={**os.environ, "NUMBA_CACHE_DIR": folder},
                stdout=subprocess.PIPE,
                check=True,
                text=True,
                timeout=300,
            ).stdout
            for _ in range(2)
        ]
    return float(told[0]), float(told[1])


def told(result: dict[str, Any], rows: list[Row]) -> None:
    for one in rows:
        beside = f"   machines {one.machine:8,.0f}   {one.ratio:5.0f} times" if one.machine else ""
        more = f"fan-out {one.fan_out}" if one.fan_out else ""
        more = f"process {one.process:g}" if one.process else more
        print(
            f"{one.algorithm:<11} N {one.producers:<6} M {one.consumers:<6} hops {one.max_hops:<3}"
            f"{more:<12}{one.kernel:12,.0f} objects/s{beside}"
        )
    print(
        f"first result of a process: {result['compile_seconds']:.1f} s with nothing compiled,",
        end=" ",
    )
    print(f"{result['load_seconds']:.1f} s when another has compiled it")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--objects", type=int, default=1_000_000, help="of each experiment")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = measured(given.objects, given.rounds)
    compile_seconds, load_seconds = compiling()
    result = {
        "objects_a_second": rows[0].kernel,
        "bar": BAR,
        "compile_seconds": compile_seconds,
        "load_seconds": load_seconds,
        "rows": msgspec.to_builtins(rows),
        "holds": rows[0].kernel >= BAR,
    }
    if given.json:
        print(json.dumps(result))
    else:
        told(result, rows)
    return 0 if result["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
