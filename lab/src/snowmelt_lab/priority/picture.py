"""What an operation costs, and who keeps how much, drawn. Needs matplotlib."""

from collections.abc import Sequence
from math import log2
from pathlib import Path

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
    shades,
)
from snowmelt_lab.fitting import Fit, fitted
from snowmelt_lab.priority.fairness import EQUAL, PAPERS, Fair
from snowmelt_lab.priority.growth import Point
from snowmelt_lab.priority.options import Protocol
from snowmelt_lab.priority.rates import Rate


def draw_growth(points: Sequence[Point], path: Path) -> Fit:
    """Rounds of an operation with their fit, and what is left over."""
    sizes = [point.nodes for point in points]
    fit = fitted(sizes, [point.rounds_mean for point in points])
    title = f"An operation takes {fit.per_doubling:g} rounds more when the nodes double"
    figure, (rounds, left) = canvas(2, title)
    line(rounds, sizes, fit)
    dots(rounds, sizes, [point.rounds_p99 for point in points], "99th percentile", PALE)
    dots(rounds, sizes, [point.rounds_mean for point in points], "mean", RIGHT)
    dots(rounds, sizes, [point.tree_height_hops for point in points], "the tree's height", INK)
    agreed = [one for one in points if one.machines_agree]
    rings(rounds, [one.nodes for one in agreed], [one.rounds_mean for one in agreed])
    rounds.set_title("Rounds of an operation, waiting for its wave included")
    rounds.set_ylim(bottom=0)
    rest(left, sizes, fit, "rounds")
    for axes in (rounds, left):
        by_nodes(axes)
    save(figure, path)
    return fit


def draw_traffic(protocol: Protocol, points: Sequence[Point], path: Path) -> None:
    """Congestion and the largest message, each over what the paper bounds it by."""
    phased = protocol is Protocol.SEAP
    rates = sorted({point.ops_per_node for point in points})
    figure, panels = canvas(3, "Congestion, and the largest message, against the paper's bounds")
    measures = (
        ("Messages at a node in a round", [one.congestion_mean for one in points]),
        ("The same, over Λ log² n", [one.congestion_mean / bound(one) for one in points]),
        (
            "Bits of a message, over " + ("log n" if phased else "Λ log² n"),
            [one.message_bits_mean / (log2(one.nodes) if phased else bound(one)) for one in points],
        ),
    )
    for axes, (title, values) in zip(panels, measures, strict=True):
        for rate, colour in zip(rates, shades(len(rates)), strict=True):
            pairs = zip(points, values, strict=True)
            mine = [(one.nodes, value) for one, value in pairs if one.ops_per_node == rate]
            text = f"{rate} of a node in a wave"
            axes.plot(*zip(*mine, strict=True), "o-", color=colour, label=text, linewidth=1)
        axes.set_title(title)
        by_nodes(axes)
    panels[0].set_yscale("log")
    for axes in panels[1:]:
        axes.set_ylim(bottom=0)
    save(figure, path)


def draw_rates(nodes: int, rates: Sequence[Rate], path: Path) -> None:
    """Skeap and Seap side by side: the largest message, rounds, congestion."""
    title = f"{nodes} nodes: Seap's messages are bounded at any rate, Skeap takes fewer rounds"
    figure, (bits, rounds, congestion) = canvas(3, title)
    colours = {Protocol.SKEAP.value: INK, Protocol.SEAP.value: RIGHT}
    for protocol, colour in colours.items():
        mine = [one for one in rates if one.protocol == protocol]
        across = [one.ops_per_node for one in mine]
        name = protocol.capitalize()
        bits.plot(across, [one.message_bits_mean for one in mine], "o-", color=colour, label=name)
        rounds.plot(across, [one.rounds_mean for one in mine], "o-", color=colour, label=name)
        rounds.plot(
            across, [one.rounds_p99 for one in mine], "o:", color=colour, markersize=4,
            linewidth=1, label=f"{name}, 99th percentile",
        )  # fmt: skip
        congestion.plot(
            across, [one.congestion_mean for one in mine], "o-", color=colour, label=name
        )
    bits.set_title("Bits of the largest message")
    rounds.set_title("Rounds of an operation")
    congestion.set_title("Messages at a node in a round")
    congestion.set_yscale("log")
    for axes in (bits, rounds, congestion):
        axes.set_xlabel("operations of a node in the time of a wave")
        axes.set_xscale("log", base=4)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.legend(loc="best", frameon=False, fontsize=9)
    for axes in (bits, rounds):
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
