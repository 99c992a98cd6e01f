"""The figures as a picture: a panel for each cell, a bar for each peer."""

from itertools import groupby
from math import floor, log10
from pathlib import Path
from typing import Any

from benchmarks.fifo.table import spelled
from benchmarks.pool_peers_parts.cell import Cell
from benchmarks.pool_peers_parts.peers import AT_LEAST_ONCE
from benchmarks.pool_peers_parts.row import Row
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

OURS, OURS_AT_MOST_ONCE = "#0b6fb8", "#7fb9e0"
THEIRS, THEIRS_AT_MOST_ONCE = "#5f6368", "#bdc1c6"
COLUMNS = 3


def draw(rows: list[Row], path: Path) -> None:
    """Objects a second, or microseconds for the time of one."""
    cells = [(cell, list(found)) for cell, found in groupby(rows, key=lambda row: row.cell)]
    columns = min(COLUMNS, len(cells))
    lines = -(-len(cells) // columns)
    bars = max(len(found) for _, found in cells)
    figure = Figure(figsize=(3.9 * columns + 1.6, lines * (0.27 * bars + 0.9) + 0.9), dpi=130)
    FigureCanvasAgg(figure)
    panels = figure.subplots(lines, columns, squeeze=False, sharey="row")
    for panel in panels.flat[len(cells) :]:
        panel.set_axis_off()
    for panel, (cell, found) in zip(panels.flat, cells, strict=False):
        draw_cell(panel, cell, found)
    for first in panels[:, 0]:
        first.invert_yaxis()  # the others of its row follow
        for label in first.get_yticklabels():
            if label.get_text().startswith("snowmelt"):
                label.set(color=OURS, weight="bold")
    figure.suptitle("Objects a second, put, got and acknowledged (log scale)", fontsize=13)
    figure.supxlabel(
        "dark: at least once    light: gone when got    blue: Snowmelt    grey: others",
        fontsize=9.5,
    )
    figure.tight_layout()
    figure.savefig(path)


def draw_cell(panel: Any, cell: Cell, rows: list[Row]) -> None:
    values = [next(iter(row.figures.values()), 0.0) for row in rows]
    panel.barh([row.peer for row in rows], values, color=[colour(row) for row in rows], height=0.72)
    panel.set_xscale("log")
    known = [value for value in values if value]
    lowest = 10 ** floor(log10(min(known, default=1) / 1.5))
    panel.set_xlim(lowest, max(known, default=1) * 6)  # room for the figure after the bar
    for row, value in zip(rows, values, strict=True):
        text = f" {spelled(value)}" if value else " failed"
        panel.text(value or lowest, row.peer, text, va="center", fontsize=8.5)
    unit = "microseconds, median: less is better\n" if cell.hand_over else ""
    panel.set_title(f"{unit}{cell}", fontsize=10.5)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=8.5)
    panel.grid(axis="x", color="#e3e5e8", linewidth=0.6)
    panel.set_axisbelow(True)


def colour(row: Row) -> str:
    if row.peer.startswith("snowmelt"):
        return OURS if row.peer in AT_LEAST_ONCE else OURS_AT_MOST_ONCE
    return THEIRS if row.peer in AT_LEAST_ONCE else THEIRS_AT_MOST_ONCE
