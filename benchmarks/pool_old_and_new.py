"""A pool's objects by two sources of Snowmelt: what a change made slower or faster.

    python benchmarks/pool_old_and_new.py --old REVISION [--new REVISION] [--rounds 5]

One process puts and another takes, by way of a node that introduces them. In each round each source
does each cell in turn, and who begins changes. Told are medians: objects a second, processor
time an object of both processes, and ratios, above 1 where the new source is better. Without
`--new` it is what stands in this folder.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.old_and_new import source

import snowmelt
from snowmelt.cli.local import LocalCluster

HERE: Final = Path(__file__).resolve().parents[1]
WAIT: Final = 60.0
BATCH: Final = 1_000
SMALL: Final = (
    ("loop", 8_000, 5),
    ("loop", 8_000, 100),
    ("get, ack", 3_000, 5),
    ("get, ack", 3_000, 100),
    ("batches", 400_000, 10_000),
)
CELLS: Final = (
    *((size, *cell) for size in (100, 1_000) for cell in SMALL),
    *((1_000_000, way, 1_500, 5) for way in ("loop", "get, ack")),
)
"""The size of an object, how it is taken, how many, and `buffers`."""


def take(pool: Any, way: str, count: int) -> tuple[float, float]:
    """Seconds by the clock, and of processor, since something came."""
    done, begun = 0, (0.0, 0.0)
    loop = pool.consume(timeout=WAIT)
    while done < count:
        if way == "batches":
            objects = pool.get_many(BATCH, timeout=WAIT)
            list(objects.batch)
            objects.ack()
            done += len(objects)
        else:
            one = next(loop) if way == "loop" else pool.get(timeout=WAIT)
            done += 1
            if way != "loop" or done == count:
                one.ack()
        begun = begun if begun[0] else (time.perf_counter(), time.process_time())
    loop.close()
    return time.perf_counter() - begun[0], time.process_time() - begun[1]


def put(pool: Any, way: str, count: int, body: bytes) -> None:
    if way == "batches":
        for _ in range(count // BATCH):
            pool.put_many([body] * BATCH, timeout=WAIT)
    else:
        for _ in range(count):
            pool.put(body, timeout=WAIT)


def taker(url: str) -> None:
    """Takes as each line says, and answers how long that was."""
    with snowmelt.connect(url) as cluster:
        for line in sys.stdin:
            name, way, count, buffers = json.loads(line)
            with cluster.pool(name, buffers=buffers) as pool:
                print(json.dumps(take(pool, way, count)), flush=True)


def giver(folder: Path) -> None:
    """Puts as each line says; answers objects a second, and microseconds of processor an object."""
    with LocalCluster(1, folder) as nodes:
        nodes.start()
        with (
            snowmelt.connect(nodes.url) as cluster,
            program("--taker", nodes.url, os.environ["PYTHONPATH"]) as other,
        ):
            for number, line in enumerate(sys.stdin):
                size, way, count, buffers = json.loads(line)
                with cluster.pool(f"objects-{number}", buffers=buffers) as pool:
                    say(other, (pool.name, way, count, buffers))
                    begun = time.process_time()
                    put(pool, way, count, bytes(size))
                    mine = time.process_time() - begun
                    clock, theirs = heard(other)
                print(json.dumps((count / clock, (mine + theirs) / count * 1e6)), flush=True)


def program(word: str, value: str, path: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-P", __file__, word, value]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, **pipes)


def say(other: "subprocess.Popen[str]", words: Any) -> None:
    assert other.stdin is not None
    print(json.dumps(words), file=other.stdin, flush=True)


def heard(other: "subprocess.Popen[str]") -> tuple[float, float]:
    assert other.stdout is not None
    first, second = json.loads(other.stdout.readline())
    return first, second


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pool_old_and_new", description=__doc__.splitlines()[0])
    parser.add_argument("--old", help="a revision of this repository")
    parser.add_argument("--new", help="another; what stands here if none is named")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--taker", help=argparse.SUPPRESS)
    parser.add_argument("--giver", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.taker:
        taker(options.taker)
    elif options.giver:
        giver(options.giver)
    elif not options.old:
        parser.error("--old REVISION is needed")
    else:
        compare(options.old, options.new, options.rounds)
    return 0


def compare(old: str, new: str | None, rounds: int) -> None:
    found: dict[Any, list[Any]] = {cell: [] for cell in CELLS}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        paths = [source(old, folder / "old"), source(new, folder / "new")]
        for number in range(rounds):
            disks = [folder / f"{number}-{side}" for side in (0, 1)]
            for disk in disks:
                disk.mkdir()
            with (
                program("--giver", str(disks[0]), str(paths[0])) as first,
                program("--giver", str(disks[1]), str(paths[1])) as second,
            ):
                for cell in CELLS:
                    told: dict[Any, tuple[float, float]] = {}
                    for one in (first, second) if number % 2 else (second, first):
                        say(one, cell)
                        told[one] = heard(one)
                    found[cell].append((*told[first], *told[second]))
    print("size, way, objects, buffers: old and new a second, us each; new by old, old by new")
    for cell, rows in found.items():
        columns = [round(median(column)) for column in zip(*rows, strict=True)]
        rate = median(row[2] / row[0] for row in rows)
        spent = median(row[1] / row[3] for row in rows)
        print(*cell, *columns, f"{rate:.2f} {spent:.2f}")


if __name__ == "__main__":
    raise SystemExit(main())
