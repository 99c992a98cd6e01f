"""The figures as a picture: a panel for each cell, a bar for each peer."""

from itertools import groupby
from math import floor, log10
from pathlib import Path
from typing import Any

from benchmarks.fifo.cell import Cell
from benchmarks.fifo.row import DISK, Row

OURS, OURS_LATER = "#0b6fb8", "#7fb9e0"
THEIRS, THEIRS_LATER = "#5f6368", "#bdc1c6"


def draw(rows: list[Row], path: Path, high: int = 2) -> None:
    """Items a second, put and taken; the panels in so many rows, peers in the order they come."""
    # Imported here, since the client's processes import this module and draw nothing.
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    cells = [(cell, list(found)) for cell, found in groupby(rows, key=lambda row: row.cell)]
    columns = max(1, -(-len(cells) // high))
    names = list(dict.fromkeys(row.peer for row in rows if row.peer != DISK))
    late = next((at for at, name in enumerate(names) if name in _later(rows)), None)
    size = (3.9 * columns + 1.6, high * (0.27 * len(names) + 0.9) + 0.9)
    figure = Figure(figsize=size, dpi=130)
    FigureCanvasAgg(figure)
    panels = figure.subplots(high, columns, squeeze=False, sharey="row")
    for panel in panels.flat[len(cells) :]:
        panel.set_axis_off()
    for panel, (cell, found) in zip(panels.flat, cells, strict=False):
        draw_cell(panel, cell, {row.peer: row for row in found}, names, late)
    for first in panels[:, 0]:
        first.set_yticks(range(len(names)), names)
        first.invert_yaxis()  # the others of its row follow
        for label in first.get_yticklabels():
            if label.get_text().startswith("snowmelt"):
                label.set(color=OURS, weight="bold")
    figure.suptitle("Items a second, put and then got and acknowledged (log scale)", fontsize=13)
    figure.supxlabel(
        "dark: flushes to disk before it answers    light: flushes now and then    "
        "blue: Snowmelt    grey: others",
        fontsize=9.5,
    )
    figure.tight_layout()
    figure.savefig(path)


def _later(rows: list[Row]) -> set[str]:
    return {row.peer for row in rows if not row.flushes_first}


def draw_cell(
    panel: Any, cell: Cell, rows: dict[str, Row], names: list[str], late: int | None
) -> None:
    """A bar for each of the names that takes part in the cell; from `late` on they flush later."""
    rates = {name: rows[name].both_rate or 0.0 for name in names if name in rows}
    places = {name: names.index(name) for name in rates}
    colours = [colour(rows[name]) for name in rates]
    panel.barh(list(places.values()), list(rates.values()), color=colours, height=0.72)
    panel.set_xscale("log")
    known = [rate for rate in rates.values() if rate]
    lowest = 10 ** floor(log10(min(known, default=1) / 1.5))
    panel.set_xlim(lowest, max(known, default=1) * 6)  # room for the figure after the bar
    for name, rate in rates.items():
        text = f" {rate:,.0f}" if rate else " failed"
        panel.text(rate or lowest, places[name], text, va="center", fontsize=8.5)
    if late:
        panel.axhline(late - 0.5, color="#9aa0a6", linewidth=0.8, linestyle=":")
    panel.set_title(str(cell), fontsize=10.5)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=8.5)
    panel.grid(axis="x", color="#e3e5e8", linewidth=0.6)
    panel.set_axisbelow(True)


def colour(row: Row) -> str:
    if row.peer.startswith("snowmelt"):
        return OURS if row.flushes_first else OURS_LATER
    return THEIRS if row.flushes_first else THEIRS_LATER
