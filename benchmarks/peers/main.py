"""The options, and the order of things."""

import argparse
import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers.comparison import Comparison, Limits
from benchmarks.peers.rounds import compare
from benchmarks.peers.rows import Row, bars
from benchmarks.peers.starting import running

from snowmelt.cli.local import end_on_sigterm

NAMES: Final = ("fifo", "priority", "pool", "baton", "jobs", "failover")
DATA: Final = Path("bench-results/tmp")


def comparison_of(name: str) -> Comparison:
    """The comparison of this name."""
    found: Comparison = importlib.import_module(f"benchmarks.peers.{name}").COMPARISON
    return found


def options_of(comparison: Comparison, argv: Sequence[str] | None) -> argparse.Namespace:
    name = comparison.name
    peers, works = list(comparison.peers), [work.name for work in comparison.works]
    parser = argparse.ArgumentParser(
        prog=f"snowmelt bench {name}",
        description=comparison.about,
        epilog=sys.modules[f"benchmarks.peers.{name}"].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="one short round, for a first look")
    add("--peers", help=f"of {', '.join(peers)}, or a family such as snowmelt")
    add("--only", "--sizes", help=f"of {', '.join(works)}, or a family such as {works[0]}")
    add("--rounds", type=int, help="{}, or {} with --quick".format(*comparison.rounds))
    add("--seconds", type=float, help="a turn's; {:g}, or {:g}".format(*comparison.seconds))
    if comparison.counted:
        add(
            f"--{comparison.counted}",
            dest="count",
            type=int,
            help="{}, or {}".format(*comparison.count),
        )
    if comparison.setup is not None:
        add("--install", action="store_true", help="first, what the peers need from PyPI")
    add("--data", type=Path, default=DATA, help="whose disk the servers use")
    add("--chart", "--figure", type=Path, default=DATA.parent / f"{name}_peers.png")
    add("--json", action="store_true", help="print one JSON object and no tables")
    options = parser.parse_args(argv)
    quick = comparison.quick if options.quick and not options.only else ()
    options.peers = chosen(parser, "--peers", options.peers, peers, comparison.peers_of)
    only = options.only or ",".join(
        quick or [one.name for one in comparison.works if not one.asked]
    )
    options.only = chosen(parser, "--only", only, works, comparison.works_of)
    for key in ("rounds", "seconds", "count"):
        if getattr(options, key, None) is None:
            setattr(options, key, getattr(comparison, key)[options.quick])
    if options.rounds < 1 or options.count < 0 or not 0 < options.seconds <= 600:
        parser.error("--rounds: 1 or more; --seconds: above 0, to 600; no number below 0")
    return options


def chosen(
    parser: argparse.ArgumentParser,
    option: str,
    text: str | None,
    every: list[str],
    meant: Callable[[str], list[str]],
) -> list[str]:
    """Which names the option means, in their own order; all when it was not given."""
    words = text.split(",") if text else every
    for word in words:
        if not meant(word):
            parser.error(f"{option}: {word!r} is none of {', '.join(every)}, nor a family of them")
    return [name for name in every if any(name in meant(word) for word in words)]


def main(name: str, argv: Sequence[str] | None = None) -> int:
    """Runs a comparison; 1 when a peer failed, or none could be started."""
    comparison = comparison_of(name)
    options = options_of(comparison, argv)
    end_on_sigterm()
    if comparison.setup is not None and options.install:
        print(comparison.setup(DATA.parent), file=sys.stderr)
    works = [work for work in comparison.works if work.name in options.only]
    limits = Limits(options.seconds, options.quick, options.count)
    load = os.getloadavg()[0]
    options.data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=options.data.resolve()) as folder:
        Path(folder).chmod(0o711)  # a server may run as another user
        with running(comparison, options.peers, Path(folder)) as (peers, missing):
            if not peers:
                return 1
            rows = compare(peers, works, options.rounds, limits)
    draw(comparison, rows, options.chart)
    # Imported here, since the processes of a turn import this module and print nothing.
    from benchmarks.peers.report import Found  # noqa: PLC0415

    goals = list(bars(comparison.goals, rows))
    found = Found(comparison, peers, missing, rows, goals, options.rounds, options.seconds, load)
    if options.json:
        print(json.dumps(found.as_json()))
    else:
        found.show()
        print(f"Data: {options.data.resolve()}. Chart: {options.chart}.")
    return 1 if any(row.error for row in rows) else 0


def draw(comparison: Comparison, rows: Sequence[Row], path: Path) -> None:
    """The chart, where matplotlib is; the figures are said in any case."""
    try:
        chart = importlib.import_module("benchmarks.peers.chart")
    except ModuleNotFoundError as error:
        print(f"there is no chart without {error.name}", file=sys.stderr)
        return
    chart.draw(comparison, rows, path)
