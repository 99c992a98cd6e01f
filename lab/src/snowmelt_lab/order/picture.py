"""Distance against failures drawn, a curve for each number of consumers. Needs matplotlib."""

from collections.abc import Callable, Sequence
from math import nan
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from snowmelt_lab.drawing import INK, canvas, save, shades
from snowmelt_lab.order.distance import Distance
from snowmelt_lab.order.grid import Run

TITLE = "Put back at its own place, an item is late by one lease; at the tail, by the whole backlog"


def draw(runs: Sequence[Run], path: Path) -> None:
    """Own places beside the tail, and what consumers side by side do to the order themselves."""
    figure, (own, tail, confirmed) = canvas(3, TITLE)
    mine = [run for run in runs if run.place == "own place"]
    _draw_curves(own, mine, lambda run: run.delivered)
    _draw_expected(own, mine)
    own.set_title("Back to its own place (without failures: 0)")
    own.set_ylabel("mean distance from enqueue order (places)")
    _draw_curves(tail, [run for run in runs if run.place == "tail"], lambda run: run.delivered)
    tail.set_title(f"Back to the tail, behind {runs[0].crew.waiting:,} that wait")
    _draw_curves(confirmed, mine, lambda run: run.confirmed)
    confirmed.set_title("Own place, in the order of confirmation")
    handles, labels = own.get_legend_handles_labels()
    tail.legend(handles, labels, title="consumers", loc="lower right", ncols=2)
    _scale_alike([own, tail, confirmed], _failures(runs))
    save(figure, path)


def _draw_curves(axes: Axes, runs: Sequence[Run], measure: Callable[[Run], Distance]) -> None:
    curves = _by_consumers(runs)
    for mine, shade in zip(curves, shades(len(curves)), strict=True):
        label = str(mine[0].crew.consumers)
        means = [measure(run).mean or nan for run in mine]
        axes.plot(_failures(mine), means, "o-", color=shade, markersize=4, label=label)


def _draw_expected(axes: Axes, runs: Sequence[Run]) -> None:
    label: str | None = "first order: 2 f c T / m"
    for mine in _by_consumers(runs):
        means = [run.crew.expected or nan for run in mine]
        axes.plot(_failures(mine), means, ":", color=INK, linewidth=1.2, label=label)
        label = None


def _failures(runs: Sequence[Run]) -> list[float]:
    return [100 * run.crew.failure for run in runs]


def _by_consumers(runs: Sequence[Run]) -> list[list[Run]]:
    counts = sorted({run.crew.consumers for run in runs})
    ordered = sorted(runs, key=lambda run: run.crew.failure)
    return [[run for run in ordered if run.crew.consumers == count] for count in counts]


def _scale_alike(panels: Sequence[Axes], failures: Sequence[float]) -> None:
    """Both axes by tens, and the same in all; no failures at all has a place of its own."""
    least = min((failure for failure in failures if failure), default=1.0)
    top = max(axes.get_ylim()[1] for axes in panels)
    for axes in panels:
        axes.set_xscale("symlog", linthresh=least, linscale=0.4)
        axes.set_xlim(left=-0.2 * least, right=1.2 * max(*failures, least))
        axes.set_yscale("log")
        axes.set_ylim(0.01, 2 * top)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ticks = sorted({0.0, *failures})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xlabel("chance that a dequeue fails (%)")
