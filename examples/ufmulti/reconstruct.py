"""Tracks from hits.

1. Seeds: every hit on the innermost layer with every hit on the outermost one of the same event.
   With the beam they are three points, and so one circle. It is kept if no stiffer a track than one
   of 0.45 GeV is needed and if its line along the beam starts where collisions are.
2. Roads: on each layer between, the seed takes the nearest hit, if one is near enough.
3. A seed with eight hits of ten is fitted; a bad fit is dropped.
4. No two tracks share their inner or their outer hit: the one with more hits stays, or the better.

All of it is done for thousands of events at once. Which particle made a hit is stored nowhere.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ufmulti.fitting import Ways, fit
from ufmulti.layout import RAW, TRACK, TRACKS, TURN, Z_STEP, Events
from ufmulti.ragged import Ints, spans, starts
from ufmulti.tracker import BEND, LAYERS, RADII, VERTEX_SIGMA, Floats, crossing, wrapped

TOGETHER = 2000  # events: as many as keep the work inside a processor's cache
INNER, OUTER = 0, LAYERS - 1
PT_MIN = 0.45
K_MAX = BEND / PT_MIN
Z0_MAX = 5 * VERTEX_SIGMA
ROAD_ARC = 0.6e-3  # seven sigma of what a seed foretells at worst
ROAD_Z = 5e-3
HITS_MIN = 8
CHI2_PER_FREEDOM_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Hits:
    """Hits by event, layer and angle; those of layer l of event e are at `first[10 e + l]` on."""

    first: Ints
    phi: Floats
    z: Floats

    def met(self, event: Ints, layer: int) -> tuple[Ints, Ints]:
        """Each of these events' hits on the layer: which of the given it is for, and which hit."""
        cell = event * LAYERS + layer
        return spans(self.first[cell], self.first[cell + 1])


@dataclass(frozen=True, slots=True)
class Seeds:
    """What may be a track: its event, its hit on the first and the last layer, and its circle."""

    event: Ints
    inner: Ints
    outer: Ints
    k: Floats
    phi0: Floats


def reconstruct_bodies(bodies: pa.Array) -> tuple[pa.BinaryArray, NDArray[np.bool_]]:
    """The stage: bodies of raw events to bodies of tracks, and a mask of which raw ones did read.

    >>> from ufmulti.generate import generate
    >>> tracks, readable = reconstruct_bodies(pa.concat_arrays([generate(0, 3), pa.array([b"?"])]))
    >>> len(tracks), readable.tolist()
    (3, [True, True, True, False])
    """
    events, readable = RAW.decode(bodies)
    return TRACKS.encode(reconstruct(events)), readable


def reconstruct(events: Events) -> Events:
    """The tracks of each event, the hardest first; an event without any keeps its place."""
    cuts = range(0, len(events), TOGETHER)
    parts = [found(events.part(at, min(at + TOGETHER, len(events)))) for at in cuts]
    if not parts:
        return Events(events.number, events.first, np.empty(0, TRACK))
    counts = np.concatenate([np.diff(part.first) for part in parts])
    return Events(events.number, starts(counts), np.concatenate([part.rows for part in parts]))


def found(events: Events) -> Events:
    """The tracks of events few enough to be looked at together."""
    hits = sorted_hits(events)
    seeds = made_seeds(hits, len(events))
    hit, used = followed(hits, seeds)
    long = used.sum(1) >= HITS_MIN
    event, inner, outer = seeds.event[long], seeds.inner[long], seeds.outer[long]
    ways = fit(hits.phi[hit[long]], hits.z[hit[long]], used[long], seeds.k[long], seeds.phi0[long])
    rank = np.lexsort((ways.chi2, -ways.hits))
    rank = rank[ways.chi2[rank] < CHI2_PER_FREEDOM_MAX * (2 * ways.hits[rank] - 4)]
    rank = rank[first_of_each(outer[rank])]
    rank = rank[first_of_each(inner[rank])]
    rank = rank[np.lexsort((np.abs(ways.k[rank]), event[rank]))]
    counts = np.bincount(event[rank], minlength=len(events))
    return Events(events.number, starts(counts), as_tracks(ways, rank))


def sorted_hits(events: Events) -> Hits:
    """The hits by event and layer; bodies in the generator's order are so already."""
    rows, cell = events.rows, events.owners() * LAYERS + events.rows["layer"]
    if np.any(cell[1:] < cell[:-1]):
        order = np.argsort(cell, kind="stable")
        rows, cell = rows[order], cell[order]
    first = starts(np.bincount(cell, minlength=len(events) * LAYERS))
    return Hits(first, rows["phi"] * TURN, rows["z"] * Z_STEP)


def made_seeds(hits: Hits, count: int) -> Seeds:
    """Pairs of an inner and an outer hit that one track from the beam may have made.

    The chord between the hits is seen from the beam under the angle that their `phi` differ by, so
    by the law of sines that angle's sine over the chord is one over the circle's diameter.
    """
    event, inner = hits.met(np.arange(count), INNER)
    at, outer = hits.met(event, OUTER)
    event, inner = event[at], inner[at]
    near, far = RADII[INNER], RADII[OUTER]
    turned = wrapped(hits.phi[inner] - hits.phi[outer])
    turned_max = np.arcsin(K_MAX * far) - np.arcsin(K_MAX * near)
    start = hits.z[inner] - (hits.z[outer] - hits.z[inner]) * near / (far - near)
    # the arc is longer than its radius, so this start is a little off for the softest
    good = (np.abs(turned) < turned_max) & (np.abs(start) < Z0_MAX + 0.05)
    event, inner, outer, turned = event[good], inner[good], outer[good], turned[good]
    chord = np.sqrt(near**2 + far**2 - 2 * near * far * np.cos(turned))
    k = np.sin(turned) / chord
    return Seeds(event, inner, outer, k, hits.phi[inner] + np.arcsin(k * near))


def followed(hits: Hits, seeds: Seeds) -> tuple[Ints, NDArray[np.bool_]]:
    """For each seed and layer the hit that lies on its way, and whether there is one."""
    shape = (len(seeds.event), LAYERS)
    hit, used = np.zeros(shape, np.int64), np.zeros(shape, bool)
    hit[:, INNER], hit[:, OUTER] = seeds.inner, seeds.outer
    used[:, [INNER, OUTER]] = True
    ends = fit(hits.phi[hit], hits.z[hit], used, seeds.k, seeds.phi0)
    for layer in range(INNER + 1, OUTER):
        radius = float(RADII[layer])
        phi, z = crossing(ends.k, ends.phi0, ends.z0, ends.slope, radius)
        seed, there = hits.met(seeds.event, layer)
        off = (wrapped(hits.phi[there] - phi[seed]) * radius / ROAD_ARC) ** 2
        off += ((hits.z[there] - z[seed]) / ROAD_Z) ** 2
        near = np.flatnonzero(off < 1)
        near = near[np.argsort(-off[near])]  # the nearest is written last, and stays
        hit[seed[near], layer] = there[near]
        used[seed[near], layer] = True
    return hit, used


def first_of_each(key: Ints) -> Ints:
    """Where each key occurs first, in order.

    >>> first_of_each(np.array([5, 3, 5, 4])).tolist()
    [0, 1, 3]
    """
    return np.sort(np.unique(key, return_index=True)[1])


def as_tracks(ways: Ways, which: Ints) -> np.ndarray:
    """The ways as rows of a body of tracks."""
    tracks = np.empty(len(which), TRACK)
    k = ways.k[which]
    tracks["charge"] = np.where(k < 0, -1, 1)
    tracks["pt"] = BEND / np.maximum(np.abs(k), 1e-9)
    tracks["eta"] = np.arcsinh(ways.slope[which])
    tracks["phi"], tracks["chi2"], tracks["hits"] = (
        ways.phi0[which],
        ways.chi2[which],
        ways.hits[which],
    )
    return tracks
