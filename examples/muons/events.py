"""Events as a tree of CERN's ROOT has them: a row an event, columns of numbers and of lists.

The columns are those of CMS's open data of two muons (opendata.cern.ch/record/12341), where an
event has as many muons as `nMuon` says, and each column `Muon_…` a list of so many. One event is
one item of a queue: its columns as msgpack, in their order, which any language reads.
"""

from collections.abc import Iterable

import msgspec
import numpy as np
import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("nMuon", pa.int64()),
        ("Muon_pt", pa.list_(pa.float32())),
        ("Muon_eta", pa.list_(pa.float32())),
        ("Muon_phi", pa.list_(pa.float32())),
        ("Muon_mass", pa.list_(pa.float32())),
        ("Muon_charge", pa.list_(pa.int32())),
    ]
)
COLUMNS = (
    "nMuon long, Muon_pt array<float>, Muon_eta array<float>, Muon_phi array<float>, "
    "Muon_mass array<float>, Muon_charge array<int>"
)
"""The same, in Spark's words."""
MUON_MASS = 0.10566


Event = tuple[int, list[float], list[float], list[float], list[float], list[int]]
"""One event, as it stands in a body; what does not read as one is no event."""


def packed(events: pa.RecordBatch) -> pa.Array:
    """A body for each event.

    >>> events = made(0, 1000, seed=1)
    >>> bodies = packed(events)
    >>> unpacked(bodies) == events, bodies.nbytes // 1000
    (True, 75)
    """
    columns = [column.to_pylist() for column in events.columns]
    return pa.array(map(msgspec.msgpack.encode, zip(*columns, strict=True)), pa.binary())


def unpacked(bodies: pa.Array) -> pa.RecordBatch:
    """The events of bodies. Raises for a body that is none."""
    return columns_of(map(event_of, bodies.to_pylist()))


def event_of(body: bytes) -> Event:
    """The event of one body."""
    return msgspec.msgpack.decode(body, type=Event)


def columns_of(events: Iterable[Event]) -> pa.RecordBatch:
    """Events as columns."""
    columns = list(zip(*events, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(one, field.type) for one, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def made(first: int, count: int, seed: int) -> pa.RecordBatch:
    """Events with no, one or more muons of no physics at all, where a file of real ones lacks."""
    chance = np.random.default_rng((seed, first))
    muons = chance.poisson(1.8, count)
    edges = pa.array(np.concatenate([[0], np.cumsum(muons)]), pa.int32())
    total = int(muons.sum())

    def lists(values: "np.ndarray[tuple[int], np.dtype[np.floating]]") -> pa.Array:
        return pa.ListArray.from_arrays(edges, pa.array(values.astype(np.float32)))

    charges = pa.array(chance.choice([-1, 1], total), pa.int32())
    columns = [
        pa.array(muons, pa.int64()),
        lists(3 + chance.exponential(9, total)),
        lists(chance.uniform(-2.4, 2.4, total)),
        lists(chance.uniform(-np.pi, np.pi, total)),
        lists(np.full(total, MUON_MASS)),
        pa.ListArray.from_arrays(edges, charges),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
