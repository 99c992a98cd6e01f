"""An event as one short binary body, and many bodies as flat columns, in one copy.

A body is a head of 16 bytes and its rows, packed, little-endian:

    offset 0   2 bytes   b"UF"
           2   1 byte    what the rows are: b"R" raw hits, b"T" tracks, b"P" a pair
           3   1 byte    version, 1
           4   u32       how many rows: at most 1024, and just one pair
           8   u64       event number
          16   the rows  7 bytes a hit, 18 a track, 28 a pair

A body reads if it is there (not null), starts as said, and is just as long as its count says; of
raw hits, every layer must also be one of the tracker's. `decode` never raises for a body that does
not read: it leaves that one out and tells by a mask which were read, so that a stage counts the
others and goes on.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ufmulti.ragged import Ints, starts
from ufmulti.tracker import LAYERS

VERSION = 1
ROWS_MAX = 1024
BYTES_MAX = 2**31 - 1  # what the offsets of a BinaryArray reach
TURN = 2 * np.pi / 2**32  # an angle is stored as a share of the full turn: it wraps by itself
Z_STEP = 1e-4

HEAD = np.dtype(
    [("magic", "S2"), ("kind", "S1"), ("version", "u1"), ("rows", "<u4"), ("number", "<u8")]
)
HIT = np.dtype([("layer", "u1"), ("phi", "<u4"), ("z", "<i2")])
TRACK = np.dtype(
    [
        ("charge", "i1"),
        ("hits", "u1"),
        ("pt", "<f4"),
        ("eta", "<f4"),
        ("phi", "<f4"),
        ("chi2", "<f4"),
    ]
)
PAIR = np.dtype([("mass", "<f4"), ("pt", "<f4", 2), ("eta", "<f4", 2), ("phi", "<f4", 2)])


@dataclass(frozen=True, slots=True)
class Events:
    """Events and their rows: those of event `i` are `rows[first[i] : first[i + 1]]`."""

    number: NDArray[np.uint64]
    first: Ints
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.number)

    def owners(self) -> Ints:
        """For each row, which of the events it is of."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    def part(self, start: int, stop: int) -> "Events":
        """The events from `start` up to `stop`, as a view."""
        first = self.first[start : stop + 1]
        return Events(self.number[start:stop], first - first[0], self.rows[first[0] : first[-1]])


@dataclass(frozen=True, slots=True)
class Layout:
    """One kind of body.

    >>> hits = np.array([(0, angle_code(1.0), 500), (9, angle_code(1.1), -20)], HIT)
    >>> events = Events(np.array([7, 8], np.uint64), np.array([0, 2, 2]), hits)
    >>> bodies = RAW.encode(events)
    >>> [len(body.as_py()) for body in bodies]
    [30, 16]
    >>> back, readable = RAW.decode(bodies)
    >>> back.number.tolist(), back.first.tolist(), readable.tolist()
    ([7, 8], [0, 2, 2], [True, True])
    >>> RAW.decode(pa.array([b"UFR", None, bodies[1].as_py()], pa.binary()))[1].tolist()
    [False, False, True]
    """

    kind: bytes
    row: np.dtype[np.void]
    rows_min: int = 0
    rows_max: int = ROWS_MAX

    def encode(self, events: Events) -> pa.BinaryArray:
        """One body for each event. Raises ValueError for what a body or an array cannot hold."""
        counts = np.diff(events.first)
        wrong = counts[(counts < self.rows_min) | (counts > self.rows_max)]
        if len(wrong):
            allowed = f"{self.rows_min} to {self.rows_max}"
            raise ValueError(f"an event of {wrong[0]} rows: a {self.kind!r} body holds {allowed}")
        offsets = starts(HEAD.itemsize + counts * self.row.itemsize)
        if offsets[-1] > BYTES_MAX:
            raise ValueError(f"{offsets[-1]} bytes in one array: encode fewer events at a time")
        data = np.empty(offsets[-1], np.uint8)
        at_head = offsets[:-1, None] + np.arange(HEAD.itemsize)
        data[at_head] = as_bytes(self._heads(events.number, counts)).reshape(at_head.shape)
        in_rows = np.ones(len(data), bool)
        in_rows[at_head] = False
        data[in_rows] = as_bytes(events.rows)
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), len(events), buffers)

    def decode(self, bodies: pa.Array) -> tuple[Events, NDArray[np.bool_]]:
        """The events of the bodies that read, and a mask over all bodies of which did.

        The array may be binary or large_binary, a slice, empty, and hold nulls. Its buffers are
        read where they lie; the rows are copied once.
        """
        offsets, data = buffers_of(bodies)
        lengths = np.diff(offsets)
        readable = valid(bodies) & (lengths >= HEAD.itemsize)
        heads = np.zeros(len(bodies), HEAD)
        at_head = offsets[:-1][readable, None] + np.arange(HEAD.itemsize)
        heads[readable] = data[at_head].view(HEAD)[:, 0]
        readable &= self._fits(heads, lengths)
        in_rows = np.repeat(readable, lengths)
        at_head = offsets[:-1][readable, None] + np.arange(HEAD.itemsize) - offsets[0]
        in_rows[at_head] = False
        rows = data[offsets[0] : offsets[-1]][in_rows].view(self.row)
        heads = heads[readable]
        events = Events(heads["number"].copy(), starts(heads["rows"].astype(np.int64)), rows)
        return (events, readable) if self.row != HIT else on_layers(events, readable)

    def _heads(self, number: NDArray[np.uint64], counts: Ints) -> np.ndarray:
        heads = np.empty(len(number), HEAD)
        heads["magic"], heads["kind"], heads["version"] = b"UF", self.kind, VERSION
        heads["rows"], heads["number"] = counts, number
        return heads

    def _fits(self, heads: np.ndarray, lengths: Ints) -> NDArray[np.bool_]:
        fits: NDArray[np.bool_] = (
            (heads["magic"] == b"UF")
            & (heads["kind"] == self.kind)
            & (heads["version"] == VERSION)
            & (heads["rows"] >= self.rows_min)
            & (heads["rows"] <= self.rows_max)
            & (lengths == HEAD.itemsize + heads["rows"].astype(np.int64) * self.row.itemsize)
        )
        return fits


RAW = Layout(b"R", HIT)
TRACKS = Layout(b"T", TRACK)
PAIRS = Layout(b"P", PAIR, 1, 1)


def angle_code(angle: NDArray[np.float64] | float) -> NDArray[np.uint32]:
    """An angle in radians, of any turn, as it is stored.

    >>> angle_code(np.array([0.0, np.pi, -np.pi, 2 * np.pi])).tolist()
    [0, 2147483648, 2147483648, 0]
    """
    code: NDArray[np.uint32] = np.round(np.asarray(angle) / TURN).astype(np.int64).astype(np.uint32)
    return code


def as_bytes(rows: np.ndarray) -> NDArray[np.uint8]:
    """The bytes of packed rows, where they lie."""
    return np.ascontiguousarray(rows).view(np.uint8).reshape(-1)


def valid(bodies: pa.Array) -> NDArray[np.bool_]:
    """Which bodies are not null."""
    if not bodies.null_count:
        return np.ones(len(bodies), bool)
    mask: NDArray[np.bool_] = bodies.is_valid().to_numpy(zero_copy_only=False)
    return mask


def buffers_of(bodies: pa.Array) -> tuple[Ints, NDArray[np.uint8]]:
    """The offsets of the array's bodies, and the bytes they point into, which are not copied."""
    widths = {pa.binary(): np.int32, pa.large_binary(): np.int64}
    if bodies.type not in widths:
        raise TypeError(f"bodies are binary or large_binary, not {bodies.type}: cast the column")
    _, offsets, data = bodies.buffers()
    if not len(bodies) or offsets is None:
        return np.zeros(len(bodies) + 1, np.int64), np.empty(0, np.uint8)
    width = widths[bodies.type]
    skipped = bodies.offset * np.dtype(width).itemsize
    ends = np.frombuffer(offsets, width, len(bodies) + 1, skipped).astype(np.int64)
    return ends, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)


def on_layers(events: Events, readable: NDArray[np.bool_]) -> tuple[Events, NDArray[np.bool_]]:
    """Without the events that hold a hit on a layer that the tracker has not."""
    nowhere = events.rows["layer"] >= LAYERS
    if not nowhere.any():
        return events, readable
    good = np.bincount(events.owners()[nowhere], minlength=len(events)) == 0
    readable = readable.copy()
    readable[readable] = good
    counts = np.diff(events.first)
    kept = events.rows[np.repeat(good, counts)]
    return Events(events.number[good], starts(counts[good]), kept), readable
