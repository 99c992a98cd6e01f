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
    """Congestion a rate, and the largest message, by how much the nodes do."""
    rates = sorted({point.ops_per_node for point in points})
    title = "Congestion grows with the rate, messages slower than the rate"
    figure, (load, bits) = canvas(2, title)
    for rate, colour in zip(rates, shades(len(rates)), strict=True):
        mine = [point for point in points if point.ops_per_node == rate]
        sizes = [point.nodes for point in mine]
        text = f"{rate} in a wave"
        load.plot(
            sizes, [point.congestion_mean / point.rate for point in mine], "o-",
            color=colour, label=text, markersize=5, linewidth=1,
        )  # fmt: skip
        bits.plot(
            sizes, [point.message_bits_mean for point in mine], "o-",
            color=colour, label=text, markersize=5, linewidth=1,
        )  # fmt: skip
        for axes in (load, bits):
            axes.set_yscale("log")
    load.set_title("Messages at a node in a round, over the rate Λ")
    bits.set_title("Bits of the largest message")
    _bound(load, points, [point.congestion_mean / point.rate for point in points], 2, "log² n")
    _bound(bits, points, [point.message_bits_mean for point in points], None, "Λ log² n")
    for axes in (load, bits):
        _sizes(axes)
    save(figure, path)


def _bound(
    axes: Axes, points: Sequence[Point], values: Sequence[float], power: int | None, text: str
) -> None:
    """A curve of this shape that touches the highest point from above."""
    rates = sorted({point.ops_per_node for point in points})
    shapes = {
        rate: [
            (point.nodes, log2(point.nodes) ** 2 * (point.rate if power is None else 1))
            for point in points
            if point.ops_per_node == rate
        ]
        for rate in rates
    }
    factor = max(
        value / (log2(point.nodes) ** 2 * (point.rate if power is None else 1))
        for point, value in zip(points, values, strict=True)
    )
    for rate in rates[-1:]:
        sizes, shape = zip(*shapes[rate], strict=True)
        line = [factor * one for one in shape]
        axes.plot(sizes, line, "--", color=WRONG, linewidth=1, label=f"{factor:.3g} {text}")


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
