"""Time for 100 operations drawn, against clients and against nodes. Needs matplotlib."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from snowmelt_lab.drawing import INK, canvas, save, shades
from snowmelt_lab.scale.grid import Point

BESIDE: Final[dict[str, Any]] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}


def title(points: Sequence[Point]) -> str:
    """The finding: the fastest point of the cluster, beside the plain queue's.

    >>> from snowmelt_lab.scale.gates import Times
    >>> title([Point(0, 1, Times(1, 1, 0.1)), Point(6, 1, Times(2, 2, 0.2))])
    'At best 0.2 s for 100 operations (nodes: 6, clients: 1); one process in memory: 0.1 s'
    """
    ours = [point for point in points if point.nodes]
    rival = min(point.times.seconds_per_100 for point in points if not point.nodes)
    if not ours:
        return f"One process in memory: {rival:.2g} s for 100 operations at best"
    best = min(ours, key=lambda point: point.times.seconds_per_100)
    where = f"nodes: {best.nodes}, clients: {best.clients}"
    text = f"At best {best.times.seconds_per_100:.2g} s for 100 operations ({where})"
    return f"{text}; one process in memory: {rival:.2g} s"


def draw(points: Sequence[Point], path: Path) -> None:
    """Two panels, as the paper's figure and across it."""
    figure, (by_clients, by_nodes) = canvas(2, title(points))
    ours = [point for point in points if point.nodes]
    rival = [point for point in points if not point.nodes]
    _draw_family(by_clients, ours, lambda point: point.clients, lambda point: point.nodes)
    seconds = [point.times.seconds_per_100 for point in rival]
    clients = [point.clients for point in rival]
    by_clients.plot(clients, seconds, "s--", color=INK, markersize=4, label="one, in memory")
    by_clients.legend(title="nodes", **BESIDE)
    by_clients.set_title("More clients")
    by_clients.set_xlabel("clients")
    by_clients.set_ylabel("seconds for 100 operations")
    _draw_family(by_nodes, ours, lambda point: point.nodes, lambda point: point.clients)
    if ours:
        by_nodes.legend(title="clients", **BESIDE)
    by_nodes.set_title("More nodes")
    by_nodes.set_xlabel("nodes")
    scale(by_clients, clients)
    scale(by_nodes, sorted({point.nodes for point in ours}))
    by_nodes.set_ylim(by_clients.get_ylim())
    save(figure, path)


def _draw_family(
    axes: Axes,
    points: Sequence[Point],
    along: Callable[[Point], int],
    of: Callable[[Point], int],
) -> None:
    members = sorted({of(point) for point in points})
    for member, shade in zip(members, shades(len(members)), strict=True):
        mine = sorted((point for point in points if of(point) == member), key=along)
        seconds = [point.times.seconds_per_100 for point in mine]
        axes.plot(
            list(map(along, mine)), seconds, "o-", color=shade, markersize=4, label=str(member)
        )


def scale(axes: Axes, ticks: Sequence[int]) -> None:
    """Both axes logarithmic, with these ticks along."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
