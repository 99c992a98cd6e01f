"""Two sources of Snowmelt beside each other: what a change made slower or faster.

    python benchmarks/old_and_new.py --old REVISION [--new REVISION] [--rounds 10]
        [--places folder,"1 node"] [--kinds fifo,any] [--ways put,get+ack] [--json]

In each round each source has a program and nodes of its own, and both do a cell in turn, within
seconds of each other; who begins changes. So what else the machine does strikes both. Told are the
medians of all rounds, by the clock and in processor time of the program and its nodes together,
and the ratio: old seconds by new ones, above 1 where the new source is faster. Without `--new` it
is what stands in this folder.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from select import select
from statistics import median
from typing import Final

import msgspec
from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.old_and_new_parts.side import KINDS, PLACES, WAYS, Took

HERE: Final = Path(__file__).resolve().parents[1]
CELL_SECONDS: Final = 120.0

Cell = tuple[str, str, str]


class Compared(msgspec.Struct, frozen=True):
    """One cell: medians in microseconds an item, and old by new."""

    place: str
    kind: str
    way: str
    old: float
    new: float
    clock: float
    processor: float


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="old_and_new", description=__doc__.splitlines()[0])
    parser.add_argument("--old", required=True, help="a revision of this repository")
    parser.add_argument("--new", help="another; what stands here if none is named")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--places", default=",".join(PLACES))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--folder", type=Path, help="where the disks are to be")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    options = parser.parse_args(argv)
    cells = chosen(parser, options)
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        folder = Path(made)
        packages = source(options.old, folder / "old"), source(options.new, folder / "new")
        rounds = [
            one_round(packages, folder / str(number), cells, turned=bool(number % 2))
            for number in track(range(options.rounds), "rounds", console=Console(stderr=True))
        ]
    found = [compared(cell, [each[cell] for each in rounds]) for cell in cells]
    if options.json:
        print(json.dumps(msgspec.to_builtins(found)))
    else:
        Console(width=100).print(table(found))
    return 0


def chosen(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[Cell]:
    """The cells that were asked for; a way that takes out comes with the one that puts in."""
    ways = list(WAYS)
    wanted: set[str] = set()
    for name, known in (("places", PLACES), ("kinds", KINDS), ("ways", WAYS)):
        unknown = set(split(getattr(options, name), known)) - set(known)
        if unknown:
            parser.error(f"--{name}: {min(unknown)!r} is none of {', '.join(known)}")
    if options.rounds < 1:
        parser.error(f"--rounds: {options.rounds} is less than 1")
    for way in split(options.ways, WAYS):
        at = ways.index(way) // 2 * 2
        wanted.update(ways[at : at + 2])
    return [
        (place, kind, way)
        for place in split(options.places, PLACES)
        for kind in split(options.kinds, KINDS)
        for way in ways
        if way in wanted
    ]


def split(said: str, known: object) -> list[str]:
    """The names in a list with commas, some of which have a comma of their own."""
    assert isinstance(known, dict | tuple)
    marked = said
    for name in known:
        marked = marked.replace(name, name.replace(",", "\0"))
    return [one.strip().replace("\0", ",") for one in marked.split(",")]


def source(revision: str | None, folder: Path) -> Path:
    """Where a revision's packages are."""
    if revision is None:
        return HERE / "src"
    packed = subprocess.run(
        ["git", "archive", revision, "src"], cwd=HERE, check=True, capture_output=True
    )
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


@contextmanager
def side(packages: Path, disks: Path) -> Iterator["subprocess.Popen[str]"]:
    """The program of one source, which ends with this."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.old_and_new_parts.side", str(disks)],
        cwd=HERE,
        env={**os.environ, "PYTHONPATH": f"{packages}{os.pathsep}{HERE}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
        finally:
            process.terminate()


def one_round(
    packages: tuple[Path, Path], disks: Path, cells: list[Cell], *, turned: bool
) -> dict[Cell, tuple[Took, Took]]:
    """Each cell by both, one after the other, by programs that are new in this round.

    How a program's memory lies makes it some hundredths faster or slower for all its life.
    """
    found: dict[Cell, tuple[Took, Took]] = {}
    with side(packages[0], disks / "old") as first, side(packages[1], disks / "new") as second:
        for cell in cells:
            if turned:
                new, old = asked(second, cell), asked(first, cell)
            else:
                old, new = asked(first, cell), asked(second, cell)
            found[cell] = old, new
    shutil.rmtree(disks)
    return found


def asked(process: "subprocess.Popen[str]", cell: Cell) -> Took:
    """How long it took one of them."""
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps(cell), file=process.stdin, flush=True)
    if not select([process.stdout], [], [], CELL_SECONDS)[0]:
        raise SystemExit(f"a source has not done {cell} in {CELL_SECONDS:g} s")
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"a source ended in {cell}")
    clock, processor = json.loads(line)
    return clock, processor


def compared(cell: Cell, rounds: list[tuple[Took, Took]]) -> Compared:
    """The medians of all rounds; the ratio is that of each round, since both had the same noise."""
    count = WAYS[cell[2]][1]
    old, new = (median(each[at][0] for each in rounds) / count * 1e6 for at in (0, 1))
    clock, processor = (median(each[0][of] / each[1][of] for each in rounds) for of in (0, 1))
    return Compared(*cell, *(round(one, 2) for one in (old, new, clock, processor)))


def table(found: list[Compared]) -> Table:
    """For a reader; what fell below 0.95 is marked."""
    shown = Table(title="Old by new: above 1 the new one is faster")
    for head in ("place", "kind", "what"):
        shown.add_column(head)
    for head in ("old us", "new us", "by the clock", "by processor"):
        shown.add_column(head, justify="right")
    for one in found:
        ratios = (
            f"[red]{each}[/red]" if each < 0.95 else str(each)
            for each in (one.clock, one.processor)
        )
        shown.add_row(one.place, one.kind, one.way, f"{one.old:,}", f"{one.new:,}", *ratios)
    return shown


if __name__ == "__main__":
    raise SystemExit(main())
