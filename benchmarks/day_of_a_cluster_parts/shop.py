"""A user's program in the day of a cluster: it puts numbered orders, and takes what comes.

    python shop.py --urls URL --secrets FILE --name shop-1 [--after 0] [--pace 100]

It may run with any version of Snowmelt. A line on its standard input ends its puts, and the end of
that input ends the rest; then it prints its `Tally`, as JSON. Its secrets stand in a file, which it
reads again before each put, as a program does whose secret may be changed.
"""

import argparse
import sys
import threading
import time
from pathlib import Path
from typing import Final

import msgspec

import snowmelt
from snowmelt.core.errors import Empty, SnowmeltError

ORDERS: Final = "orders"


class Tally(msgspec.Struct):
    """What became of orders, by name and number; both threads add to it under the lock."""

    put: list[str] = msgspec.field(default_factory=list)
    taken: dict[str, int] = msgspec.field(default_factory=dict)
    """How often each came."""
    failed: list[str] = msgspec.field(default_factory=list)
    """Calls that ended with an error; the same was asked again."""
    longest: float = 0.0
    """Seconds that one put took, with what was asked again."""
    last: int = 0
    """The number of the last order."""
    version: str = ""
    """Of Snowmelt, that it ran with."""


class Shop:
    """One thread puts, another takes."""

    def __init__(self, urls: str, secrets: Path, name: str, after: int, pace: float) -> None:
        self.tally = Tally(last=after, version=snowmelt.__version__)
        self.no_more_puts = threading.Event()
        self.done = threading.Event()
        self._urls, self._secrets, self._name, self._pace = urls, secrets, name, pace
        self._lock = threading.Lock()

    def secret(self, user: str) -> str:
        found: dict[str, str] = msgspec.json.decode(self._secrets.read_bytes())
        return found[user]

    def put(self) -> None:
        """Each number once: a named producer asks again under the same number."""
        while not self.no_more_puts.is_set():
            secret = self.secret("shop")
            with snowmelt.connect(self._urls, user="shop", token=secret) as cluster:
                queue = cluster.fifo(ORDERS, producer=self._name)
                while not self.no_more_puts.is_set() and secret == self.secret("shop"):
                    self._put_one(queue, self.tally.last + 1)
                    self.no_more_puts.wait(1 / self._pace)

    def _put_one(self, queue: snowmelt.Fifo, number: int) -> None:
        order = f"{self._name} {number}"
        began = time.monotonic()
        for _ in range(10):
            try:
                queue.put(order.encode(), sequence=number, timeout=10)
                break
            except SnowmeltError as error:
                with self._lock:
                    self.tally.failed.append(f"put: {error!r}")
        with self._lock:
            self.tally.put.append(order)
            self.tally.last = number
            self.tally.longest = max(self.tally.longest, time.monotonic() - began)

    def take(self) -> None:
        billing = self.secret("billing")
        with snowmelt.connect(self._urls, user="billing", token=billing) as cluster:
            queue = cluster.fifo(ORDERS)
            while not self.done.is_set():
                try:
                    item = queue.get(timeout=1)
                    item.ack()
                except Empty:
                    continue
                except SnowmeltError as error:
                    with self._lock:
                        self.tally.failed.append(f"take: {error!r}")
                    continue
                with self._lock:
                    order = item.body.decode()
                    self.tally.taken[order] = self.tally.taken.get(order, 0) + 1


def main() -> None:
    parser = argparse.ArgumentParser(prog="shop")
    parser.add_argument("--urls", required=True)
    parser.add_argument("--secrets", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--after", type=int, default=0)
    parser.add_argument("--pace", type=float, default=100.0)
    given = parser.parse_args()
    shop = Shop(given.urls, given.secrets, given.name, given.after, given.pace)
    putting = threading.Thread(target=shop.put)
    taking = threading.Thread(target=shop.take)
    putting.start()
    taking.start()
    sys.stdin.readline()
    shop.no_more_puts.set()
    putting.join()
    sys.stdin.read()
    shop.done.set()
    taking.join()
    sys.stdout.buffer.write(msgspec.json.encode(shop.tally))


if __name__ == "__main__":
    main()
