"""Snowmelt: `queue.put` with the blocking client, and `snowmelt worker`."""

import sys
from typing import Any

from benchmarks.peers.programs.counting import BROKER, done, enqueue

import snowmelt

FLUSH = 0.05


def nothing(item: Any) -> None:
    """The job."""
    del item
    done()


def main() -> None:
    """Enqueues them."""
    with snowmelt.connect(BROKER) as cluster:
        name = sys.argv[2]
        queue = cluster.fifo(name, flush=FLUSH) if name == "later" else cluster.fifo(name)
        queue.put(b"")  # the first use makes it
        queue.get(timeout=10).ack()
        enqueue(lambda: queue.put(b""))
