"""The options, and the order of things."""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fifo.starting import running
from benchmarks.pool_peers_parts.bars import bars
from benchmarks.pool_peers_parts.cell import CELLS, Cell, named
from benchmarks.pool_peers_parts.conducting import chosen, drawn, told
from benchmarks.pool_peers_parts.peers import KINDS, make
from benchmarks.pool_peers_parts.peers import named as peers_named
from benchmarks.pool_peers_parts.rounds import compare
from benchmarks.pool_peers_parts.turn import Bounds

from snowmelt.cli.local import end_on_sigterm

BOUNDS = Bounds(seconds=2.0, hand_overs=2_000)
QUICK = Bounds(seconds=1.0, hand_overs=500)


def options_of(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="pool_peers",
        description="Snowmelt's pool beside Redis lists, RabbitMQ, multiprocessing, Ray and Dask.",
    )
    parser.add_argument("--quick", action="store_true", help="one short round, for a first look")
    parser.add_argument("--peers", help=f"of {', '.join(KINDS)}, or a family such as redis")
    cells = [cell.name for cell in CELLS]
    parser.add_argument("--only", help=f"of {', '.join(cells)}, or a family such as large")
    parser.add_argument("--rounds", type=int, help="3, or 1 with --quick")
    parser.add_argument("--seconds", type=float, help="how long a turn measures")
    parser.add_argument("--data", type=Path, help="where servers write their logs")
    parser.add_argument("--figure", type=Path, default=Path("bench-results/pool_peers.png"))
    parser.add_argument("--json", action="store_true", help="print one JSON object and no tables")
    options = parser.parse_args(argv)
    options.peers = chosen(parser, "--peers", options.peers, list(KINDS), peers_named)
    options.only = chosen(parser, "--only", options.only, cells, _cells)
    default = QUICK if options.quick else BOUNDS
    options.rounds = 1 if options.rounds is None and options.quick else options.rounds
    options.rounds = 3 if options.rounds is None else options.rounds
    options.seconds = default.seconds if options.seconds is None else options.seconds
    if options.rounds < 1 or not 0 < options.seconds <= 600:
        parser.error("--rounds: 1 or more; --seconds: above 0, to 600")
    options.bounds = Bounds(options.seconds, default.hand_overs)
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Runs all of it; 1 when a peer failed, or none could be started."""
    options = options_of(argv)
    end_on_sigterm()
    cells: list[Cell] = [cell for cell in CELLS if cell.name in options.only]
    with (
        tempfile.TemporaryDirectory(prefix="pool-", dir=options.data) as folder,
        running(options.peers, Path(folder), make) as (peers, missing),
    ):
        for name, why in missing.items():
            print(f"{name} takes no part: {why}", file=sys.stderr)
        if not peers:
            return 1
        rows = compare(peers, cells, options.rounds, options.bounds)
    reached = list(bars(rows))
    drawn("benchmarks.pool_peers_parts.chart", rows, options.figure)
    if options.json:
        print(json.dumps(told("pool_peers", options, rows, peers, missing, reached)))
    else:
        # Imported here, since the processes of a turn import this module and print nothing.
        from benchmarks.pool_peers_parts.table import show  # noqa: PLC0415

        show(rows, peers, reached)
        print(f"Rounds: {options.rounds}. Seconds: {options.seconds:g}. Chart: {options.figure}.")
    return 1 if any(row.error for row in rows) else 0


def _cells(word: str) -> list[str]:
    return [cell.name for cell in named(word)]
