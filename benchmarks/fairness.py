"""How fair a queue is: one tenant with very many items, and others with few, beside all with few.

    python benchmarks/fairness.py [--loud 10000] [--others 99] [--each 10] [--workers 8] [--batch 4]

The loud tenant puts first. Then workers take some items, hold them for a moment, and acknowledge
them. Of each item of the others it is counted how many deliveries came before it. The same is
done with all tenants even. It prints by how much the one is more than the other, at most and in
the mean, and ends with 1 where that is more than the bar.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections import defaultdict

import snowmelt
from snowmelt.core.errors import Empty

BAR = 1.2


def before_each(loud: int, others: int, each: int, workers: int, batch: int) -> dict[str, int]:
    """By item of the others, how many items were delivered before it."""
    order: list[str] = []
    lock, done = threading.Lock(), threading.Event()
    with tempfile.TemporaryDirectory() as folder, snowmelt.open(folder) as cluster:
        jobs = cluster.fifo("jobs", flush=0.05, fair=True, lease=600)
        names = [("loud", at) for at in range(loud)]
        names += [(f"t{who}", at) for who in range(others) for at in range(each)]
        for first in range(0, len(names), 10_000):
            some = names[first : first + 10_000]
            jobs.put_many(
                [f"{who}/{at}".encode() for who, at in some], key=[who for who, _ in some]
            )
        wanted = others * each

        def work() -> None:
            while not done.is_set():
                with lock:  # the order in which they were given is the one in which it is noted
                    try:
                        items = jobs.get_many(batch, timeout=0)
                    except Empty:
                        return  # all of them were given
                    order.extend([item.body.decode() for item in items])
                    if sum(not one.startswith("loud") for one in order) == wanted:
                        done.set()
                time.sleep(0.001)
                items.ack()

        threads = [threading.Thread(target=work) for _ in range(workers)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    return {name: at for at, name in enumerate(order) if not name.startswith("loud")}


def compared(loud: int, others: int, each: int, workers: int, batch: int) -> list[float]:
    """Of each item of the others, how many times as many came before it as if all were even.

    Which of two even tenants comes first is chance. So a tenant's items are compared by their
    turns: its first with the last of the first ones, and so on.
    """
    noisy = before_each(loud, others, each, workers, batch)
    even = before_each(each, others, each, workers, batch)
    latest: dict[str, int] = defaultdict(int)
    for name, at in even.items():
        turn = name.partition("/")[2]
        latest[turn] = max(latest[turn], at)
    return [at / max(1, latest[name.partition("/")[2]]) for name, at in noisy.items()]


def main() -> int:
    """Says how fair it is."""
    parser = argparse.ArgumentParser()
    for name, usual in (
        ("loud", 10_000), ("others", 99), ("each", 10), ("workers", 8), ("batch", 4),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=usual)
    found = compared(**vars(parser.parse_args()))
    print(
        f"{len(found)} items of the others: at most {max(found):.3f} times the deliveries before "
        f"them, {sum(found) / len(found):.3f} in the mean; the bar is {BAR}"
    )
    return max(found) > BAR


if __name__ == "__main__":
    sys.exit(main())
