"""What a figure is made of: panels of curves, each with points to simulate and to compute."""

from enum import Enum

import msgspec

from snowmelt_lab.pool.options import PoolOptions


class Measure(Enum):
    """What is drawn upward, and the words beside it."""

    PROBES = "hops_mean"
    WAIT = "wait_mean"
    THROUGHPUT = "throughput"
    HELD_UP = "producer_blocked"
    EMPTY = "probe_empty"

    @property
    def words(self) -> str:
        """The axis' label, with its unit."""
        return {
            Measure.PROBES: "probes for an object",
            Measure.WAIT: "wait for an object (ticks)",
            Measure.THROUGHPUT: "throughput (objects a tick)",
            Measure.HELD_UP: "producers held up, p(f) (% of the time)",
            Measure.EMPTY: "probes that find nothing, p_mt (%)",
        }[self]

    @property
    def unit(self) -> float:
        """What a value is multiplied by to be drawn: shares are drawn in percent."""
        return 100.0 if self in (Measure.HELD_UP, Measure.EMPTY) else 1.0


class Point(msgspec.Struct, frozen=True):
    """An experiment, and where it stands to the right."""

    x: float
    options: PoolOptions


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """One colour: dots are simulated, the line and the dashed line are the model's."""

    label: str
    dots: tuple[Point, ...]
    line: tuple[Point, ...]
    dashed: tuple[Point, ...] = ()
    """The model with other options than the dots: as a person might compare them."""


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    measure: Measure
    across: str
    """The label of the axis to the right."""
    key: str
    """What the curves differ by: the legend's title."""
    curves: tuple[Curve, ...]
    name: str = ""
    ticks: tuple[float, ...] = ()
    across_log: bool = False
    up_log: bool = False
    bottom: float = 0.0
    """Where the axis upward begins, unless it is by tens."""
    marks: tuple[float, ...] = ()
    """Heights that the paper names."""
    dashed: str = ""
    """What dashed lines are."""


class Figure(msgspec.Struct, frozen=True):
    """A figure of the paper, its title the finding."""

    number: int
    title: str
    panels: tuple[Panel, ...]

    @property
    def points(self) -> list[PoolOptions]:
        """All that is simulated for it, each once."""
        dots = (dot for panel in self.panels for curve in panel.curves for dot in curve.dots)
        return list(dict.fromkeys(dot.options for dot in dots))
