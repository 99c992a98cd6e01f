"""The way of a particle from its hits: least squares for many tracks at once.

Tracks are rows, layers are columns; `used` says which hits there are. A way starts on the beam,
which leaves two numbers in the bending plane, the direction there and the half curvature k, and two
along the beam, the height and the slope. Both are fits of two unknowns, solved by Cramer's rule.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ufmulti.tracker import RADII, SIGMA_ARC, SIGMA_Z, Floats, arc, wrapped

STEPS = 2  # of Newton; from a seed's curvature the second changes nothing one could measure
BENT_MAX = 0.999


@dataclass(frozen=True, slots=True)
class Ways:
    """Fitted ways, one row each. `chi2` is over `hits` x 2 measurements less four unknowns."""

    k: Floats
    phi0: Floats
    z0: Floats
    slope: Floats
    chi2: Floats
    hits: NDArray[np.int64]


def fit(phi: Floats, z: Floats, used: NDArray[np.bool_], k: Floats, phi0: Floats) -> Ways:
    """Fits the ways near a first guess of their half curvature and direction.

    >>> from ufmulti.tracker import crossing
    >>> true = np.array([[-0.01], [0.4], [0.02], [1.5]])
    >>> phi, z = crossing(*true[..., None], RADII)
    >>> ways = fit(phi, z, np.ones((1, 10), bool), np.array([-0.02]), np.array([0.41]))
    >>> [float(value[0].round(6)) for value in (ways.k, ways.phi0, ways.z0, ways.slope, ways.chi2)]
    [-0.01, 0.4, 0.02, 1.5, 0.0]
    """
    weight = used * (RADII / SIGMA_ARC) ** 2
    for _ in range(STEPS):
        bent = np.clip(k[:, None] * RADII, -BENT_MAX, BENT_MAX)
        missed = wrapped(phi - phi0[:, None] + np.arcsin(bent))
        more_phi0, more_k = line(-RADII / np.sqrt(1 - bent**2), missed, weight)
        phi0, k = phi0 + more_phi0, k + more_k
    bent = np.clip(k[:, None] * RADII, -BENT_MAX, BENT_MAX)
    missed = wrapped(phi - phi0[:, None] + np.arcsin(bent))
    chi2 = (weight * missed**2).sum(1)
    length = arc(bent / RADII, RADII)
    weight = used / np.full(len(RADII), SIGMA_Z**2)
    z0, slope = line(length, z, weight)
    chi2 += (weight * (z - z0[:, None] - slope[:, None] * length) ** 2).sum(1)
    return Ways(k, wrapped(phi0), z0, slope, chi2, used.sum(1))


def line(x: Floats, y: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """The level and the slope of the line through each row's points."""
    weighted = weight * x
    s, sx, sxx = weight.sum(1), weighted.sum(1), (weighted * x).sum(1)
    sy, sxy = (weight * y).sum(1), (weighted * y).sum(1)
    area = s * sxx - sx**2
    return (sxx * sy - sx * sxy) / area, (s * sxy - sx * sy) / area


def curvature_sigma() -> float:
    """How exactly the fit of ten hits knows k of a nearly straight way, per metre.

    It is the closed form of the fit: with w = (r / sigma)^2, var k = S0 / (S0 S2 - S1^2), where Sn
    is the sum of w r^n over the layers.

    >>> round(curvature_sigma(), 6)
    0.000102
    """
    weight = (RADII / SIGMA_ARC) ** 2
    s0, s1, s2 = (float((weight * RADII**power).sum()) for power in range(3))
    return float(np.sqrt(s0 / (s0 * s2 - s1**2)))
