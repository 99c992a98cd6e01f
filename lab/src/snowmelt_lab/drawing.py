"""How the lab's pictures look: one canvas, one hand. Needs matplotlib."""

from collections.abc import Sequence
from math import log2
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snowmelt.core.errors import BadOption
from snowmelt_lab.fitting import Fit

INK = "#1f2933"
RIGHT = "#0b6e4f"
WRONG = "#c1121f"
PALE = "#aab4be"
PANEL_INCHES = (5.4, 4.4)


def canvas(panels: int, title: str) -> tuple[Figure, list[Axes]]:
    """Panels side by side under one title that says the finding.

    No pyplot: it keeps global state, and may look for a display.

    >>> figure, panels = canvas(2, "Two things")
    >>> len(panels)
    2
    """
    width, height = PANEL_INCHES
    figure = Figure(figsize=(width * panels, height + 0.4), layout="constrained")
    figure.suptitle(title, fontsize=13, fontweight="bold", color=INK)
    axes: list[Axes] = list(figure.subplots(1, panels, squeeze=False)[0])
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(visible=True, color="#e4e7eb", linewidth=0.8)
        one.set_axisbelow(True)
    return figure, axes


def shades(count: int) -> list[str]:
    """Colours for an ordered family of curves, light to dark, told apart without colour vision.

    >>> shades(2)
    ['#2fb47c', '#440154']
    """
    scale = mpl.colormaps["viridis"]
    points = [0.65 * (1 - one / max(1, count - 1)) for one in range(count)]
    return [mpl.colors.to_hex(scale(point)) for point in points]


def dots(axes: Axes, sizes: Sequence[int], values: Sequence[float], text: str, colour: str) -> None:
    axes.plot(sizes, values, "o", color=colour, label=text, markersize=5)


def by_nodes(axes: Axes) -> None:
    axes.set_xlabel("nodes")
    axes.set_xscale("log")
    axes.legend(loc="best", frameon=False, fontsize=9)


def line(axes: Axes, sizes: Sequence[int], fit: Fit) -> None:
    values = [fit.start + fit.per_doubling * log2(size) for size in sizes]
    text = f"{fit.start:g} + {fit.per_doubling:g} log₂ n"
    axes.plot(sizes, values, color=RIGHT, linewidth=1.2, label=text)


def rest(axes: Axes, sizes: Sequence[int], fit: Fit, unit: str) -> None:
    """What the fit leaves over, in a panel of its own."""
    axes.axhline(0, color=RIGHT, linewidth=1.2)
    axes.vlines(sizes, 0, fit.residuals, color=PALE)
    dots(axes, sizes, fit.residuals, f"measured less the line, {fit.worst:g} at most", RIGHT)
    axes.set_title(f"What the line leaves over, in {unit}")
    axes.margins(y=0.25)


def rings(axes: Axes, sizes: Sequence[int], values: Sequence[float]) -> None:
    """Round the dots of which the machines say the same."""
    if sizes:
        axes.plot(
            sizes, values, "o", markersize=11, color="none", markeredgecolor=WRONG,
            label="the machines give the same",
        )  # fmt: skip


def save(figure: Figure, path: Path) -> None:
    """Writes the picture, in the form its name ends with.

    >>> save(canvas(1, "One")[0], Path("/nowhere/one.png"))
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --figure is '/nowhere/one.png'; allowed: a file that can be...
    """
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise BadOption("--figure", str(path), f"a file that can be written ({error})") from error
