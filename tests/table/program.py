"""Runs cells: `python -m table.program GROUP --out FILE [--rows …] [--columns …] [--long]`.

Each column is run plainly over its rows, and then once for each of its plants over those rows that
no earlier plant has covered. What came of it is written as JSON, a line a cell.
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

from table.bench import Bench
from table.columns import COLUMNS, GROUPS, Column
from table.faces import ROWS, Row


def cells_of(column: Column, rows: list[Row]) -> list[Row]:
    """The rows that it has to do with."""
    return [row for row in rows if not (column.lacks(row) or column.untried(row))]


def run(bench: Bench, column: Column, rows: list[Row]) -> list[dict[str, str]]:
    """What came of each cell: what it fails by, and which plant it was covered by."""
    bench.plant = ""
    begin = time.monotonic()
    failures = column.run(bench, rows)
    plain = time.monotonic() - begin
    covered: dict[Row, str] = {}
    for plant in column.plants:
        left = [row for row in rows if not failures[row] and row not in covered]
        if left:
            bench.plant = plant
            found = column.run(bench, left)
            covered |= {row: f"{plant}: {said}" for row, said in found.items() if said}
    bench.plant = ""
    planted = time.monotonic() - begin - plain
    fail = len([said for said in failures.values() if said])
    print(f"{column.name}: {len(rows)} cells, {fail} fail, {plain:.1f} s, and {planted:.1f} s with "
          "plants", file=sys.stderr, flush=True)  # fmt: skip
    for row, said in failures.items():
        if said or row not in covered:
            print(f"  {row}: {said or 'no plant makes it fail'}", file=sys.stderr, flush=True)
    return [
        {
            "row": str(row),
            "column": column.name,
            "fails": failures[row],
            "covered": covered.get(row, ""),
        }
        for row in rows
    ]


def main(words: list[str]) -> None:
    """Runs what is asked for."""
    asked = argparse.ArgumentParser()
    asked.add_argument("group", choices=GROUPS)
    asked.add_argument("--out", type=Path, default=Path("/dev/stdout"))
    asked.add_argument("--rows", default="")
    asked.add_argument("--columns", default="")
    asked.add_argument("--part", default="0/1", help="the K-th of so many parts of the cells")
    asked.add_argument("--long", action="store_true")
    faulthandler.register(signal.SIGUSR1)
    threading.excepthook = lambda _: None  # of threads that a cell left behind
    given = asked.parse_args(words)
    given.out = given.out.absolute()
    part, parts = map(int, given.part.split("/"))
    found: list[dict[str, str]] = []
    names = [
        name
        for name in GROUPS[given.group]
        if given.columns in ("", name) and not (parts > 1 and COLUMNS[name].soak)
    ]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # whatever odd names of folders are made
        for count in sorted({COLUMNS[name].nodes for name in names}):
            options = {"replicas": count} if count > 1 else {}
            with Bench(Path(folder, str(count)), count, **options) as bench:
                bench.long = given.long
                for name in (one for one in names if COLUMNS[one].nodes == count):
                    shift = list(COLUMNS).index(name)
                    rows = [
                        row
                        for at, row in enumerate(cells_of(COLUMNS[name], ROWS))
                        if given.rows in str(row) and (at + shift) % parts == part
                    ]
                    if rows:
                        found += run(bench, COLUMNS[name], rows)
                        text = "".join(json.dumps(one) + "\n" for one in found)
                        given.out.write_text(text)  # so that others can look, too
    os._exit(0)  # what plants left behind is not waited for


if __name__ == "__main__":
    main(sys.argv[1:])
