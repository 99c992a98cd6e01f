"""The options, and the order of things."""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.fifo import cores
from benchmarks.fifo.cell import BATCHES, Bounds, plan
from benchmarks.fifo.chart import draw
from benchmarks.fifo.peer import Peer
from benchmarks.fifo.peers import KINDS, OURS, make, named
from benchmarks.fifo.rounds import compare
from benchmarks.fifo.row import Row
from benchmarks.fifo.starting import running
from benchmarks.fifo.table import quiet, show

from snowmelt.cli.local import end_on_sigterm

BOUNDS = Bounds(seconds=1.5, items=100_000, bytes=256_000_000)
QUICK = Bounds(seconds=0.3, items=10_000, bytes=32_000_000)


def options_of(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="fifo_peers", description="Snowmelt's fifo beside Redis, NATS, beanstalkd, RabbitMQ."
    )
    parser.add_argument("--quick", action="store_true", help="one short round, for a first look")
    parser.add_argument("--peers", help=f"of {', '.join(KINDS)}, or a family such as redis")
    parser.add_argument("--sizes", help="bytes an item, such as 100,1000; all four if not given")
    parser.add_argument("--rounds", type=int, help="3, or 1 with --quick")
    parser.add_argument("--seconds", type=float, help="how long a turn puts; it then takes all")
    parser.add_argument("--data", type=Path, default=Path("bench-results/tmp"), help="whose disk")
    parser.add_argument("--chart", type=Path, default=Path("bench-results/fifo_peers.png"))
    parser.add_argument("--json", action="store_true", help="print one JSON object and no tables")
    options = parser.parse_args(argv)
    words = options.peers.split(",") if options.peers else list(KINDS)
    for word in words:
        if not named(word):
            parser.error(f"--peers: {word!r} is none of {', '.join(KINDS)}, nor a family of them")
    options.peers = [name for name in KINDS if any(name in named(word) for word in words)]
    try:
        options.sizes = sorted({int(size) for size in (options.sizes or "").split(",") if size})
    except ValueError:
        parser.error(f"--sizes: {options.sizes!r} is no list of numbers such as 100,1000")
    if any(not 0 < size <= 4_000_000 for size in options.sizes):
        parser.error("--sizes: 1 to 4000000 bytes")
    options.sizes = options.sizes or list(BATCHES)
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Runs all of it; 1 when a peer failed, or none could be started."""
    options = options_of(argv)
    end_on_sigterm()
    default = QUICK if options.quick else BOUNDS
    bounds = Bounds(options.seconds or default.seconds, default.items, default.bytes)
    rounds = options.rounds or (1 if options.quick else 3)
    options.data.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="fifo-", dir=options.data.resolve()) as folder,
        running(options.peers, Path(folder), make) as (peers, missing),
    ):
        for name, why in missing.items():
            print(f"{name} takes no part: {why}", file=sys.stderr)
        if not peers:
            return 1
        rows = compare(peers, plan(options.sizes), rounds, bounds, Path(folder))
    options.chart.parent.mkdir(parents=True, exist_ok=True)
    draw(rows, options.chart)
    if options.json:
        print(json.dumps(told(rows, peers, missing)))
    else:
        show(rows, peers)
        print(f"Data: {options.data.resolve()}. Rounds: {rounds}. Chart: {options.chart}.")
        print(f"Client: core {cores.CLIENT}. Servers: core {cores.SERVER}.")
    return 1 if any(row.error for row in rows) else 0


def told(
    rows: list[Row], peers: Sequence[Peer], missing: dict[str, str], ours: Sequence[str] = OURS
) -> dict[str, Any]:
    """All of it as JSON has it."""
    found = {(row.cell, row.peer): row for row in rows}
    lines = []
    for row in rows:
        others = {name: found.get((row.cell, name)) for name in ours}
        ratios = {name: row.ratio(one) for name, one in others.items() if one is not None}
        known = {name: round(ratio, 3) for name, ratio in ratios.items() if ratio is not None}
        lines.append(row.told() | {"times_this": known})
    return {
        "benchmark": "fifo_peers",
        "cores": {"client": cores.CLIENT, "servers": cores.SERVER},
        "peers": {peer.name: {"version": peer.version, "promise": peer.promise} for peer in peers},
        "missing": missing,
        "quiet": quiet(rows),
        "rows": lines,
    }
