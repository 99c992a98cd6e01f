"""What comparisons with peers have in common: which of them are meant, the chart, and JSON."""

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.pool_peers_parts.bars import Bar


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


def drawn(chart: str, rows: Sequence[Any], path: Path) -> None:
    """Draws, where matplotlib is; the figures are told in any case.

    The chart's module is named, not given: the processes of a turn import who calls this, and draw
    nothing.
    """
    try:
        draw = importlib.import_module(chart).draw
    except ModuleNotFoundError as error:
        print(f"there is no chart without {error.name}", file=sys.stderr)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(rows, path)


def told(
    benchmark: str,
    options: argparse.Namespace,
    rows: Sequence[Any],
    peers: Sequence[Any],
    missing: dict[str, str],
    reached: Sequence[Bar],
    **more: Any,
) -> dict[str, Any]:
    """All of it as JSON has it."""
    return {
        "benchmark": benchmark,
        "rounds": options.rounds,
        "seconds": options.seconds,
        **more,
        "peers": {peer.name: {"version": peer.version, "promise": peer.promise} for peer in peers},
        "missing": missing,
        "bars": [asdict(bar) | {"ratio": round(bar.ratio, 3)} for bar in reached],
        "rows": [row.told() for row in rows],
    }
