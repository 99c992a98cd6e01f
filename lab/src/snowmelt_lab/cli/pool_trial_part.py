"""One process of `snowmelt lab try-pool`: it produces or consumes until its standard input ends.

On its standard output are two lines: one when it is ready, and in the end what it has done.
"""

import os
import signal
import sys
import threading
from time import monotonic, sleep
from typing import Final

import msgspec

from snowmelt.client.cluster import Cluster
from snowmelt.client.pool.face import Pool
from snowmelt.core.errors import Empty, Full, SnowmeltError

PATIENCE: Final = 30.0
"""How many seconds a producer stays at most until all it has was taken."""
_LOOK: Final = 0.2


class Work(msgspec.Struct, frozen=True):
    """What the processes of a trial have in common."""

    url: str
    pool: str
    size: int
    rate: float
    """Objects a second of each producer; 0 is as many as there is room for."""
    buffers: int
    max_hops: int


class TrialPartResult(msgspec.Struct, frozen=True):
    """What one process has done; `first` and `last` are this machine's monotonic seconds."""

    count: int
    size: int = 0
    first: float = 0.0
    last: float = 0.0
    hops: int = 0
    waited: float = 0.0


def produce(pool: Pool, work: Work, over: threading.Event) -> TrialPartResult:
    """Makes objects at the rate asked for, and stays until all were taken."""
    body, due, count = os.urandom(work.size), monotonic(), 0
    while not over.is_set():
        try:
            pool.put(body, timeout=_LOOK)
        except Full:
            continue
        count += 1
        if work.rate:
            due = max(due + 1 / work.rate, monotonic() - 1.0)  # what was missed is not made up for
            over.wait(max(0.0, due - monotonic()))
    end = monotonic() + PATIENCE
    while monotonic() < end:
        told = pool.stats()
        if not told.stock + told.on_loan:
            break
        sleep(0.01)
    return TrialPartResult(count, waited=pool.stats().blocked_seconds)


def consume(pool: Pool, over: threading.Event) -> TrialPartResult:
    """Takes objects as they come, and throws them away."""
    count = size = 0
    first = last = 0.0
    while not over.is_set():
        try:
            with pool.get(timeout=_LOOK) as one:
                last = monotonic()
                first, count, size = first or last, count + 1, size + len(one.body)
        except Empty:
            continue
    told = pool.stats()
    return TrialPartResult(count, size, first, last, told.hops, told.waited_seconds)


def _listen(over: threading.Event) -> None:
    os.read(0, 1)  # nothing ever comes but the end
    over.set()


def _main(role: str, packed: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent ends it
    work = msgspec.json.decode(packed, type=Work)
    over = threading.Event()
    threading.Thread(target=_listen, args=(over,), daemon=True).start()
    with (
        Cluster(work.url) as cluster,
        cluster.pool(work.pool, buffers=work.buffers, max_hops=work.max_hops) as pool,
    ):
        print("ready", flush=True)
        told = produce(pool, work, over) if role == "produce" else consume(pool, over)
    print(msgspec.json.encode(told).decode(), flush=True)


if __name__ == "__main__":
    try:
        _main(*sys.argv[1:])
    except SnowmeltError as error:
        print(f"snowmelt: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
