"""What keys cost: puts and gets with a thousand keys beside those of a plain queue, in turn.

    python benchmarks/by_key.py [--items 2000] [--rounds 5] [--new] [--kinds plain fair]

Each round puts and gets one item at a time, and a thousand, in a folder of its own: without any
setting by key, with one and no keys, and with a thousand keys. It prints microseconds of
processor an item, the best round of each.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import snowmelt

KEYS = [f"tenant-{at}" for at in range(1000)]
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "keys put, no setting": {},
    "at_once, no keys": {"at_once": 1_000_000},
    "in_order_by_key": {"in_order_by_key": True},
    "at_once_by_key": {"at_once_by_key": 1_000_000},
    "fair": {"fair": True},
    "per_second_by_key": {"per_second_by_key": 1_000_000},
}


def timed(count: int, do: Callable[[], object]) -> float:
    """Microseconds of processor each."""
    begun = time.process_time()
    do()
    return (time.process_time() - begun) / count * 1e6


def measured(kind: str, items: int, *, knows: bool) -> Iterator[float]:
    """A put, a get with its acknowledgement; and the same of a thousand at once.

    With `knows` the queue had items of these keys before, as of tenants that come again.
    """
    has_keys = kind not in ("plain", "at_once, no keys")
    keys = [KEYS[at % 1000] if has_keys else None for at in range(items)]
    with tempfile.TemporaryDirectory() as folder, snowmelt.open(folder) as cluster:
        jobs = cluster.fifo("jobs", flush=0.5, **KINDS[kind])
        if knows:
            jobs.put_many([bytes(100)] * 1000, key=KEYS if has_keys else None)
            jobs.get_many(1000).ack()
        if "per_second" in kind:
            time.sleep(1.1)

        def put() -> None:
            for key in keys:
                jobs.put(bytes(100), key=key)

        def get() -> None:
            for _ in range(items):
                jobs.get().ack()

        def put_many() -> None:
            for at in range(0, items, 1000):
                jobs.put_many([bytes(100)] * 1000, key=keys[at : at + 1000] if has_keys else None)

        def get_many() -> None:
            left = items
            while left:
                some = jobs.get_many(1000)
                left -= len(some)
                some.ack()

        for do in (put, get, put_many, get_many):
            yield timed(items, do)


def main() -> None:
    """Says what each costs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--new", action="store_true", help="keys that the queue never had")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    said = parser.parse_args()
    best: dict[str, list[float]] = {}
    for _ in range(said.rounds):
        for kind in said.kinds:
            row = list(measured(kind, said.items, knows=not said.new))
            best[kind] = list(map(min, best.get(kind, row), row))
    print(
        f"{'us of processor an item':28} {'put':>8} {'get+ack':>8} {'put 1000':>9} {'get 1000':>9}"
    )
    for kind, (put, get, puts, gets) in best.items():
        print(f"{kind:28} {put:8.1f} {get:8.1f} {puts:9.2f} {gets:9.2f}")


if __name__ == "__main__":
    main()
