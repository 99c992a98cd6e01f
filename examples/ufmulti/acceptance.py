"""How many decays must be found, worked out without an event: the README tells each step in words.

Nothing here is fitted to what the reconstruction gives. The decays' share is a sum over all ways a
decay can point, on a grid of midpoints; the background's is one over the difference of two etas.
"""

from dataclasses import dataclass
from functools import cache
from math import atan, comb, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from ufmulti import world
from ufmulti.fitting import curvature_sigma
from ufmulti.generate import Decays
from ufmulti.kinematics import decay
from ufmulti.pairs import ETA_CUT, PT_CUT, WINDOW
from ufmulti.reconstruct import HITS_MIN
from ufmulti.tracker import BEND, HIT_EFFICIENCY, LAYERS, Floats

KNOTS = np.linspace(*WINDOW, 13)  # masses at which the acceptance is worked out; smooth between
FINE = np.linspace(*WINDOW, 1201)


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a run over so many events must give, each number with the spread that chance allows."""

    made: float
    made_sigma: float
    accepted: float
    accepted_sigma: float
    found: float
    found_sigma: float
    background: float
    background_sigma: float


def expected(events: int) -> Expectation:
    """What is expected of the first that many events, or of any.

    `made` are decays, `accepted` those whose muons the tracker and the test can take, `found` those
    that the test keeps, `background` the events it keeps that hold no decay. Each event holds a
    decay or not by itself, so all are binomial.

    >>> full = expected(100_000)
    >>> print(f"{full.found:.0f} +- {full.found_sigma:.0f} of {full.made:.0f}")
    1029 +- 32 of 2000
    >>> print(f"{full.background:.0f} +- {full.background_sigma:.0f}")
    716 +- 27
    """
    made = world.DECAY_SHARE
    accepted = made * decay_acceptance()
    found = accepted * track_efficiency() ** 2
    shares = (made, accepted, found, background_share())
    return Expectation(
        *(value for share in shares for value in (events * share, spread(events, share)))
    )


def expected_of(made: int) -> tuple[float, float]:
    """How many of so many made decays must be found, and the spread that is left to chance.

    >>> found, sigma = expected_of(2009)
    >>> print(f"{found:.0f} +- {sigma:.0f}")
    1033 +- 22
    """
    share = decay_acceptance() * track_efficiency() ** 2
    return made * share, spread(made, share)


def spread(trials: int, share: float) -> float:
    """The standard deviation of a binomial count."""
    return sqrt(trials * share * (1 - share))


def accepted(decays: Decays) -> NDArray[np.bool_]:
    """Which of the made decays have a mass and two muons that the test can take.

    >>> from ufmulti.generate import truth
    >>> decays = truth(0, 10_000)
    >>> bool(0.5 < accepted(decays).mean() < 0.65)
    True
    """
    inside = (decays.mass > WINDOW[0]) & (decays.mass < WINDOW[1])
    mask: NDArray[np.bool_] = (
        inside & (decays.pt > PT_CUT).all(1) & (np.abs(decays.eta) < ETA_CUT).all(1)
    )
    return mask


def track_efficiency() -> float:
    """The chance that a track through all ten layers is found.

    Its first and its last hit must be there, for they make the seed, and six of the eight between.

    >>> round(track_efficiency(), 4)
    0.96
    """
    between, wanted = LAYERS - 2, HITS_MIN - 2
    hit, miss = HIT_EFFICIENCY, 1 - HIT_EFFICIENCY
    enough = sum(
        comb(between, n) * hit**n * miss ** (between - n) for n in range(wanted, between + 1)
    )
    return hit**2 * enough


def decay_acceptance() -> float:
    """The share of decays that `accepted` takes.

    >>> round(decay_acceptance(), 3)
    0.558
    """
    return float(np.trapezoid(breit_wigner(FINE) * pointing(FINE), FINE))


def breit_wigner(mass: Floats) -> Floats:
    """The density of the decaying particle's mass, which is cut off at the ends of its range."""
    half = world.WIDTH / 2
    low, high = (atan((edge - world.MASS) / half) for edge in world.MASS_RANGE)
    density: Floats = half / ((mass - world.MASS) ** 2 + half**2) / (high - low)
    return density


def window_share() -> float:
    """The share of the decaying particle's masses that lie in the window.

    >>> round(window_share(), 4)
    0.9847
    """
    half = world.WIDTH / 2
    low, high = (atan((edge - world.MASS) / half) for edge in world.MASS_RANGE)
    left, right = (atan((edge - world.MASS) / half) for edge in WINDOW)
    return (right - left) / (high - low)


def pointing(mass: Floats) -> Floats:
    """The chance that a decay of this mass has both muons above the pT and within the eta cut."""
    chances: Floats = np.interp(mass, KNOTS, decay_grid()[0])
    return chances


def mass_sigma() -> float:
    """The spread of a found pair's mass round the true one at the peak, in GeV.

    sigma(pT)/pT = pT sigma(k) / (0.15 B), and a mass spreads by half of both relative spreads added
    in quadrature; this is the root of the mean square over the accepted decays.

    >>> round(mass_sigma(), 2)
    0.92
    """
    return float(np.interp(world.MASS, KNOTS, decay_grid()[1]))


@cache
def decay_grid() -> tuple[Floats, Floats]:
    """At each knot's mass: the chance that both muons are accepted, and how their mass spreads.

    The sum runs over the boost and the direction in the rest frame. The particle's rapidity y moves
    both muons' eta alike, so the chance that it leaves both inside needs no grid: it is how much of
    [-1.5 - min(eta), 1.5 - max(eta)] lies in the range of y, over that range.
    """
    boost = -world.BOOST_MEAN * np.log(1 - middles(24))[:, None, None]
    cos = (2 * middles(96) - 1)[:, None]
    phi = pi * middles(24)
    chances, sigmas = [], []
    for mass in KNOTS:
        pt, eta, _ = decay(np.full((1, 1, 1), mass), boost, cos, phi)
        low = np.maximum(-ETA_CUT - eta.min(-1), -world.RAPIDITY_MAX)
        high = np.minimum(ETA_CUT - eta.max(-1), world.RAPIDITY_MAX)
        inside = np.maximum(high - low, 0) / (2 * world.RAPIDITY_MAX) * (pt.min(-1) > PT_CUT)
        blur = mass / 2 * np.sqrt((pt**2).sum(-1)) * curvature_sigma() / BEND
        chances.append(inside.mean())
        sigmas.append(sqrt((inside * blur**2).sum() / inside.sum()))
    return np.array(chances), np.array(sigmas)


def middles(count: int) -> Floats:
    """The middles of so many equal parts of 0 to 1.

    >>> middles(4).tolist()
    [0.125, 0.375, 0.625, 0.875]
    """
    return (np.arange(count) + 0.5) / count


def background_share() -> float:
    """The share of events that hold no decay and yet pass: hard scatters of opposite charges.

    >>> round(background_share(), 5)
    0.00716
    """
    return float(np.trapezoid(background_density(FINE), FINE))


def background_density(mass: Floats) -> Floats:
    """The share of events that pass by a hard scatter, per GeV of the pair's mass.

    Two tracks of equal pT back to back have the mass 2 pT cosh(d / 2), d being the difference of
    their etas; within the eta cut d falls off like a triangle.
    """
    reach = 2 * ETA_CUT
    d = reach * middles(600)[:, None]
    weight = 2 * (reach - d) / reach**2 * (reach / len(d))
    per_pt = 2 * np.cosh(d / 2)
    pt = mass / per_pt
    falling = world.SCATTER_POWER / pt * (world.SCATTER_PT_MIN / pt) ** world.SCATTER_POWER
    shape = (weight * falling / per_pt * (pt > max(PT_CUT, world.SCATTER_PT_MIN))).sum(0)
    opposite, both_inside = 0.5, (ETA_CUT / world.ETA_MAX) ** 2
    share = world.SCATTER_SHARE * opposite * both_inside * track_efficiency() ** 2
    density: Floats = share * shape
    return density
