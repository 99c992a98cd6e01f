"""Putting raw events into the first queue: a part of the demo, and a program of its own."""

import argparse
from collections.abc import Callable

import pyarrow as pa

import snowmelt
from snowmelt.core.batch import Batch
from ufmulti.generate import generate

AT_ONCE = 2000


def feed(queue: snowmelt.Fifo, events: int, seed: int, made: Callable[[int], None]) -> None:
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


def main() -> None:
    """Feeds a cluster."""
    parser = argparse.ArgumentParser(prog="ufmulti.feed", description="Put raw events in a queue.")
    parser.add_argument("--url", default="snowmelt://127.0.0.1:4410")
    parser.add_argument("--queue", default="ufmulti-raw")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replicas", type=int, default=1)
    options = parser.parse_args()
    with snowmelt.connect(options.url) as cluster:
        queue = cluster.fifo(options.queue, replicas=options.replicas)
        feed(queue, options.events, options.seed, lambda _: None)
        print(f"{options.events:,} events are in {options.queue}")


if __name__ == "__main__":
    main()
