"""Items that travel, are stored and are acknowledged together: offsets and one blob.

The layout is Arrow's variable-size binary column (n + 1 little-endian 32-bit offsets, and the
bytes they point into), so a batch is a column without a copy:

    buffers = [None, pyarrow.py_buffer(batch.offsets), pyarrow.py_buffer(batch.blob)]
    pyarrow.Array.from_buffers(pyarrow.binary(), len(batch), buffers)

Offsets need not begin at 0. That is what makes a slice free: it keeps the blob and narrows the
offsets.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import Final

Buffer = bytes | bytearray | memoryview

OFFSET_BYTES: Final = 4
ONE: Final = struct.Struct("<2i")
"""The offsets of one item: 0, and how many bytes it has."""
BLOB_BYTES_MAX: Final = 2**31 - 1

assert array("i").itemsize == OFFSET_BYTES


class Batch:
    """An immutable run of byte strings.

    >>> batch = Batch.of([b"one", b"two", b"three"])
    >>> len(batch), bytes(batch[2]), batch.size
    (3, b'three', 11)
    >>> [bytes(body) for body in batch.slice(1, 3)]
    [b'two', b'three']
    """

    __slots__ = ("_offsets", "blob", "count", "size")

    count: int
    """How many items."""
    size: int
    """How many bytes its bodies have together."""

    def __init__(self, offsets: Buffer, blob: Buffer) -> None:
        """Takes the two buffers as they are, after a look at every offset. O(n), at C's speed."""
        view = memoryview(offsets).cast("B")
        if len(view) < OFFSET_BYTES or len(view) % OFFSET_BYTES:
            raise ValueError(f"{len(view)} bytes are no run of {OFFSET_BYTES}-byte offsets")
        self._offsets = view.cast("i")
        self.blob = memoryview(blob).cast("B")
        edges = self._offsets.tolist()
        if edges != sorted(edges) or edges[0] < 0 or edges[-1] > len(self.blob):
            raise ValueError(f"offsets are not in order within a blob of {len(self.blob)} bytes")
        self.count = len(edges) - 1
        self.size = edges[-1] - edges[0]

    @classmethod
    def _made(cls, offsets: memoryview, blob: memoryview) -> "Batch":
        """Of what is known to be sound."""
        part = object.__new__(cls)
        part._offsets = offsets
        part.blob = blob
        part.count = len(offsets) - 1
        part.size = offsets[-1] - offsets[0]
        return part

    @classmethod
    def known(cls, offsets: Buffer, blob: Buffer) -> "Batch":
        """Takes two buffers that were looked at before, when they came. O(1)."""
        return cls._made(memoryview(offsets).cast("B").cast("i"), memoryview(blob).cast("B"))

    @classmethod
    def of(cls, bodies: Iterable[bytes]) -> "Batch":
        """Copies bodies into one batch. O(bytes)."""
        bodies = list(bodies)
        size = sum(map(len, bodies))
        if size > BLOB_BYTES_MAX:
            raise ValueError(f"a batch holds at most {BLOB_BYTES_MAX} bytes, not {size}")
        return cls(array("i", accumulate(map(len, bodies), initial=0)).tobytes(), b"".join(bodies))

    @classmethod
    def joined(cls, parts: Iterable["Batch"]) -> "Batch":
        """Copies the bodies of several batches into one, in order. O(bytes), at C's speed.

        >>> whole = Batch.of([b"one", b"two", b"three"])
        >>> [bytes(body) for body in Batch.joined([whole.slice(2, 3), whole.slice(0, 1)])]
        [b'three', b'one']
        """
        edges, blobs, size = [bytes(OFFSET_BYTES)], [], 0
        for part in parts:
            theirs = part.offsets.cast("i")
            first, last = theirs[0], theirs[-1]
            if size + last - first > BLOB_BYTES_MAX:
                raise ValueError(f"a batch holds at most {BLOB_BYTES_MAX} bytes")
            edges.append(_moved(theirs[1:], size - first))
            blobs.append(part.blob[first:last])
            size += last - first
        return cls.known(b"".join(edges), b"".join(blobs))

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        raise TypeError("a batch has no truth value; ask for its length")

    def __getitem__(self, index: int) -> memoryview:
        """One body, not copied. O(1)."""
        if not 0 <= index < len(self):
            raise IndexError(f"no item {index} in a batch of {len(self)}")
        return self.blob[self._offsets[index] : self._offsets[index + 1]]

    def __iter__(self) -> Iterator[memoryview]:
        edges = self._offsets.tolist()
        blob = self.blob
        return (blob[start:stop] for start, stop in pairwise(edges))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batch):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # comparing reads every byte

    def __repr__(self) -> str:
        return f"Batch({len(self)} items, {self.size} bytes)"

    @property
    def offsets(self) -> memoryview:
        """The offsets as bytes, as Arrow and the wire take them. O(1)."""
        return self._offsets.cast("B")

    def slice(self, start: int, stop: int) -> "Batch":
        """The items from `start` to `stop`, sharing the same memory. O(1)."""
        if not 0 <= start <= stop <= self.count:
            raise IndexError(f"no items {start} to {stop} in a batch of {len(self)}")
        return Batch._made(self._offsets[start : stop + 1], self.blob)

    def trimmed(self) -> "Batch":
        """The same items with nothing else in the blob and offsets from 0: what goes on the wire.

        O(1) when it is so already; else the offsets are written anew, O(n), and the blob is not
        copied.

        >>> part = Batch.of([b"one", b"two", b"three"]).slice(1, 2)
        >>> len(part.blob), len(part.trimmed().blob)
        (11, 3)
        """
        first, last = self._offsets[0], self._offsets[-1]
        if first == 0 and last == len(self.blob):
            return self
        edges = ONE.pack(0, last - first) if self.count == 1 else _moved(self._offsets, -first)
        return Batch._made(memoryview(edges).cast("i"), self.blob[first:last])

    def compact(self) -> "Batch":
        """The same items, in a blob of their own where they fill less than half of this one.

        So what is left of much keeps no more than twice its size in memory. O(1) or O(bytes), and
        over all slices of slices each byte is copied once, all in all.

        >>> whole = Batch.of([bytes(100), b"two", b"three"])
        >>> len(whole.slice(1, 3).compact().blob), whole.slice(0, 2).compact().blob is whole.blob
        (8, True)
        """
        if 2 * self.size >= len(self.blob):
            return self
        part = self.trimmed()
        part.blob = memoryview(bytes(part.blob))
        return part


def _moved(edges: memoryview, by: int) -> bytes:
    """Offsets, each so much greater; all as one number, since none leaves its own four bytes.

    >>> memoryview(_moved(memoryview(array("i", [5, 7])), -5)).cast("i").tolist()
    [0, 2]
    """
    if by == 0:
        return bytes(edges)
    steps = int.from_bytes(b"\x01\0\0\0" * len(edges), "little")
    moved = int.from_bytes(edges.cast("B"), "little") + by * steps
    return moved.to_bytes(len(edges) * OFFSET_BYTES, "little")
