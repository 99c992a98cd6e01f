"""The options, and the order of things."""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.baton_peers_parts.bars import bars
from benchmarks.baton_peers_parts.cell import CELLS, QUICK
from benchmarks.baton_peers_parts.cell import named as cells_named
from benchmarks.baton_peers_parts.peers import KINDS, make, named
from benchmarks.baton_peers_parts.rounds import compare
from benchmarks.fifo.starting import running
from benchmarks.pool_peers_parts.conducting import chosen, drawn, told

from snowmelt.cli.local import end_on_sigterm

QUIET: Final = 0.3


def options_of(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="baton_peers",
        description="Snowmelt's baton beside Redis locks, etcd's lock and ZooKeeper's recipe.",
    )
    parser.add_argument("--quick", action="store_true", help="one short round, for a first look")
    parser.add_argument("--peers", help=f"of {', '.join(KINDS)}, or a family such as redis")
    names = [cell.name for cell in CELLS]
    parser.add_argument("--only", help=f"of {', '.join(names)}, or a family such as held")
    parser.add_argument("--rounds", type=int, help="3, or 1 with --quick")
    parser.add_argument("--seconds", type=float, help="how long a turn measures: 2, quick 1")
    parser.add_argument("--data", type=Path, default=Path("bench-results/tmp"), help="whose disk")
    parser.add_argument("--figure", type=Path, default=Path("bench-results/baton_peers.png"))
    parser.add_argument("--json", action="store_true", help="print one JSON object and no tables")
    options = parser.parse_args(argv)
    options.peers = chosen(parser, "--peers", options.peers, list(KINDS), named)
    only = options.only or (",".join(QUICK) if options.quick else None)
    options.only = chosen(parser, "--only", only, names, cells_named)
    if options.rounds is None:
        options.rounds = 1 if options.quick else 3
    if options.seconds is None:
        options.seconds = 1.0 if options.quick else 2.0
    if options.rounds < 1 or not 0 < options.seconds <= 60:
        parser.error("--rounds: 1 or more; --seconds: above 0, to 60")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Runs all of it; 1 when a peer failed, or none could be started."""
    options = options_of(argv)
    end_on_sigterm()
    cells = [cell for cell in CELLS if cell.name in options.only]
    options.data.mkdir(parents=True, exist_ok=True)
    options.busy = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(prefix="baton-", dir=options.data.resolve()) as folder,
        running(options.peers, Path(folder), make) as (peers, missing),
    ):
        for name, why in missing.items():
            print(f"{name} takes no part: {why}", file=sys.stderr)
        if not peers:
            return 1
        rows = compare(peers, cells, options.rounds, options.seconds)
    reached = list(bars(rows))
    drawn("benchmarks.baton_peers_parts.chart", rows, options.figure)
    if options.json:
        load = round(options.busy, 2)
        result = told("baton_peers", options, rows, peers, missing, reached, load_before=load)
        print(json.dumps(result))
    else:
        # Imported here, since the processes of a turn import this module and print nothing.
        from benchmarks.baton_peers_parts.table import show  # noqa: PLC0415

        show(rows, peers, reached)
        print(f"Rounds: {options.rounds}. Seconds: {options.seconds:g}. Chart: {options.figure}.")
        print(quiet(options.busy))
    return 1 if any(row.error for row in rows) else 0


def quiet(busy: float) -> str:
    """Whether the machine had other work when this began: who waits for a core is late by it."""
    said = f"Other programs kept {busy:.1f} cores busy in the minute before."
    return said if busy <= QUIET else f"{said} The machine was not quiet; run it again when it is."
