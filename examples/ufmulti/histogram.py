"""The masses of the pairs kept, as a picture with the peak, what was expected, and a fit."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ufmulti import world
from ufmulti.acceptance import (
    FINE,
    background_density,
    breit_wigner,
    expected,
    mass_sigma,
    pointing,
    track_efficiency,
)
from ufmulti.pairs import WINDOW
from ufmulti.tracker import Floats

EDGES = np.linspace(*WINDOW, 61)
SHIFTS = np.linspace(-2.0, 2.0, 201)
ROUNDS = 200
MASSES_MIN = 30  # fewer make no peak that a fit could find

INK, SEEN, PEAK, UNDER = "#1f2933", "#1f2933", "#0b6e4f", "#9aa5b1"


@dataclass(frozen=True, slots=True)
class Peak:
    """Where a fit finds the peak, how sure it is, and how many pairs lie in it and under it."""

    position: float
    sigma: float
    decays: float
    background: float


def decay_density(mass: Floats) -> Floats:
    """The share of events found by a decay, per GeV of the found mass: blurred by the tracker."""
    step = FINE[1] - FINE[0]
    true = world.DECAY_SHARE * breit_wigner(FINE) * pointing(FINE) * track_efficiency() ** 2
    reach = np.arange(-60, 61) * step
    blur = np.exp(-0.5 * (reach / mass_sigma()) ** 2)
    density: Floats = np.interp(mass, FINE, np.convolve(true, blur / blur.sum(), "same"))
    return density


def find_peak(masses: Floats) -> Peak | None:
    """The most likely position, and shares of decays and background; None for too few masses.

    At each of many positions the two shares are raised to the most likely ones, all positions at
    once; the likelihood along them is a parabola near its top.

    >>> find_peak(np.array([91.2])) is None
    True
    """
    if len(masses) < MASSES_MIN:
        return None
    counts = np.histogram(masses, EDGES)[0]
    under = in_bins(background_density(FINE), np.zeros(1))
    peaks = in_bins(decay_density(FINE), SHIFTS)
    shares = np.full((len(SHIFTS), 2), 0.5)
    for _ in range(ROUNDS):
        of_peak = shares[:, :1] * peaks
        of_peak = of_peak / (of_peak + shares[:, 1:] * under)
        share = (counts * of_peak).sum(1) / counts.sum()
        shares = np.stack([share, 1 - share], -1)
    likely = (counts * np.log(shares[:, :1] * peaks + shares[:, 1:] * under)).sum(1)
    top = int(np.argmax(likely))
    near = slice(max(top - 10, 0), top + 11)
    bend, tilt, _ = np.polyfit(SHIFTS[near], likely[near] - likely[top], 2)
    if bend >= 0:
        return None
    decays = float(shares[top, 0] * counts.sum())
    position = world.MASS - tilt / (2 * bend)
    return Peak(
        float(position), float(np.sqrt(-1 / (2 * bend))), decays, float(counts.sum()) - decays
    )


def in_bins(density: Floats, shifts: Floats) -> Floats:
    """How the density falls into the bins when moved by each shift; each row sums to one."""
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    filled = np.diff(np.interp(EDGES - shifts[:, None], FINE, below), axis=1) + 1e-12 * below[-1]
    shares: Floats = filled / filled.sum(1, keepdims=True)
    return shares


def draw(path: Path, masses: Floats, events: int) -> Peak | None:
    """Writes the picture of the pairs kept out of so many events; returns the fitted peak.

    The curves are what `acceptance` expects of that many events: nothing in them is fitted.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw(Path(folder, "peak.png"), np.array([91.0, 75.0]), 100)
    """
    peak, foreseen = find_peak(masses), expected(events)
    counts = np.histogram(masses, EDGES)[0]
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    axes = figure.subplots()
    under = events * background_density(FINE)
    full = under + events * decay_density(FINE)
    axes.fill_between(
        FINE,
        under,
        full,
        color=PEAK,
        alpha=0.22,
        linewidth=0,
        label=f"decays expected: {foreseen.found:,.0f} ± {foreseen.found_sigma:.0f}",
    )
    axes.fill_between(
        FINE,
        under,
        color=UNDER,
        alpha=0.45,
        linewidth=0,
        label=f"background expected: {foreseen.background:,.0f} ± {foreseen.background_sigma:.0f}",
    )
    axes.plot(FINE, full, color=PEAK, linewidth=1.6)
    middle, some = (EDGES[1:] + EDGES[:-1]) / 2, counts > 0
    axes.errorbar(
        middle[some],
        counts[some],
        np.sqrt(counts[some]),
        fmt="o",
        color=SEEN,
        markersize=3.6,
        linewidth=1.0,
        label=f"pairs found: {len(masses):,}",
        zorder=3,
    )
    title = f"{events:,} events, {len(masses):,} pairs"
    if peak is not None:
        title += f", a peak at {peak.position:.2f} ± {peak.sigma:.2f} GeV"
    axes.set_title(title, fontsize=13, fontweight="bold", color=INK, loc="left")
    axes.axvline(world.MASS, color=PEAK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    axes.annotate(
        f"made at {world.MASS} GeV",
        (world.MASS, 0.97),
        (7, 0),
        color=PEAK,
        fontsize=9,
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        va="top",
    )
    axes.set(xlim=WINDOW, ylim=(0, 1.22 * max(float(full.max()), float(counts.max()), 1.0)))
    axes.set_xlabel("mass of the pair of opposite charge, GeV", color=INK)
    axes.set_ylabel("events per GeV", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="y", color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], frameon=False, loc="upper left")
    figure.savefig(path, dpi=110)
    return peak
