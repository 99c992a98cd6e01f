"""Raw events of the toy tracker, each given by its number and the seed alone.

Events are made a thousand at a time: chunk `c` draws from a Philox generator whose key is (seed,
c), so it matters not which events are asked for, in which order or by how many machines. First of
all each chunk draws what kind its events are and what the decays look like, so the truth is told
without making the hits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.random import Generator, Philox
from numpy.typing import NDArray

from ufmulti import world
from ufmulti.kinematics import decay
from ufmulti.layout import HIT, RAW, Z_STEP, Events, angle_code
from ufmulti.ragged import Ints, starts
from ufmulti.tracker import (
    HALF_LENGTH,
    HIT_EFFICIENCY,
    LAYERS,
    NOISE_MEAN,
    RADII,
    SIGMA_ARC,
    SIGMA_Z,
    VERTEX_SIGMA,
    Floats,
    crossing,
    curvature,
)

CHUNK = 1000


@dataclass(frozen=True, slots=True)
class Columns:
    """Equally long columns, one row a thing."""

    @classmethod
    def joined(cls, parts: list[Self]) -> Self:
        """The rows of all parts."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def taken(self, rows: np.ndarray) -> Self:
        """The rows at these indices, or under this mask."""
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Decays(Columns):
    """The decays that were made: the first muon is the positive one; `pt`, `eta`, `phi` are n x 2.

    `number` is the event's; `mass` is the mass that the particle had.
    """

    number: NDArray[np.uint64]
    mass: Floats
    pt: Floats
    eta: Floats
    phi: Floats


@dataclass(frozen=True, slots=True)
class Particles(Columns):
    """Charged particles; `event` is the index of each one's event."""

    event: Ints
    charge: NDArray[np.int8]
    pt: Floats
    eta: Floats
    phi: Floats


@dataclass(frozen=True, slots=True)
class Marks(Columns):
    """Where something was seen: a hit before it is stored."""

    event: Ints
    layer: Ints
    phi: Floats
    z: Floats


def generate(first: int, count: int, seed: int = 1) -> pa.BinaryArray:
    """The raw bodies of `count` events from number `first` on.

    >>> bodies = generate(990, 20)
    >>> len(bodies), bodies[3:].equals(generate(993, 17))
    (20, True)
    """
    parts = []
    for chunk, start, stop in chunks(first, count):
        rng = chunk_rng(seed, chunk)
        parts.append(RAW.encode(chunk_events(rng, chunk).part(start, stop)))
    return pa.concat_arrays(parts) if parts else pa.array([], pa.binary())


def truth(first: int, count: int, seed: int = 1) -> Decays:
    """The decays that `generate` puts into the same events; about one event in fifty holds one.

    >>> decays = truth(0, 1000)
    >>> len(decays.number), decays.pt.shape
    (..., (..., 2))
    """
    parts = [Decays(np.empty(0, np.uint64), np.empty(0), *np.empty((3, 0, 2)))]
    for chunk, start, stop in chunks(first, count):
        _, decays = happenings(chunk_rng(seed, chunk), chunk)
        at = decays.number.astype(np.int64) - chunk * CHUNK
        parts.append(decays.taken((at >= start) & (at < stop)))
    return Decays.joined(parts)


def chunks(first: int, count: int) -> Iterator[tuple[int, int, int]]:
    """The chunks that hold the events: each one's number and which part of it is asked for.

    >>> list(chunks(1999, 3))
    [(1, 999, 1000), (2, 0, 2)]
    """
    if first < 0 or count < 0:
        raise ValueError(f"events {first} to {first + count}: both are counted from 0 up")
    for chunk in range(first // CHUNK, -(-(first + count) // CHUNK)):
        begin = chunk * CHUNK
        yield chunk, max(first - begin, 0), min(first + count - begin, CHUNK)


def chunk_rng(seed: int, chunk: int) -> Generator:
    """The chance of one chunk, which no other chunk shares."""
    return Generator(Philox(key=np.array([seed, chunk], np.uint64)))


def happenings(rng: Generator, chunk: int) -> tuple[Ints, Decays]:
    """Which of the chunk's events hold a hard scatter, and its decays. The first that is drawn."""
    kind = rng.random(CHUNK)
    held = np.flatnonzero(kind < world.DECAY_SHARE)
    scattered = np.flatnonzero(
        (kind >= world.DECAY_SHARE) & (kind < world.DECAY_SHARE + world.SCATTER_SHARE)
    )
    low, high = (np.arctan(2 * (edge - world.MASS) / world.WIDTH) for edge in world.MASS_RANGE)
    mass = world.MASS + world.WIDTH / 2 * np.tan(rng.uniform(low, high, len(held)))
    boost = rng.exponential(world.BOOST_MEAN, len(held))
    cos, phi = rng.uniform(-1, 1, len(held)), rng.uniform(-np.pi, np.pi, len(held))
    pt, eta, phi = decay(mass, boost, cos, phi)
    rapidity = rng.uniform(-world.RAPIDITY_MAX, world.RAPIDITY_MAX, (len(held), 1))
    turn = rng.uniform(-np.pi, np.pi, (len(held), 1))
    number = (chunk * CHUNK + held).astype(np.uint64)
    return scattered, Decays(number, mass, pt, eta + rapidity, phi + turn)


def chunk_events(rng: Generator, chunk: int) -> Events:
    """All events of a chunk."""
    scattered, decays = happenings(rng, chunk)
    particles = Particles.joined([muons(decays, chunk), scatters(rng, scattered), soft_tracks(rng)])
    z0 = rng.normal(0.0, VERTEX_SIGMA, CHUNK)
    marks = Marks.joined([seen(rng, particles, z0), noise(rng)])
    number = np.arange(chunk * CHUNK, (chunk + 1) * CHUNK, dtype=np.uint64)
    return stored(number, marks)


def muons(decays: Decays, chunk: int) -> Particles:
    """The two muons of each decay."""
    event = np.repeat(decays.number.astype(np.int64) - chunk * CHUNK, 2)
    charge = np.tile(np.array([1, -1], np.int8), len(decays.number))
    return Particles(event, charge, *(v.reshape(-1) for v in (decays.pt, decays.eta, decays.phi)))


def scatters(rng: Generator, event: Ints) -> Particles:
    """Two tracks back to back and of equal pT, whose charges know nothing of each other."""
    count = len(event)
    pt = world.SCATTER_PT_MIN * (1 - rng.random(count)) ** (-1 / world.SCATTER_POWER)
    phi = rng.uniform(-np.pi, np.pi, count)
    return Particles(
        np.repeat(event, 2),
        rng.choice(np.array([1, -1], np.int8), 2 * count),
        np.repeat(pt, 2),
        rng.uniform(-world.ETA_MAX, world.ETA_MAX, 2 * count),
        np.stack([phi, phi + np.pi], -1).reshape(-1),
    )


def soft_tracks(rng: Generator) -> Particles:
    """The many soft tracks that every event has, whose pT falls steeply."""
    event = np.repeat(np.arange(CHUNK), rng.poisson(world.SOFT_MEAN, CHUNK))
    count = len(event)
    fall = (1 - rng.random(count)) ** (-1 / world.SOFT_POWER) - 1
    return Particles(
        event,
        rng.choice(np.array([1, -1], np.int8), count),
        world.SOFT_PT_MIN + world.SOFT_PT_SCALE * fall,
        rng.uniform(-world.ETA_MAX, world.ETA_MAX, count),
        rng.uniform(-np.pi, np.pi, count),
    )


def seen(rng: Generator, particles: Particles, z0: Floats) -> Marks:
    """What the layers see of the particles: smeared, now and then missed, cut at the ends."""
    k = curvature(particles.charge, particles.pt)[:, None]
    slope = np.sinh(particles.eta)[:, None]
    phi, z = crossing(k, particles.phi[:, None], z0[particles.event][:, None], slope, RADII)
    met = (np.abs(z) < HALF_LENGTH) & (rng.random(z.shape) < HIT_EFFICIENCY)
    phi = phi + rng.normal(0.0, SIGMA_ARC, phi.shape) / RADII
    z = z + rng.normal(0.0, SIGMA_Z, z.shape)
    particle, layer = np.nonzero(met)
    return Marks(particles.event[particle], layer, phi[met], z[met])


def noise(rng: Generator) -> Marks:
    """Hits that nothing made, anywhere on any layer."""
    event = np.repeat(np.arange(CHUNK), rng.poisson(NOISE_MEAN, CHUNK))
    count = len(event)
    phi = rng.uniform(-np.pi, np.pi, count)
    z = rng.uniform(-HALF_LENGTH, HALF_LENGTH, count)
    return Marks(event, rng.integers(0, LAYERS, count), phi, z)


def stored(number: NDArray[np.uint64], marks: Marks) -> Events:
    """The marks as events' hits, by layer and angle: their order tells nothing of the tracks."""
    rows = np.empty(len(marks.event), HIT)
    rows["layer"], rows["phi"] = marks.layer, angle_code(marks.phi)
    rows["z"] = np.round(marks.z / Z_STEP)
    order = np.lexsort((rows["phi"], rows["layer"], marks.event))
    return Events(number, starts(np.bincount(marks.event, minlength=len(number))), rows[order])
