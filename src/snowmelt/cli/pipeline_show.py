"""How a pipeline looks while it runs: a table that lives on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from snowmelt.cli.tables import listing, styled

if TYPE_CHECKING:
    from snowmelt.spark.standing import Show, Standing

LINE_SECONDS: Final = 5.0
BAR_WIDTH: Final = 20
WORDS: Final = ("stage", "", "progress")
STYLES: Final = {"running": "green", "done": "bold green", "failed": "red", "elsewhere": "dim"}


@contextmanager
def shown_on(console: Console) -> Iterator["Show"]:
    """What to call with how the stages stand."""
    if not console.is_terminal:
        yield _lines(console)
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield lambda standings: live.update(live_table(standings))


def live_table(standings: Sequence["Standing"]) -> Table:
    """How the stages stand just now, a line a stage."""
    table = listing(("stage", "", "in", "out", "rate", "waiting", "held", "lag", "progress"), WORDS)
    for one in standings:
        table.add_row(
            one.stage,
            styled(one.state.value, STYLES.get(one.state.value, "yellow")),
            f"{one.taken:,}",
            _count(one.made),
            f"{one.rate:,.0f}/s",
            f"{one.backlog:,}",
            f"{one.held:,}",
            lag_text(one.lag),
            ProgressBar(one.total, one.taken, BAR_WIDTH) if one.total else "",
        )
    return table


def summary_table(name: str, standings: Sequence["Standing"]) -> Table:
    """What each stage did, a line a stage."""
    table = listing(
        ("stage", "", "in", "out", "seconds", "rate", "left"), WORDS, f"pipeline {name}"
    )
    for one in standings:
        lost = f" ({one.lost:,} lost)" if one.lost else ""
        table.add_row(
            one.stage,
            one.state.value,
            styled(f"{one.taken:,}") + styled(lost, "red"),
            _count(one.made),
            f"{one.seconds:.1f}",
            f"{one.mean_rate:,.0f}/s",
            f"{one.backlog + one.held:,}",
        )
    return table


def standing_object(one: "Standing") -> dict[str, object]:
    """How a stage stood in the end, as a JSON object."""
    return {
        "stage": one.stage,
        "state": one.state.value,
        "in": one.taken,
        "out": one.made,
        "seconds": round(one.seconds, 3),
        "rate": round(one.mean_rate, 1),
        "left": one.backlog + one.held,
        "lost": one.lost,
    }


def lag_text(lag: float | None) -> str:
    """How far behind, in a word.

    >>> [lag_text(lag) for lag in (None, 0.0, 2.34, 754.0, 90_000.0)]
    ['?', '-', '2.3 s', '13 min', '25.0 h']
    """
    match lag:
        case None:
            return "?"
        case 0:
            return "-"
        case _ if lag < 120:
            return f"{lag:.1f} s"
        case _ if lag < 7200:
            return f"{lag / 60:.0f} min"
        case _:
            return f"{lag / 3600:.1f} h"


def _lines(console: Console) -> "Show":
    """A line now and then, for a log: when it begins, every few seconds, and when a stage ends."""
    begin = time.monotonic()
    told = begin - LINE_SECONDS
    before: list[object] = []

    def line(standings: Sequence["Standing"]) -> None:
        nonlocal told, before
        now, states = time.monotonic(), [one.state for one in standings]
        if now - told < LINE_SECONDS and states == before:
            return
        told, before = now, list(states)
        text = "; ".join(_words(one) for one in standings)
        console.print(f"{now - begin:.0f} s: {text}", soft_wrap=True, highlight=False)

    return line


def _words(one: "Standing") -> str:
    told = f"{one.stage} {one.state.value}, {one.taken:,} in"
    left = one.backlog + one.held
    return f"{told} at {one.rate:,.0f}/s, {left:,} left" if left else told


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
