"""What the overlay costs against the number of nodes, drawn. Needs matplotlib."""

from collections.abc import Callable, Iterator, Sequence
from math import log2
from pathlib import Path
from statistics import fmean
from typing import Final

import msgspec
from matplotlib.axes import Axes

from snowmelt_lab.drawing import INK, RIGHT, WRONG, canvas, save
from snowmelt_lab.fitting import SALTS, fitted
from snowmelt_lab.overlay.measures import PAPERS, Overlay, measured

SIZES_MIN: Final = 3


class Point(msgspec.Struct, frozen=True):
    """One size, in the mean over some overlays."""

    nodes: int
    tree_height: float
    tree_height_hops: float
    routing_hops_mean: float
    routing_hops_p99: float
    share_most: float


def points(sizes: Sequence[int], salt: str, routes: int, seed: int) -> Iterator[Point]:
    for nodes in sizes:
        salts = [f"{salt}{number}" for number in range(SALTS)]
        each = [measured(nodes, one, routes, seed, shares=False) for one in salts]
        yield Point(
            nodes,
            _mean(each, lambda one: one.tree_height),
            _mean(each, lambda one: one.tree_height_hops),
            _mean(each, lambda one: one.routing_hops_mean),
            _mean(each, lambda one: one.routing_hops_p99),
            _mean(each, lambda one: one.share["most"]),
        )


def _mean(each: Sequence[Overlay], of: Callable[[Overlay], float]) -> float:
    return round(fmean(of(one) for one in each), 2)


def draw(drawn: Sequence[Point], path: Path) -> None:
    """Two panels: the tree, and routes, each with the best straight line in log n."""
    sizes = [point.nodes for point in drawn]
    fit = fitted(sizes, [point.routing_hops_mean for point in drawn])
    most = f"off by {fit.worst:g} at most"
    figure, (tree, routes) = canvas(2, f"A route grows by {fit.per_doubling:g} hops a doubling")
    _curve(tree, sizes, [one.tree_height for one in drawn], "virtual nodes", INK)
    _curve(tree, sizes, [one.tree_height_hops for one in drawn], "hops between nodes", RIGHT)
    _curve(routes, sizes, [one.routing_hops_p99 for one in drawn], "99th percentile", INK)
    _curve(routes, sizes, [one.routing_hops_mean for one in drawn], f"mean ({most})", RIGHT)
    _earlier(tree, sizes, 0, 1)
    _earlier(routes, sizes, 3, 2)
    for axes, title in ((tree, "Height of the aggregation tree"), (routes, "Hops of a route")):
        axes.set_title(title)
        axes.set_xlabel("nodes")
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left", frameon=False)
    save(figure, path)


def _curve(
    axes: Axes, sizes: Sequence[int], values: Sequence[float], text: str, colour: str
) -> None:
    fit = fitted(sizes, values)
    axes.plot(sizes, values, "o", color=colour, label=text, markersize=5)
    ends = [sizes[0], sizes[-1]]
    line = [fit.start + fit.per_doubling * log2(end) for end in ends]
    axes.plot(ends, line, color=colour, linewidth=1, alpha=0.6)


def _earlier(axes: Axes, sizes: Sequence[int], *columns: int) -> None:
    for column in columns:
        known = [(nodes, row[column]) for nodes, row in PAPERS.items() if nodes <= sizes[-1]]
        pairs = [(nodes, value) for nodes, value in known if value is not None]
        label = "another program" if column == columns[0] else None
        axes.plot(*zip(*pairs, strict=True), "x", color=WRONG, label=label, markersize=6)
