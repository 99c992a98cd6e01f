"""The test: an event passes with two hard tracks of opposite charge and a mass in the window."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ufmulti.kinematics import pair_mass
from ufmulti.layout import PAIR, PAIRS, TRACKS, Events
from ufmulti.ragged import spans, starts

PT_CUT = 20.0
ETA_CUT = 1.5
WINDOW = (60.0, 120.0)


def select_bodies(bodies: pa.Array) -> tuple[pa.BinaryArray, NDArray[np.bool_]]:
    """The stage: bodies of tracks to bodies of pairs, and a mask of which did read.

    Only events that pass the test have a body of a pair, so there are far fewer.

    >>> from ufmulti.generate import generate
    >>> from ufmulti.reconstruct import reconstruct_bodies
    >>> kept, readable = select_bodies(reconstruct_bodies(generate(0, 1000))[0])
    >>> len(kept) < 50, readable.sum().item()
    (True, 1000)
    """
    events, readable = TRACKS.decode(bodies)
    return PAIRS.encode(select(events)), readable


def select(events: Events) -> Events:
    """The events that pass, each with one pair, the positive track first.

    Of several pairs in one event the one with the largest sum of pT is told, not the one nearest to
    the mass looked for: that choice would draw a peak out of nothing.
    """
    rows, owners = events.rows, events.owners()
    hard = (rows["pt"] > PT_CUT) & (np.abs(rows["eta"]) < ETA_CUT)
    plus = np.flatnonzero(hard & (rows["charge"] > 0))
    minus = np.flatnonzero(hard & (rows["charge"] < 0))
    first = starts(np.bincount(owners[minus], minlength=len(events)))
    event = owners[plus]
    at, other = spans(first[event], first[event + 1])
    pairs = as_pairs(rows[np.stack([plus[at], minus[other]], -1)])
    event = event[at]
    kept = np.flatnonzero((pairs["mass"] > WINDOW[0]) & (pairs["mass"] < WINDOW[1]))
    kept = kept[np.lexsort((-pairs["pt"][kept].sum(1), event[kept]))]
    event, best = np.unique(event[kept], return_index=True)
    return Events(events.number[event], np.arange(len(event) + 1), pairs[kept[best]])


def as_pairs(two: np.ndarray) -> np.ndarray:
    """Pairs, from an n x 2 array of tracks."""
    pairs = np.empty(len(two), PAIR)
    for name in ("pt", "eta", "phi"):
        pairs[name] = two[name]
    pt, eta, phi = (two[name].astype(np.float64) for name in ("pt", "eta", "phi"))
    pairs["mass"] = pair_mass(pt, eta, phi)
    return pairs


def pairs_table(bodies: pa.Array) -> tuple[pa.Table, NDArray[np.bool_]]:
    """Bodies of pairs as the table that is written to Parquet, and a mask of which did read.

    >>> pairs_table(pa.array([], pa.binary()))[0].column_names
    ['event', 'mass', 'plus_pt', 'plus_eta', 'plus_phi', 'minus_pt', 'minus_eta', 'minus_phi']
    """
    events, readable = PAIRS.decode(bodies)
    rows = events.rows  # a body of a pair has just one
    columns = {"event": events.number, "mass": np.ascontiguousarray(rows["mass"])}
    for side, name in enumerate(("plus", "minus")):
        for what in ("pt", "eta", "phi"):
            columns[f"{name}_{what}"] = np.ascontiguousarray(rows[what][:, side])
    return pa.table(columns), readable
