"""Runs cells: `python -m table.program GROUP --out FILE [--rows …] [--columns …] [--long]`.

Each column is run plainly over its rows, and then once for each of its plants over those rows that
no earlier plant has covered. What came of it is written as JSON, a line a cell. The group `few` is
what `make test` has the time for: two rows of each quick column, the first of them with a plant.
"""

import argparse
import faulthandler
import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from table.bench import Bench
from table.columns import COLUMNS, GROUPS, Column
from table.faces import ROWS, Row
from table.known import known

FEW: Final = (
    "cluster: Cluster.queues",
    "fifo: Fifo.get",
    "priority: PriorityQueue.put",
    "folder: Fifo.put",
    "pool: Pool.put",
    "baton: Baton.with",
    "counter: Counter.next",
    "topic: Multicast.publish",
    "worker: Worker.run",
)
"""A row of each kind. They are always the same, so that a red cell stays red."""


def cells_of(column: Column, rows: list[Row]) -> list[Row]:
    """The rows that it has to do with."""
    return [row for row in rows if not (column.lacks(row) or column.untried(row))]


def few_of(column: Column) -> list[Row]:
    """Two of the few; another one comes first in the next column."""
    good = [
        row
        for row in cells_of(column, ROWS)
        if str(row) in FEW and not known(str(row), column.name)
    ]
    first = list(COLUMNS).index(column.name) % len(good)
    return (good[first:] + good[:first])[:2]


Cell = dict[str, str | None]


def cell(row: Row, column: Column, fails: str, covered: str | None) -> Cell:
    """What came of it; a cell that was not planted is neither covered nor not."""
    return {"row": str(row), "column": column.name, "fails": fails, "covered": covered}


def run_few(bench: Bench, column: Column, rows: list[Row]) -> list[Cell]:
    """All at once, the first of them with a plant."""
    begin = time.monotonic()
    bench.plants = {rows[0]: column.plants[0]}
    failures = column.run(bench, rows)
    say(column, time.monotonic() - begin, {row: failures[row] for row in rows[1:]})
    covered = f"{column.plants[0]}: {failures[rows[0]]}" if failures[rows[0]] else ""
    plain = [cell(row, column, failures[row], None) for row in rows[1:]]
    return [cell(rows[0], column, "", covered), *plain]


def run(bench: Bench, column: Column, rows: list[Row]) -> list[Cell]:
    """All plainly, and then with one plant after the other, until one makes it fail."""
    begin = time.monotonic()
    bench.plants = {}
    failures = column.run(bench, rows)
    covered: dict[Row, str] = {}
    for plant in column.plants:
        left = [row for row in rows if not failures[row] and row not in covered]
        if left:
            bench.plants = dict.fromkeys(left, plant)
            found = column.run(bench, left)
            covered |= {row: f"{plant}: {said}" for row, said in found.items() if said}
    bare = {row: said or "no plant makes it fail" for row, said in failures.items()
            if row not in covered}  # fmt: skip
    say(column, time.monotonic() - begin, bare)
    return [cell(row, column, failures[row], covered.get(row, "")) for row in rows]


def say(column: Column, seconds: float, wrong: dict[Row, str]) -> None:
    """How it went, for whoever looks on."""
    print(f"{column.name}: {seconds:.1f} s", file=sys.stderr, flush=True)
    for row, said in wrong.items():
        if said:
            print(f"  {row}: {said}", file=sys.stderr, flush=True)


def main(words: list[str]) -> None:
    """Runs what is asked for."""
    asked = argparse.ArgumentParser()
    asked.add_argument("group", choices=[*GROUPS, "few"])
    asked.add_argument("--out", type=Path, default=Path("/dev/stdout"))
    asked.add_argument("--rows", default="")
    asked.add_argument("--columns", default="")
    asked.add_argument("--long", action="store_true")
    faulthandler.register(signal.SIGUSR1)
    threading.excepthook = lambda _: None  # of threads that a cell left behind
    given = asked.parse_args(words)
    given.out = given.out.absolute()
    few = given.group == "few"
    found: list[Cell] = []
    names = [
        name
        for name in GROUPS.get(given.group, COLUMNS)
        if given.columns in ("", name) and not (few and COLUMNS[name].soak)
    ]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # whatever odd names of folders are made
        for count in sorted({COLUMNS[name].nodes for name in names}):
            with Bench(Path(folder, str(count)), count) as bench:
                bench.long = given.long
                for name in (one for one in names if COLUMNS[one].nodes == count):
                    column = COLUMNS[name]
                    rows = few_of(column) if few else cells_of(column, ROWS)
                    rows = [row for row in rows if given.rows in str(row)]
                    if rows:
                        found += (run_few if few else run)(bench, column, rows)
                        text = "".join(json.dumps(one) + "\n" for one in found)
                        given.out.write_text(text)  # so that others can look, too
    os._exit(0)  # what plants left behind is not waited for


if __name__ == "__main__":
    main(sys.argv[1:])
