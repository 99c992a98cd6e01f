"""The figures as a picture: a panel for each kind of work, a bar for each peer."""

from collections.abc import Sequence
from itertools import groupby
from math import ceil, floor, log10, sqrt
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.comparison import DISK, Comparison
from benchmarks.peers.report import spelled
from benchmarks.peers.rows import Row
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

OURS, OURS_BELOW = "#0b6fb8", "#7fb9e0"
THEIRS, THEIRS_BELOW = "#5f6368", "#bdc1c6"
COLUMNS: Final = 5


def draw(comparison: Comparison, rows: Sequence[Row], path: Path) -> None:
    """Peers stand in the order in which they come, the same in all panels."""
    rows = [row for row in rows if row.peer != DISK]
    names = list(dict.fromkeys(row.peer for row in rows))
    works = [(work, list(found)) for work, found in groupby(rows, key=lambda row: row.work)]
    panels = [
        (f"{work}\n{what}" if len(comparison.charted) > 1 else str(work), figure, found)
        for work, found in works
        for figure, what in comparison.charted.items()
        if any(figure in row.figures for row in found)
    ]
    columns = min(COLUMNS, max(1, ceil(sqrt(len(panels)))))
    lines = max(1, ceil(len(panels) / columns))
    size = (3.9 * columns + 1.6, lines * (0.27 * len(names) + 0.9) + 0.9)
    drawing = Figure(figsize=size, dpi=130)
    FigureCanvasAgg(drawing)
    grid = drawing.subplots(lines, columns, squeeze=False, sharey="row")
    for empty in grid.flat[len(panels) :]:
        empty.set_axis_off()
    for panel, (title, figure, found) in zip(grid.flat, panels, strict=False):
        draw_work(panel, title, figure, {row.peer: row for row in found}, names)
    for first in grid[:, 0]:
        first.set_yticks(range(len(names)), names)
        first.invert_yaxis()  # the others of its row follow
        for label in first.get_yticklabels():
            if label.get_text().startswith("snowmelt"):
                label.set(color=OURS, weight="bold")
    what = "" if len(comparison.charted) > 1 else f"\n{next(iter(comparison.charted.values()))}"
    drawing.suptitle(f"{comparison.about}{what} (log scale)", fontsize=12)
    line = "light: below the line of the tables    " if any(not row.above for row in rows) else ""
    drawing.supxlabel(f"{line}blue: Snowmelt    grey: others", fontsize=9.5)
    drawing.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path)


def draw_work(
    panel: Any, title: str, figure: str, rows: dict[str, Row], names: Sequence[str]
) -> None:
    """A bar for each of the names that takes part."""
    values = {name: rows[name].figures.get(figure, 0.0) for name in names if name in rows}
    places = {name: list(names).index(name) for name in values}
    colours = [colour(rows[name]) for name in values]
    panel.barh(list(places.values()), list(values.values()), color=colours, height=0.72)
    panel.set_xscale("log")
    known = [value for value in values.values() if value]
    lowest = 10 ** floor(log10(min(known, default=1) / 1.5))
    panel.set_xlim(lowest, max(known, default=1) * 6)  # room for the figure after the bar
    for name, value in values.items():
        text = f" {spelled(value)}" if value else " failed"
        panel.text(value or lowest, places[name], text, va="center", fontsize=8.5)
    panel.set_title(title, fontsize=9)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=8.5)
    panel.grid(axis="x", color="#e3e5e8", linewidth=0.6)
    panel.set_axisbelow(True)


def colour(row: Row) -> str:
    if row.peer.startswith("snowmelt"):
        return OURS if row.above else OURS_BELOW
    return THEIRS if row.above else THEIRS_BELOW
