"""The tracker: ten cylinders round the beam in a field along it, and the way of a charged particle.

Lengths are metres, momenta GeV, the field tesla. A particle starts on the beam at height `z0`. Seen
along the beam its way is a circle through the origin, so at radius `r` it has turned by
`asin(k r)`, where `k = q 0.15 B / pT` is half the circle's curvature; its height grows with the
length of the arc.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LAYERS = 10
RADII = np.arange(2, 2 + LAYERS) / 10
HALF_LENGTH = 2.6
FIELD = 2.0
SIGMA_ARC = 50e-6
SIGMA_Z = 0.5e-3
HIT_EFFICIENCY = 0.98
NOISE_MEAN = 8.0
VERTEX_SIGMA = 0.05
BEND = 0.299792458 * FIELD / 2


def curvature(charge: NDArray[np.integer], pt: Floats) -> Floats:
    """Half the curvature of the way, with the charge's sign.

    >>> curvature(np.array([1, -1]), np.array([0.5, 50.0])).round(4).tolist()
    [0.5996, -0.006]
    """
    return BEND * charge / pt


def arc(k: Floats, radius: Floats | float) -> Floats:
    """The length of the way, seen along the beam, from the beam to the radius: at least the radius.

    >>> arc(np.array([0.0, 0.5996]), 1.0).round(4).tolist()
    [1.0, 1.0724]
    """
    bent = k * radius
    straight = np.abs(bent) < 1e-9
    safe = np.where(straight, 1.0, bent)
    return radius * np.where(straight, 1.0, np.arcsin(safe) / safe)


def crossing(
    k: Floats, phi0: Floats, z0: Floats, slope: Floats, radius: Floats | float
) -> tuple[Floats, Floats]:
    """The angle and the height at which the way crosses the radius; `slope` is sinh(eta).

    >>> one = np.ones(1)
    >>> phi, z = crossing(0.1 * one, 0.5 * one, 0.0 * one, 2.0 * one, 1.0)
    >>> phi.round(4).tolist(), z.round(4).tolist()
    ([0.3998], [2.0033])
    """
    return phi0 - np.arcsin(k * radius), z0 + slope * arc(k, radius)


def wrapped(angle: Floats) -> Floats:
    """The same angle between -pi and pi.

    >>> wrapped(np.array([6.5, -3.5])).round(4).tolist()
    [0.2168, 2.7832]
    """
    return angle - 2 * np.pi * np.round(angle / (2 * np.pi))
