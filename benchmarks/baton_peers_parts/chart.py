"""The figures as a picture: how each peer does as more and more wait."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.baton_peers_parts.peers import KINDS
from benchmarks.baton_peers_parts.row import HAND_OVER, Row
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

STYLES: Final = {
    "snowmelt-1": ("#7fb9e0", "-", "o"),
    "snowmelt-3": ("#0b6fb8", "-", "o"),
    "redis-lock": ("#e8a08c", "-", "s"),
    "redis-lock-1ms": ("#b3381d", "-", "s"),
    "etcd": ("#2e7d4f", "-", "^"),
    "zookeeper": ("#7a5195", "-", "D"),
    "redis-signal": ("#b3381d", ":", "s"),
    "redis-token": ("#5f6368", ":", "s"),
    "etcd-memory": ("#2e7d4f", ":", "^"),
    "zookeeper-memory": ("#7a5195", ":", "D"),
}
MILLISECONDS: Final = "milliseconds, median"

Value = Callable[[Row], float]


def draw(rows: list[Row], path: Path) -> None:
    """Three panels over the number of waiters; those that were not measured stay empty."""
    figure = Figure(figsize=(13.5, 4.9), dpi=130)
    FigureCanvasAgg(figure)
    left, middle, right = figure.subplots(1, 3)
    lines(left, rows, "now", lambda row: row.figures[HAND_OVER] / 1000)
    left.set(title="Hand-over, given on at once", ylabel=MILLISECONDS)
    lines(middle, rows, "held", lambda row: row.figures[HAND_OVER] / 1000)
    middle.set(title="Hand-over, held for 5 ms", ylabel=MILLISECONDS)
    lines(right, rows, "held", lambda row: row.figures["messages_per_hand_over"])
    right.set(title="Messages a hand-over, held for 5 ms", ylabel="messages")
    handles, names = left.get_legend_handles_labels() or middle.get_legend_handles_labels()
    figure.legend(handles, names, loc="lower center", ncols=5, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0.11, 1, 1))
    figure.savefig(path)


def lines(panel: Any, rows: list[Row], family: str, value: Value) -> None:
    here = [row for row in rows if row.cell.family == family and row.figures]
    for peer in KINDS:
        own = [row for row in here if row.peer == peer]
        colour, line, mark = STYLES[peer]
        panel.plot(
            [row.cell.waiters for row in own],
            [value(row) for row in own],
            label=peer,
            color=colour,
            linestyle=line,
            marker=mark,
            markersize=4.5,
            linewidth=2.4 if peer.startswith("snowmelt") else 1.4,
        )
    waiters = sorted({row.cell.waiters for row in here})
    panel.set_xscale("log", base=2)
    if here:
        panel.set_yscale("log")
    panel.set_xticks(waiters, [str(one) for one in waiters])
    panel.minorticks_off()
    panel.set_xlabel("waiters")
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(color="#e3e5e8", linewidth=0.6)
    panel.set_axisbelow(True)
