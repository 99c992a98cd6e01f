"""Each kind of queue behind one face, and the account of what was told and what came.

What a program did is exact in the end: what a put returned for is done once, or is offered still;
what an acknowledgement returned for never comes again; and nothing comes that nobody put.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Protocol, Self

import snowmelt
from snowmelt.core.errors import Empty, LeaseLost, OutcomeUnknown

LEASE = 2.0


class Account:
    """What one program was told, and what it got."""

    def __init__(self) -> None:
        self.tried: set[bytes] = set()
        self.kept: set[bytes] = set()
        """A put returned for these."""
        self.begun: set[bytes] = set()
        """To be acknowledged; whether they are is not known until it is told."""
        self.done: Counter[bytes] = Counter()
        """An acknowledgement returned for these."""
        self.again: list[bytes] = []
        """What came though it was done."""

    def putting(self, number: int) -> bytes:
        """A body that nobody else has."""
        body = b"%d" % number
        self.tried.add(body)
        return body

    def came(self, body: bytes) -> None:
        """One was got."""
        if body in self.done:
            self.again.append(body)
        self.begun.add(body)

    def check(self, left: Iterable[bytes] = ()) -> None:
        """All is there once; `left` is what was still to be had in the end, and is done now."""
        for body in left:
            self.came(body)
            self.done[body] += 1
        assert self.again == [], "it came after its acknowledgement"
        came = self.begun
        assert came <= self.tried, "nobody put it"
        missing = self.kept - came
        assert not missing, f"{len(missing)} of {len(self.kept)} were kept and never came"
        assert [body for body, count in self.done.items() if count > 1] == []


class Kind(Protocol):
    """A queue that somebody puts into and gets from."""

    url: str

    def put(self, body: bytes) -> None: ...
    def get(self, timeout: float = 5) -> Any: ...
    def consume(self, timeout: float | None) -> Any: ...
    def close(self) -> None: ...
    def waiting(self) -> tuple[int, int]:
        """How many are offered, and how many are with somebody."""


class Pool:
    """Two processes' parts in one: one makes, one takes."""

    def __init__(self, cluster: snowmelt.Cluster, name: str) -> None:
        options: dict[str, Any] = {"lease": LEASE, "grace": 0.5, "buffers": 100_000}
        self.maker = cluster.pool(name, **options)
        self.taker = cluster.pool(name, **options)
        self.put, self.get = self.maker.put, self.taker.get
        self.ends = LeaseLost, OutcomeUnknown

    def get_one(self, timeout: float = 5) -> Any:
        return self.taker.get(timeout=timeout)

    def consume(self, timeout: float | None, **options: Any) -> Any:
        return self.taker.consume(timeout=timeout, **options)

    def waiting(self) -> tuple[int, int]:
        told = self.maker.stats()
        return told.stock, told.on_loan

    def close(self) -> None:
        self.taker.close()
        self.maker.close()  # others take over what is left, or it says what is lost


class Fifo:
    """One that makes and takes."""

    def __init__(self, cluster: snowmelt.Cluster, name: str) -> None:
        self.queue: Any = cluster.fifo(name, lease=LEASE, max_deliveries=1000)
        self.put = self.queue.put

    def get_one(self, timeout: float = 5) -> Any:
        return self.queue.get(timeout=timeout)

    def consume(self, timeout: float | None, **options: Any) -> Any:
        return self.queue.consume(timeout=timeout, **options)

    def waiting(self) -> tuple[int, int]:
        told = self.queue.stats()
        return told.ready, told.leased

    def close(self) -> None:
        pass


class Folder(Fifo):
    """The same in a folder, with no node."""


class Priority(Fifo):
    """One that makes and takes, at any priority of 64 bits."""

    def __init__(self, cluster: snowmelt.Cluster, name: str) -> None:
        self.queue = cluster.priority(name, lease=LEASE, max_deliveries=1000)

    def put(self, body: bytes, **options: Any) -> Any:
        drawn = blake2b(body, digest_size=8).digest()
        return self.queue.put(body, priority=int.from_bytes(drawn, signed=True), **options)


class PriorityFolder(Fifo):
    """The same in a folder, with no node, at two priorities."""

    def __init__(self, cluster: snowmelt.Cluster, name: str) -> None:
        self.queue = cluster.priority(name, priorities=2, lease=LEASE, max_deliveries=1000)

    def put(self, body: bytes, **options: Any) -> Any:
        return self.queue.put(body, priority=len(body) % 2, **options)


KINDS = [Pool, Fifo, Priority]
FOLDERS = [Folder, PriorityFolder]


@contextmanager
def opened(kind: type[Kind], url: str, name: str) -> Iterator[Any]:
    """A queue of this kind, closed in the end."""
    open_cluster: Any = snowmelt.open if kind in FOLDERS else snowmelt.connect
    with open_cluster(url) as cluster:
        queue = kind(cluster, name)  # type: ignore[call-arg]
        try:
            yield queue
        finally:
            queue.close()


def settled(queue: Any, seconds: float = 2 * LEASE + 5) -> None:
    """Waits until nobody holds anything: what was dropped goes back."""
    end = time.monotonic() + seconds
    while queue.waiting()[1]:
        assert time.monotonic() < end, f"{queue.waiting()} are offered, and with nobody"
        time.sleep(0.02)


def rest(queue: Any) -> list[bytes]:
    """All that is left, done."""
    settled(queue)
    found = []
    while queue.waiting()[0]:
        try:
            item = queue.get_one(timeout=2)
            item.ack()
        except (Empty, LeaseLost, OutcomeUnknown):  # a busy machine: it comes again
            continue
        found.append(bytes(item.body))
    return found


def of(word: str) -> type[Kind]:
    """The kind of this name, for a program that is told it."""
    return next(one for one in (*KINDS, *FOLDERS) if one.__name__ == word)  # type: ignore[return-value]


__all__ = ["FOLDERS", "KINDS", "Account", "Kind", "Self", "of", "opened", "rest", "settled"]
