"""An overlay drawn: its ring with the tree inside and a route, and the tree by itself.

Needs matplotlib.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import cos, pi, sin
from pathlib import Path
from random import Random
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Curve

from snowmelt_lab.drawing import INK, WRONG, canvas, save
from snowmelt_lab.machines.overlay import CIRCLE, DeBruijnTree, Kind, Place, Ring, Virtual
from snowmelt_lab.machines.overlay.routing import begin, point, step

COLOURS: Final = {Kind.LEFT: "#2a78b5", Kind.MIDDLE: "#e3a008", Kind.RIGHT: "#0b6e4f"}
PALE: Final = "#aab4be"
NAMED_MAX: Final = 24
"""More nodes than these have no names in the picture."""

Spot = tuple[float, float]


def walked(ring: Ring, start: Virtual, key: int) -> list[Virtual]:
    """The virtual nodes on a route, first and last too."""
    route, met = begin(start, point(key), len(ring.nodes)), [start]
    while True:
        here = met[-1]
        to, route = step(here, ring.pred(here), ring.succ(here), route)
        if to is None:
            return met
        met.append(ring.virtual(here.node, to) if isinstance(to, Kind) else to)


def longest(ring: Ring, seed: int, tries: int = 12) -> tuple[int, list[Virtual]]:
    """A route worth a look: the one with most hops of some drawn."""
    chance = Random(f"{seed}/route")
    drawn = [(chance.choice(ring.nodes), chance.randrange(CIRCLE)) for _ in range(tries)]
    routes = [(key, walked(ring, ring.virtual(node, Kind.MIDDLE), key)) for node, key in drawn]
    return max(routes, key=lambda one: (len(one[1]) - _jumps(one[1]), _jumps(one[1])))


def draw(ring: Ring, seed: int, path: Path) -> None:
    tree = DeBruijnTree(ring)
    key, route = longest(ring, seed)
    count = len(ring.nodes)
    title = f"{count} nodes, {3 * count} virtual nodes, a tree of height {tree.height}"
    figure, (round_about, upright) = canvas(2, title)
    figure.set_size_inches(14.4, 7.4)
    for axes in (round_about, upright):
        axes.set_axis_off()
    _draw_ring(round_about, ring, tree, key, route)
    _draw_tree(upright, ring, tree)
    save(figure, path)


# --- the ring -------------------------------------------------------------------------------------


def _draw_ring(
    axes: Axes, ring: Ring, tree: DeBruijnTree, key: int, route: Sequence[Virtual]
) -> None:
    axes.set_aspect("equal")
    axes.set_xlim(-1.36, 1.36)
    axes.set_ylim(-1.72, 1.3)
    turn = np.linspace(0, 2 * pi, 400)
    axes.plot(np.sin(turn), np.cos(turn), color="#d3dae1", linewidth=1.2, zorder=1)
    for one in ring.virtuals:
        above = tree.parent(one.place)
        if above is not None:
            _chord(axes, one, ring.at(above), width=_width(ring), colour=PALE)
    for before, after in pairwise(route):
        jump = before.node == after.node
        _chord(axes, before, after, width=1.3 if jump else 2.4, colour=WRONG, order=4, dashed=jump)
    _draw_dots(axes, ring.virtuals, _dot(ring))
    _draw_ends(axes, key, route)
    if len(ring.nodes) <= NAMED_MAX:
        _draw_names(axes, ring.virtuals)
    axes.plot([0, 0], [0.93, 1.04], color=INK, linewidth=1.4, zorder=2)
    axes.text(0, 0.86, "seam: 1 | 0", fontsize=9, color=INK, ha="center", va="center")
    hops = sum(one.node != other.node for one, other in pairwise(route))
    text = f"a route: {hops} hops, and {_jumps(route)} free jumps within a node (dashed)"
    handles = [
        *(_dot_handle(COLOURS[kind], f"{kind.name.lower()} virtual node") for kind in Kind),
        Line2D([], [], color=PALE, label="an edge of the aggregation tree"),
        Line2D([], [], color=WRONG, linewidth=2.2, label=text),
        _dot_handle(WRONG, "the key that it looks for", marker="X"),
    ]
    axes.legend(handles=handles, loc="lower center", ncols=2, frameon=False)


def _draw_names(axes: Axes, virtuals: Sequence[Virtual]) -> None:
    before, rank = -CIRCLE, 0
    for one in virtuals:
        rank = rank + 1 if one.label - before < CIRCLE // 75 else 0  # further out, not on another
        before = one.label
        x, y = _spot(one.label, 1.07 + 0.055 * rank)
        axes.text(x, y, one.node, fontsize=7, color=COLOURS[one.kind], ha="center", va="center")


def _draw_ends(axes: Axes, key: int, route: Sequence[Virtual]) -> None:
    x, y = _spot(key)
    axes.plot(x, y, "X", color=WRONG, markersize=11, markeredgecolor="white", zorder=7)
    for one, word in ((route[0], "from"), (route[-1], "kept by")):
        x, y = _spot(one.label, 1.27)
        axes.text(
            x, y, f"{word} {one.node}", fontsize=9, color=WRONG, ha="center", fontweight="bold"
        )
        x, y = _spot(one.label)
        axes.plot(x, y, "o", markersize=13, color="none", markeredgecolor=WRONG, zorder=6)


def _chord(
    axes: Axes,
    one: Virtual,
    other: Virtual,
    *,
    width: float,
    colour: str,
    order: int = 2,
    dashed: bool = False,
) -> None:
    """A curve between two points of the ring, that bends towards the middle."""
    start, end = _spot(one.label), _spot(other.label)
    apart = abs(one.label - other.label) / CIRCLE
    bend = 1 - 0.5 * min(1.0, 4 * min(apart, 1 - apart) + 0.08)
    middle = ((start[0] + end[0]) / 2 * bend, (start[1] + end[1]) / 2 * bend)
    curve = Curve([start, middle, end], [Curve.MOVETO, Curve.CURVE3, Curve.CURVE3])
    style = "--" if dashed else "-"
    line = PathPatch(curve, fill=False, edgecolor=colour, linewidth=width, linestyle=style)
    line.set_zorder(order)
    line.set_alpha(0.85)
    axes.add_patch(line)


def _draw_dots(axes: Axes, virtuals: Iterable[Virtual], size: float) -> None:
    for kind in Kind:
        spots = [_spot(one.label) for one in virtuals if one.kind is kind]
        xs, ys = zip(*spots, strict=True)
        axes.scatter(
            xs, ys, s=size, color=COLOURS[kind], edgecolor="white", linewidth=0.5, zorder=5
        )


def _spot(label: int, radius: float = 1.0) -> Spot:
    """Clockwise from the top, where 0 and 1 meet."""
    turn = 2 * pi * label / CIRCLE
    return radius * sin(turn), radius * cos(turn)


def _dot(ring: Ring) -> float:
    return float(np.clip(1800 / len(ring.virtuals), 4, 60))


def _width(ring: Ring) -> float:
    return float(np.clip(30 / len(ring.nodes), 0.35, 1.3))


def _jumps(route: Sequence[Virtual]) -> int:
    return sum(one.node == other.node for one, other in pairwise(route))


def _dot_handle(colour: str, text: str, marker: str = "o") -> Line2D:
    return Line2D([], [], color=colour, marker=marker, linestyle="", label=text)


# --- the tree -------------------------------------------------------------------------------------


def _draw_tree(axes: Axes, ring: Ring, tree: DeBruijnTree) -> None:
    spots = placed(tree)
    for place, (x, y) in spots.items():
        above = tree.parent(place)
        if above is not None:
            within = above.node == place.node
            axes.plot(
                [x, spots[above][0]], [y, spots[above][1]], zorder=1,
                color=PALE if within else INK, linewidth=_width(ring) + 0.25,
                linestyle=":" if within else "-",
            )  # fmt: skip
    for kind in Kind:
        xs, ys = zip(*(spot for place, spot in spots.items() if place.index == kind), strict=True)
        axes.scatter(
            xs, ys, s=_dot(ring), color=COLOURS[kind], edgecolor="white", linewidth=0.5, zorder=2
        )
    if len(ring.nodes) <= NAMED_MAX:
        for place, (x, y) in spots.items():
            axes.annotate(
                place.node, (x, y), (5, 3), textcoords="offset points", fontsize=7,
                color=COLOURS[Kind(place.index)],
            )  # fmt: skip
    axes.set_ylim(-1.12 * tree.height - 1, 1.0)
    root = spots[tree.root]
    axes.annotate(
        "the anchor", root, (0, 9), textcoords="offset points", ha="center", color=INK, fontsize=10
    )
    handles = [
        Line2D([], [], color=INK, label="a hop to another node"),
        Line2D([], [], color=PALE, linestyle=":", label="within a node, free"),
    ]
    axes.legend(handles=handles, loc="lower center", ncols=2, frameon=False)


def placed(tree: DeBruijnTree) -> dict[Place, Spot]:
    """Where each place is drawn: leaves side by side, each other one over its children.

    >>> from snowmelt.core.names import NodeId
    >>> sorted(placed(DeBruijnTree(Ring([NodeId("a")], "s"))).values())
    [(0.0, -2.0), (0.0, -1.0), (0.0, 0.0)]
    """
    spots: dict[Place, Spot] = {}
    below = [(tree.root, 0)]
    order: list[tuple[Place, int]] = []
    while below:
        place, depth = below.pop()
        order.append((place, depth))
        below += [(child, depth + 1) for child in tree.children(place)]
    leaves = 0
    for place, depth in reversed(order):  # children come before their parents
        under = [spots[child][0] for child in tree.children(place)]
        across = sum(under) / len(under) if under else float(leaves)
        leaves += not under
        spots[place] = (across, 0.0 - depth)
    return spots
