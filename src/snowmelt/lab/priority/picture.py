"""What an operation costs, and who keeps how much, drawn. Needs matplotlib."""

from collections.abc import Sequence
from math import log2
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes

from snowmelt.lab.drawing import INK, RIGHT, WRONG, canvas, save, shades
from snowmelt.lab.priority.fairness import EQUAL, PAPERS, Fair
from snowmelt.lab.priority.growth import Fit, Point, fitted

PALE: Final = "#aab4be"


def draw_growth(points: Sequence[Point], path: Path) -> Fit:
    """Rounds of an operation with their fit, and what is left over."""
    sizes = [point.nodes for point in points]
    fit = fitted(sizes, [point.rounds_mean for point in points])
    worst = max(map(abs, fit.residuals))
    title = f"An operation takes {fit.per_doubling:g} rounds more when the nodes double"
    figure, (rounds, rest) = canvas(2, title)
    line = [fit.start + fit.per_doubling * log2(size) for size in sizes]
    text = f"{fit.start:g} + {fit.per_doubling:g} log₂ n"
    rounds.plot(sizes, line, color=RIGHT, linewidth=1.2, label=text)
    _dots(rounds, sizes, [point.rounds_p99 for point in points], "99th percentile", PALE)
    _dots(rounds, sizes, [point.rounds_mean for point in points], "mean", RIGHT)
    _dots(rounds, sizes, [point.tree_height_hops for point in points], "the tree's height", INK)
    asked = [point for point in points if point.machines_agree]
    if asked:
        _rings(rounds, asked)
    rounds.set_title("Rounds of an operation, waiting for its wave included")
    rounds.set_ylim(bottom=0)
    rest.axhline(0, color=RIGHT, linewidth=1.2)
    rest.vlines(sizes, 0, fit.residuals, color=PALE)
    _dots(rest, sizes, fit.residuals, f"measured less the line, {worst:g} at most", RIGHT)
    rest.set_title("What the line leaves over, in rounds")
    rest.margins(y=0.25)
    for axes in (rounds, rest):
        _sizes(axes)
    save(figure, path)
    return fit


def draw_traffic(points: Sequence[Point], path: Path) -> None:
    """Congestion and the largest message, each over what the paper bounds it by."""
    rates = sorted({point.ops_per_node for point in points})
    figure, panels = canvas(3, "Congestion, and the largest message, against the paper's bounds")
    measures = (
        ("Messages at a node in a round", [one.congestion_mean for one in points]),
        ("The same, over Λ log² n", [one.congestion_mean / bound(one) for one in points]),
        (
            "Bits of a message, over Λ log² n",
            [one.message_bits_mean / bound(one) for one in points],
        ),
    )
    for axes, (title, values) in zip(panels, measures, strict=True):
        for rate, colour in zip(rates, shades(len(rates)), strict=True):
            pairs = zip(points, values, strict=True)
            mine = [(one.nodes, value) for one, value in pairs if one.ops_per_node == rate]
            text = f"{rate} of a node in a wave"
            axes.plot(*zip(*mine, strict=True), "o-", color=colour, label=text, linewidth=1)
        axes.set_title(title)
        _sizes(axes)
    panels[0].set_yscale("log")
    for axes in panels[1:]:
        axes.set_ylim(bottom=0)
    save(figure, path)


def bound(point: Point) -> float:
    """What both are to be compared with: theorem 3.2, with log2 squared for its polylogarithm."""
    return float(point.rate * log2(point.nodes) ** 2)


def draw_fairness(nodes: int, rows: Sequence[Fair], path: Path) -> None:
    """Each form of the ring as a bar from the least to the most."""
    figure, (axes,) = canvas(1, f"Elements at a node, the mean being 1: {nodes} nodes")
    figure.set_size_inches(8.6, 5.4)
    for at, row in enumerate(reversed(rows)):
        colour = RIGHT if row.points == PAPERS else INK
        axes.plot([row.least, row.most], [at, at], color=colour, linewidth=5, alpha=0.35)
        axes.plot(
            [max(0, 1 - row.deviation), 1 + row.deviation], [at, at], color=colour, linewidth=5
        )
        axes.text(row.most + 0.07, at, f"{row.most:g}", va="center", fontsize=8, color=INK)
    axes.set_yticks(range(len(rows)), [named(row) for row in reversed(rows)], fontsize=9)
    axes.axvline(1, color=WRONG, linewidth=1)
    axes.set_xlim(left=0)
    axes.set_xlabel("dark: one standard deviation; pale: from the least to the most")
    save(figure, path)


def named(row: Fair) -> str:
    """What it is, in words.

    >>> named(Fair(10, 16, 3, 0, 0, 0, 0))
    '10 points, blocks of 16, 3 copies'
    """
    known = {PAPERS: "the paper's ring", EQUAL: "equal arcs", 1: "1 point"}
    ring = known.get(row.points, f"{row.points} points")
    block = "" if row.block == 1 else f", blocks of {row.block}"
    return ring + block + ("" if row.replicas == 1 else f", {row.replicas} copies")


def _dots(
    axes: Axes, sizes: Sequence[int], values: Sequence[float], text: str, colour: str
) -> None:
    axes.plot(sizes, values, "o", color=colour, label=text, markersize=5)


def _rings(axes: Axes, points: Sequence[Point]) -> None:
    sizes, values = [one.nodes for one in points], [one.rounds_mean for one in points]
    axes.plot(
        sizes, values, "o", markersize=11, color="none", markeredgecolor=WRONG,
        label="the machines give the same",
    )  # fmt: skip


def _sizes(axes: Axes) -> None:
    axes.set_xlabel("nodes")
    axes.set_xscale("log")
    axes.legend(loc="best", frameon=False, fontsize=9)
