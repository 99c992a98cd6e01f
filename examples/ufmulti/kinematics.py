"""Two particles and the mass of what they came from. Muons are taken as massless: E is 400 times m.

For massless particles pseudorapidity and rapidity are one, so a boost along the beam by rapidity y
adds y to each eta and leaves each pT and phi.
"""

import numpy as np

from ufmulti.tracker import Floats


def pair_mass(pt: Floats, eta: Floats, phi: Floats) -> Floats:
    """The mass of pairs, from arrays whose last axis holds the two.

    >>> pair_mass(np.array([[45.6, 45.6]]), np.zeros((1, 2)), np.array([[0.0, np.pi]])).tolist()
    [91.2]
    """
    opening = np.cosh(eta[..., 0] - eta[..., 1]) - np.cos(phi[..., 0] - phi[..., 1])
    mass: Floats = np.sqrt(np.maximum(2 * pt[..., 0] * pt[..., 1] * opening, 0.0))
    return mass


def decay(mass: Floats, boost: Floats, cos: Floats, phi: Floats) -> tuple[Floats, Floats, Floats]:
    """The pT, eta and phi of the two a particle of no rapidity decays into, on a last axis of two.

    `boost` is the particle's pT, along phi = 0; `cos` and `phi` are the first one's direction in
    the particle's rest frame.

    >>> mass, boost, cos, phi = np.array([[91.2], [9.0], [0.3], [1.0]])
    >>> pt, eta, phi = decay(mass, boost, cos, phi)
    >>> pair_mass(pt, eta, phi).round(4).tolist(), (pt * np.cos(phi)).sum().round(4).tolist()
    ([91.2], 9.0)
    """
    mass, boost, cos, phi = (value[..., None] for value in (mass, boost, cos, phi))
    back = np.array([1.0, -1.0])  # the second one flies against the first
    gamma_beta = boost / mass
    sin = np.sqrt(1 - cos**2)
    px = mass / 2 * (np.sqrt(1 + gamma_beta**2) * back * sin * np.cos(phi) + gamma_beta)
    py = mass / 2 * back * sin * np.sin(phi)
    pz = mass / 2 * back * cos
    pt = np.hypot(px, py)
    return pt, np.arcsinh(pz / pt), np.arctan2(py, px)
