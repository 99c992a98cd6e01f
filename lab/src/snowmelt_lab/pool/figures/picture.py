"""A figure drawn: simulated points with their intervals, the models' lines. Needs matplotlib."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from snowmelt_lab.drawing import INK, canvas, save, shades
from snowmelt_lab.pool.figures.plan import Curve, Figure, Panel, Point
from snowmelt_lab.pool.figures.results import Results

PANEL_INCHES = (7.0, 4.6)
"""With room for the legend beside it."""
TICKS_OF_WAIT = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)


def draw(figure: Figure, results: Results, paths: Sequence[Path]) -> None:
    title = f"Figure {figure.number}. {figure.title}"
    canvas_, panels = canvas(len(figure.panels), title)
    look: Any = {"fontsize": 11, "fontweight": "bold", "color": INK}
    canvas_.suptitle(title, **look)  # a sentence must fit over a single panel
    width, height = PANEL_INCHES
    canvas_.set_size_inches(width * len(panels), height)
    for axes, panel in zip(panels, figure.panels, strict=True):
        _draw_panel(axes, panel, results)
    for path in paths:
        save(canvas_, path)


def _draw_panel(axes: Axes, panel: Panel, results: Results) -> None:
    for mark in panel.marks:
        axes.axhline(mark, color=INK, linewidth=0.8, linestyle=":")
    for curve, shade in zip(panel.curves, shades(len(panel.curves)), strict=True):
        _draw_curve(axes, panel, curve, shade, results)
    axes.set_xlabel(panel.across)
    axes.set_ylabel(panel.measure.words)
    axes.set_title(panel.name, fontsize=10)
    _scale(axes, panel)
    _explain(axes, panel)


def _draw_curve(axes: Axes, panel: Panel, curve: Curve, shade: str, results: Results) -> None:
    for line, style in ((curve.line, "-"), (curve.dashed, "--")):
        _draw_line(axes, panel, line, results, shade, style)
    unit = panel.measure.unit
    found = [results.simulated(dot, panel.measure) for dot in curve.dots]
    axes.errorbar(
        [dot.x for dot in curve.dots],
        [unit * value for value, _ in found],
        yerr=[unit * (half or 0.0) for _, half in found],
        fmt="o",
        color=shade,
        markersize=4.5,
        capsize=3,
        label=curve.label,
    )


def _draw_line(
    axes: Axes, panel: Panel, line: Sequence[Point], results: Results, shade: str, style: str
) -> None:
    heights = [(point.x, results.modelled(point, panel.measure)) for point in line]
    known = [(x, panel.measure.unit * height) for x, height in heights if height is not None]
    axes.plot([x for x, _ in known], [y for _, y in known], style, color=shade, linewidth=1.4)


def _scale(axes: Axes, panel: Panel) -> None:
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    if panel.up_log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.set_yticks([tick for tick in TICKS_OF_WAIT if low <= tick <= high])
        axes.yaxis.set_major_formatter(plain)
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=panel.bottom)
    if panel.across_log:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    if panel.ticks:
        axes.set_xticks(panel.ticks, [f"{tick:g}" for tick in panel.ticks])


def _explain(axes: Axes, panel: Panel) -> None:
    """The curves by their colours, and what dots and lines are."""
    handles, labels = axes.get_legend_handles_labels()
    kinds: list[tuple[str, Any]] = [
        ("simulated", {"marker": "o", "linestyle": ""}),
        ("model", {"linestyle": "-"}),
    ]
    kinds += [(panel.dashed, {"linestyle": "--"})] if panel.dashed else []
    for label, how in kinds:
        handles.append(Line2D([], [], color=INK, markersize=4.5, **how))
        labels.append(label)
    beside: Any = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
    axes.legend(handles, labels, title=panel.key, fontsize=9, **beside)
