"""The figures as a picture: a panel for each cell, a bar for each peer."""

from itertools import groupby
from math import floor, log10
from pathlib import Path
from typing import Any

from benchmarks.fifo.cell import Cell
from benchmarks.fifo.row import DISK, Row

OURS, OURS_LATER = "#0b6fb8", "#7fb9e0"
THEIRS, THEIRS_LATER = "#5f6368", "#bdc1c6"


def draw(rows: list[Row], path: Path) -> None:
    """Items a second, put and taken; one row of panels for single calls, one for batches."""
    # Imported here, since the client's processes import this module and draw nothing.
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    cells = [(cell, list(found)) for cell, found in groupby(rows, key=lambda row: row.cell)]
    columns = max(1, (len(cells) + 1) // 2)
    bars = max(len(found) for _, found in cells)
    figure = Figure(figsize=(3.9 * columns + 1.6, 2 * (0.27 * bars + 0.9) + 0.9), dpi=130)
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, columns, squeeze=False, sharey="row")
    for panel in panels.flat[len(cells) :]:
        panel.set_axis_off()
    for panel, (cell, found) in zip(panels.flat, cells, strict=False):
        draw_cell(panel, cell, [row for row in found if row.peer != DISK])
    for first in panels[:, 0]:
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


def draw_cell(panel: Any, cell: Cell, rows: list[Row]) -> None:
    rates = [row.both_rate or 0.0 for row in rows]
    panel.barh([row.peer for row in rows], rates, color=[colour(row) for row in rows], height=0.72)
    panel.set_xscale("log")
    known = [rate for rate in rates if rate]
    lowest = 10 ** floor(log10(min(known, default=1) / 1.5))
    panel.set_xlim(lowest, max(known, default=1) * 6)  # room for the figure after the bar
    for row, rate in zip(rows, rates, strict=True):
        text = f" {rate:,.0f}" if rate else " failed"
        panel.text(rate or lowest, row.peer, text, va="center", fontsize=8.5)
    first_late = next((at for at, row in enumerate(rows) if not row.flushes_first), None)
    if first_late:
        panel.axhline(first_late - 0.5, color="#9aa0a6", linewidth=0.8, linestyle=":")
    panel.set_title(str(cell), fontsize=10.5)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=8.5)
    panel.grid(axis="x", color="#e3e5e8", linewidth=0.6)
    panel.set_axisbelow(True)


def colour(row: Row) -> str:
    if row.peer.startswith("snowmelt"):
        return OURS if row.flushes_first else OURS_LATER
    return THEIRS if row.flushes_first else THEIRS_LATER
