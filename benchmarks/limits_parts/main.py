"""The options, the rounds, and what they came to."""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.fifo import cores
from benchmarks.fifo.disk import flushes
from benchmarks.fifo.starting import progress
from benchmarks.limits_parts.chart import Found, draw
from benchmarks.limits_parts.load import Turn, turn
from benchmarks.limits_parts.rungs import BARS, DISK, Rung, Servers, ladder

from snowmelt.cli.local import end_on_sigterm


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="limits", description="What one item at a time comes to, and could."
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each rung in each round")
    parser.add_argument("--cells", default="", help="words of their names, such as threads,tasks")
    parser.add_argument("--folder", type=Path, help="where the servers' disk is to be")
    parser.add_argument("--plot", type=Path, help="draw the ladders into this file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(argv)
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds: 1 or more; --seconds: more than 0")
    end_on_sigterm()
    words = [word for word in options.cells.split(",") if word]
    with (
        tempfile.TemporaryDirectory(prefix="limits-", dir=options.folder) as folder,
        Servers(Path(folder)) as servers,
    ):
        rungs = ladder(servers)
        if words:
            rungs = [one for one in rungs if any(word in one.cell for word in words)]
        disk, *found = measure(rungs, options.rounds, options.seconds, Path(folder))
    if options.plot:
        draw(rungs, found[1], found[2], options.plot)
    if options.json:
        print(json.dumps(told(rungs, disk, *found)))
    else:
        show(rungs, disk, *found)
    return 0


def measure(
    rungs: list[Rung], rounds: int, seconds: float, folder: Path
) -> tuple[float, Found, Found, Found]:
    """The disk alone, and rates: medians. What clients and servers worked an item: the least."""
    disks: list[float] = []
    turns: dict[tuple[str, str], list[Turn]] = {}
    for round_ in range(rounds):
        with cores.on(cores.SERVER):
            alone = flushes(folder, seconds)
        disks.append(alone.calls / alone.seconds)
        for one in rungs:
            progress(f"round {round_ + 1} of {rounds}: {one.cell}: {one.name}")
            turns.setdefault((one.cell, one.name), []).append(turn(one, seconds))
    progress("")
    median = statistics.median
    rates = {name: median(one.rate for one in several) for name, several in turns.items()}
    clients = {name: min(one.client for one in several) for name, several in turns.items()}
    servers = {name: min(one.servers for one in several) for name, several in turns.items()}
    return median(disks), rates, clients, servers


def reached(rungs: list[Rung], disk: float, found: Found) -> list[dict[str, Any]]:
    """Of each bar: what is wanted, and what Snowmelt and the barest rung that flushes come to."""
    lines = []
    for bar in BARS:
        base = disk if bar.of == DISK else found.get((bar.cell, bar.of))
        own = [one for one in rungs if one.cell == bar.cell]
        ours = next(
            (found[one.cell, one.name] for one in reversed(own) if one.kind == "ours"), None
        )
        limits = [one for one in own if one.kind == "bare" and "copies" in one.name]
        limits = limits or [one for one in own if one.kind == "bare" and "flush" in one.name]
        if base is None or ours is None:
            continue
        limit = found[bar.cell, limits[0].name]
        lines.append(
            {
                "cell": bar.cell,
                "of": bar.of,
                "wanted": bar.times,
                "reached": round(ours / base, 3),
                "limit": round(limit / base, 3),
                "ours_of_limit": round(ours / limit, 3),
            }
        )
    return lines


def told(
    rungs: list[Rung], disk: float, found: Found, clients: Found, servers: Found
) -> dict[str, Any]:
    """All of it as JSON has it."""
    rows = []
    for one in rungs:
        name = one.cell, one.name
        row = {"cell": one.cell, "rung": one.name, "kind": one.kind, "rate": round(found[name])}
        row |= {"client_us": round(clients[name], 2), "servers_us": round(servers[name], 2)}
        rows.append(row)
    bars = reached(rungs, disk, found)
    return {"benchmark": "limits", "disk_flushes": round(disk), "rows": rows, "bars": bars}


def show(rungs: list[Rung], disk: float, found: Found, clients: Found, servers: Found) -> None:
    """For people."""
    print(f"{DISK}: {disk:,.0f} a second")
    cell = ""
    for one in rungs:
        if one.cell != cell:
            cell = one.cell
            print(f"\n{cell:44}    items/s   client us  servers us")
        name = cell, one.name
        print(f"  {one.name:42}{found[name]:11,.0f}{clients[name]:12,.1f}{servers[name]:12,.1f}")
    print(f"\n{'bar':60}  wanted  reached    limit")
    for line in reached(rungs, disk, found):
        name_ = f"{line['cell']} : {line['of']}"
        print(f"{name_:60}{line['wanted']:8.2f}{line['reached']:9.2f}{line['limit']:9.2f}")
