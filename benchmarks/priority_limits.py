"""What Python allows at most of a queue with any priorities: the least that any has to do.

    python benchmarks/priority_limits.py [--calls 400] [--items 1000] [--size 100] [--json]

One process, with no socket, no lease, no copy, no view, and nobody who could fail. A put is
decoded, its record written, its keys kept as a sorted row. A get finds the least of all rows, takes
their bodies out by their offsets, encodes one answer and writes one record; its end is another.
Whoever asked decodes it and puts it in order. Told is processor time an item, of the server's part
and of the client's. Nothing is flushed: a flush is waited for and costs little of it.
"""

import argparse
import json
import os
import tempfile
import time
from array import array
from collections.abc import Iterator
from itertools import accumulate, pairwise
from operator import sub
from random import Random

import msgspec

from snowmelt.protocols.queue.index import Index

ENCODE = msgspec.msgpack.Encoder().encode


class Put(msgspec.Struct, frozen=True, array_like=True):
    """Bodies in the order of their keys."""

    keys: bytes
    offsets: bytes
    blob: bytes


class Got(msgspec.Struct, frozen=True, array_like=True):
    """The least, stretch by stretch, each with its keys."""

    spans: list[int]
    keys: bytes
    offsets: bytes
    blob: bytes


PUTS = msgspec.msgpack.Decoder(Put).decode
GOTS = msgspec.msgpack.Decoder(Got).decode


class Least:
    """The queue."""

    def __init__(self, items: int, file: int) -> None:
        self.items, self.file = items, file
        self.row, self.puts = Index(), list["tuple[array[int], Put]"]()

    def put(self, call: bytes) -> None:
        """Elements stand from `items` times the number of their put on."""
        put = PUTS(call)
        self.row.add_row(len(self.puts) * self.items, put.keys)
        self.puts.append((array("i", put.offsets), put))
        os.write(self.file, call)

    def stretches(self, count: int) -> Iterator[tuple[int, int]]:
        """Where the least ones stand, each of one put."""
        entries = self.row.first(count)
        self.row.remove(entries)
        places = sorted([place for _, place in entries])
        start = before = places[0]
        for place in places[1:]:
            if place != before + 1 or place % self.items == 0:
                yield start, before + 1
                start = place
            before = place
        yield start, before + 1

    def get(self, count: int) -> bytes:
        """The least ones, and a record of that."""
        spans: list[int] = []
        keys: list[bytes] = []
        blobs: list[bytes] = []
        sizes: list[int] = []
        for start, stop in self.stretches(count):
            number, first = divmod(start, self.items)
            edges, put = self.puts[number]
            cut = edges[first : first + stop - start + 1]
            spans += (start, stop)
            keys.append(put.keys[8 * first : 8 * (first + len(cut) - 1)])
            blobs.append(put.blob[cut[0] : cut[-1]])
            sizes += map(sub, cut[1:], cut)
        offsets = array("i", accumulate(sizes, initial=0)).tobytes()
        os.write(self.file, ENCODE(spans))
        return ENCODE(Got(spans, b"".join(keys), offsets, b"".join(blobs)))


def worked_off(answer: bytes) -> list[int]:
    """The client's part: bodies in order; where they stand."""
    got = GOTS(answer)
    keys, edges = array("q", got.keys), array("i", got.offsets)
    bodies = [got.blob[start:stop] for start, stop in pairwise(edges)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    assert len(list(map(bodies.__getitem__, order))) == len(keys)
    return got.spans


def main() -> int:
    parser = argparse.ArgumentParser(prog="priority_limits", description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=400, help="waiting, before any is got")
    parser.add_argument("--items", type=int, default=1_000, help="of a call")
    parser.add_argument("--size", type=int, default=100, help="of a body, in bytes")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    dice, items = Random(7), options.items
    edges = array("i", range(0, (items + 1) * options.size, options.size)).tobytes()
    calls = [
        ENCODE(Put(keys.tobytes(), edges, os.urandom(items * options.size)))
        for keys in (
            array("q", sorted(dice.getrandbits(63) for _ in range(items)))
            for _ in range(options.calls)
        )
    ]
    with tempfile.TemporaryFile() as file:
        queue = Least(items, file.fileno())
        marks = [time.process_time()]
        for call in calls:
            queue.put(call)
        marks.append(time.process_time())
        server = client = 0.0
        for _ in range(options.calls):
            began = time.process_time()
            answer = queue.get(items)
            between = time.process_time()
            done = ENCODE(worked_off(answer))
            told = time.process_time()
            os.write(file.fileno(), ENCODE(msgspec.msgpack.decode(done)))
            server += between - began + time.process_time() - told
            client += told - between
    each = 1e6 / (items * options.calls)
    found = {
        "put_server": round((marks[1] - marks[0]) * each, 2),
        "get_server": round(server * each, 2),
        "get_client": round(client * each, 2),
    }
    print(json.dumps(found) if options.json else found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
