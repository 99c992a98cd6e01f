"""Putting raw events into the first queue."""

from collections.abc import Callable

import pyarrow as pa

from snowmelt.client.fifo import Fifo
from snowmelt.core.batch import Batch
from ufmulti.generate import generate

AT_ONCE = 2000


def feed(queue: Fifo, events: int, seed: int, made: Callable[[int], None]) -> None:
    """Makes events and puts them; a put returns when they are safe on the queue's nodes.

    `made` is told how many more there are, each time.
    """
    for first in range(0, events, AT_ONCE):
        count = min(AT_ONCE, events - first)
        queue.put_many(as_batch(generate(first, count, seed)))
        made(count)


def as_batch(bodies: pa.BinaryArray) -> Batch:
    """The same bodies as the queue has them: an Arrow column is one already, so nothing is copied.

    >>> [bytes(body) for body in as_batch(pa.array([b"one", b"two"], pa.binary())[1:])]
    [b'two']
    """
    _, offsets, blob = bodies.buffers()
    edges = memoryview(offsets)[4 * bodies.offset : 4 * (bodies.offset + len(bodies) + 1)]
    return Batch(edges, memoryview(blob) if blob is not None else b"")
