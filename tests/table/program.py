"""Runs cells: `python -m table.program GROUP --out FILE [--rows …] [--columns …] [--long]`.

Each column is run plainly over its rows, and then once for each of its plants over those rows that
no earlier plant has covered. What came of it is written as JSON, a line a cell. The group `few` is
what `make test` has the time for: some rows of each quick column, and plants in the first of them.
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
from typing import Any, Final

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
    """Each fourth of the few. Another one comes first in the next column."""
    good = [
        row
        for row in cells_of(column, ROWS)
        if str(row) in FEW and not known(str(row), column.name)
    ]
    return good[list(COLUMNS).index(column.name) % 4 :: 4]


def run(bench: Bench, column: Column, rows: list[Row], planted: list[Row]) -> list[dict[str, Any]]:
    """What came of each cell: what it fails by, and which plant of those it was covered by."""
    bench.plant = ""
    begin = time.monotonic()
    failures = column.run(bench, rows)
    plain = time.monotonic() - begin
    covered: dict[Row, str] = {}
    for plant in column.plants:
        left = [row for row in planted if not failures[row] and row not in covered]
        if left:
            bench.plant = plant
            found = column.run(bench, left)
            covered |= {row: f"{plant}: {said}" for row, said in found.items() if said}
    bench.plant = ""
    more = time.monotonic() - begin - plain
    fail = len([said for said in failures.values() if said])
    print(f"{column.name}: {len(rows)} cells, {fail} fail, {plain:.1f} s, and {more:.1f} s with "
          "plants", file=sys.stderr, flush=True)  # fmt: skip
    for row, said in failures.items():
        if said or (row in planted and row not in covered):
            print(f"  {row}: {said or 'no plant makes it fail'}", file=sys.stderr, flush=True)
    return [
        {
            "row": str(row),
            "column": column.name,
            "fails": failures[row],
            "covered": covered.get(row, "") if row in planted else None,
        }
        for row in rows
    ]


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
    found: list[dict[str, Any]] = []
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
                    cells = few_of(column) if few else cells_of(column, ROWS)
                    rows = [row for row in cells if given.rows in str(row)]
                    if rows:
                        found += run(bench, column, rows, rows[:1] if few else rows)
                        text = "".join(json.dumps(one) + "\n" for one in found)
                        given.out.write_text(text)  # so that others can look, too
    os._exit(0)  # what plants left behind is not waited for


if __name__ == "__main__":
    main(sys.argv[1:])
