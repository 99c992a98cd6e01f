"""What a selection costs, and where the printed plan stops working, drawn. Needs matplotlib."""

from collections.abc import Sequence
from math import log2
from pathlib import Path

from matplotlib.axes import Axes

from snowmelt_lab.drawing import (
    INK,
    PALE,
    RIGHT,
    WRONG,
    by_nodes,
    canvas,
    dots,
    line,
    rest,
    rings,
    save,
)
from snowmelt_lab.fitting import Fit, fitted
from snowmelt_lab.select.growth import Point
from snowmelt_lab.select.options import Mode, Shares
from snowmelt_lab.select.trials import Row


def draw_growth(points: Sequence[Point], path: Path) -> Fit:
    """Rounds with their fit, what is left over, and iterations."""
    sizes = [point.nodes for point in points]
    fit = fitted(sizes, [point.rounds_mean for point in points])
    title = f"A selection takes {fit.per_doubling:.0f} rounds more when the nodes double"
    figure, (rounds, left, iterations) = canvas(3, title)
    line(rounds, sizes, fit)
    dots(rounds, sizes, [point.rounds_max for point in points], "most of five", PALE)
    dots(rounds, sizes, [point.rounds_mean for point in points], "mean", RIGHT)
    agreed = [one for one in points if one.machines_agree]
    rings(rounds, [one.nodes for one in agreed], [one.rounds_mean for one in agreed])
    rounds.set_title("Rounds until the anchor knows the k-th smallest")
    rounds.set_ylim(bottom=0)
    rest(left, sizes, fit, "rounds")
    dots(iterations, sizes, [one.iterations_mean for one in points], "samples of phase 2", RIGHT)
    rankings = [one.iterations_phase1_mean for one in points]
    dots(iterations, sizes, rankings, "iterations of phase 1", INK)
    iterations.set_title("Iterations: a constant in the paper")
    iterations.set_ylim(bottom=0)
    for axes in (rounds, left, iterations):
        by_nodes(axes)
    save(figure, path)
    return fit


def draw_traffic(points: Sequence[Point], path: Path) -> None:
    """Congestion, and the largest message, as they are and over what they are claimed to be."""
    sizes = [point.nodes for point in points]
    logs = [log2(size) for size in sizes]
    figure, panels = canvas(3, "Congestion and the largest message, against the paper's bounds")
    congestion = [point.congestion_mean for point in points]
    dots(panels[0], sizes, [point.congestion_max for point in points], "most of five", PALE)
    dots(panels[0], sizes, congestion, "mean", RIGHT)
    panels[0].set_title("Messages at a node in a round, at most")
    over = [value / log**2 for value, log in zip(congestion, logs, strict=True)]
    dots(panels[1], sizes, over, "mean", RIGHT)
    panels[1].set_title("The same, over log₂² n")
    dots(panels[2], sizes, [one.message_bits_mean for one in points], "largest message", RIGHT)
    panels[2].set_title("Bits of the largest message")
    for axes in panels:
        axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
        by_nodes(axes)
    save(figure, path)


def draw_plans(rows: Sequence[Row], path: Path) -> None:
    """How trials ended, for the printed plan by shares, and the repaired one."""
    figure, panels = canvas(3, "Where the printed plan stops working: k in the middle")
    kinds = [(Mode.PAPER, Shares.EVEN), (Mode.PAPER, Shares.RING), (Mode.REPAIRED, Shares.RING)]
    names = ["printed, even shares", "printed, shares of the ring", "repaired, shares of the ring"]
    for axes, (mode, shares), title in zip(panels, kinds, names, strict=True):
        mine = [row for row in rows if row.mode is mode and row.shares is shares]
        _bars(axes, mine)
        axes.set_title(title)
    panels[0].set_ylabel("trials")
    panels[0].legend(loc="center left", fontsize=9)
    save(figure, path)


def _bars(axes: Axes, rows: Sequence[Row]) -> None:
    ends = (
        ("exact", [row.exact for row in rows], RIGHT),
        ("off by its miscount", [row.early for row in rows], "#e9c46a"),
        ("wrong", [row.wrong for row in rows], WRONG),
        ("rank lost", [row.lost for row in rows], INK),
        ("never ends", [row.endless for row in rows], PALE),
    )
    floor = [0] * len(rows)
    for name, counts, colour in ends:
        axes.bar(range(len(rows)), counts, bottom=floor, color=colour, label=name, width=0.7)
        floor = [low + count for low, count in zip(floor, counts, strict=True)]
    axes.set_xticks(range(len(rows)), [f"{row.nodes:,}" for row in rows], fontsize=8)
    axes.set_xlabel("nodes")
