"""The options, and the order of things."""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.fifo import cores
from benchmarks.fifo.cell import TASKS, Bounds, Cell
from benchmarks.fifo.chart import draw
from benchmarks.fifo.load import TurnFailed
from benchmarks.fifo.main import told
from benchmarks.fifo.peer import Peer
from benchmarks.fifo.rounds import compare
from benchmarks.fifo.row import Row
from benchmarks.fifo.starting import running
from benchmarks.fifo.table import show
from benchmarks.pool_peers_parts.bars import Bar
from benchmarks.pool_peers_parts.conducting import chosen
from benchmarks.priority_peers_parts import scale as scale_parts
from benchmarks.priority_peers_parts.bars import bars
from benchmarks.priority_peers_parts.peers import KINDS, OURS, make, named
from benchmarks.shares import Unbounded
from rich.console import Console

from snowmelt.cli.local import end_on_sigterm
from snowmelt.core.errors import SnowmeltError

CELLS: Final = [Cell(100, 1_000), Cell(100, 1), Cell(100, 1, TASKS, tasks=True)]
PARTS: Final = ("peers", "scale")
BOUNDS: Final = Bounds(seconds=1.5, items=100_000, bytes=256_000_000)
QUICK: Final = Bounds(seconds=0.3, items=10_000, bytes=32_000_000)
SCALE_SECONDS: Final = 8.0
SCALE_QUICK_SECONDS: Final = 2.0


@dataclass
class Found:
    """All that was measured."""

    peers: list[Peer] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    scale: list[scale_parts.Scale] = field(default_factory=list)
    broken: bool = False
    """Whether a part came to no end."""

    @property
    def failed(self) -> bool:
        """Whether a peer failed, or nothing was measured."""
        nothing = not (self.rows or self.scale)
        return nothing or self.broken or any(row.error for row in self.rows)


def options_of(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="priority_peers",
        description="Snowmelt's priority queue beside Redis, beanstalkd and RabbitMQ.",
    )
    parser.add_argument("--quick", action="store_true", help="one short round, for a first look")
    parser.add_argument("--peers", help=f"of {', '.join(KINDS)}, or a family such as rabbitmq")
    parser.add_argument("--only", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, help="3, or 1 with --quick")
    parser.add_argument("--seconds", type=float, help="how long a turn puts; it then takes all")
    parser.add_argument("--data", type=Path, default=Path("bench-results/tmp"), help="whose disk")
    parser.add_argument("--chart", type=Path, default=Path("bench-results/priority_peers.png"))
    parser.add_argument("--json", action="store_true", help="print one JSON object and no tables")
    options = parser.parse_args(argv)
    options.peers = chosen(parser, "--peers", options.peers, list(KINDS), named)
    options.only = chosen(parser, "--only", options.only, list(PARTS), lambda word: [word])
    default = QUICK if options.quick else BOUNDS
    seconds = default.seconds if options.seconds is None else options.seconds
    if options.rounds is None:
        options.rounds = 1 if options.quick else 3
    if options.rounds < 1 or not 0 < seconds <= 60:
        parser.error("--rounds: 1 or more; --seconds: above 0, to 60")
    options.bounds = Bounds(seconds, default.items, default.bytes)
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Runs all of it; 1 when a peer failed, or nothing could be measured."""
    options = options_of(argv)
    end_on_sigterm()
    options.data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="priority-", dir=options.data.resolve()) as folder:
        found = measured(options, Path(folder))
    for name, why in found.missing.items():
        print(f"{name} takes no part: {why}", file=sys.stderr)
    if found.rows:
        options.chart.parent.mkdir(parents=True, exist_ok=True)
        draw(found.rows, options.chart, high=1)
    if options.json:
        print(json.dumps(as_json(found)))
    else:
        tell(found)
        print(f"Data: {options.data.resolve()}. Rounds: {options.rounds}. Chart: {options.chart}.")
        print(f"Client: core {cores.CLIENT}. Servers: core {cores.SERVER}.")
    return 1 if found.failed else 0


def measured(options: argparse.Namespace, folder: Path) -> Found:
    """What was asked for, one after the other."""
    found = Found()
    if "peers" in options.only:
        with running(options.peers, folder, make) as (found.peers, found.missing):
            if found.peers:
                found.rows = compare(found.peers, CELLS, options.rounds, options.bounds, folder)
                found.bars = list(bars(found.rows))
    try:
        if "scale" in options.only:
            nodes = scale_parts.QUICK if options.quick else scale_parts.NODES
            seconds = SCALE_QUICK_SECONDS if options.quick else SCALE_SECONDS
            found.scale = scale_parts.scale(nodes, seconds, folder)
    except (TurnFailed, SnowmeltError) as error:
        found.missing["what comes after the peers"] = str(error)
        found.broken = True
    except Unbounded as error:
        found.missing["scale"] = str(error)
    return found


def as_json(found: Found) -> dict[str, Any]:
    told_rows = told(found.rows, found.peers, found.missing, OURS) if found.rows else {"rows": []}
    return told_rows | {
        "benchmark": "priority_peers",
        "missing": found.missing,
        "bars": [
            {"name": bar.name, "ratio": round(bar.ratio, 3), "wanted": bar.wanted}
            for bar in found.bars
        ],
        "scale": scale_parts.told(found.scale) if found.scale else [],
    }


def tell(found: Found) -> None:
    """The tables."""
    console = Console()
    if found.rows:
        show(found.rows, found.peers, OURS)
    for bar in found.bars:
        console.print(str(bar), markup=False, style="" if bar.reached else "red")
    if found.scale:
        console.print(scale_parts.table(found.scale))
