"""One client of the experiment: opens a queue by its URL, puts, gets, acknowledges."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from snowmelt.client.cluster import connect
from snowmelt.core.errors import BadOption
from snowmelt_lab.scale.plain import SCHEME, PlainQueue

BODY_BYTES_MAX = 1 << 20


class Item(Protocol):
    """What `get` hands out."""

    def ack(self) -> None:
        """It is done, and leaves the queue."""
        ...


class Queue(Protocol):
    """What the experiment needs of a queue."""

    def put(self, body: bytes) -> object:
        """Enqueues; returns when the item is safe."""
        ...

    def get(self, *, timeout: float) -> Item:
        """Dequeues the head, on a lease."""
        ...


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What one client does: so many puts, then as many gets."""

    url: str
    operations: int = 100
    body_bytes: int = 100
    replicas: int = 3
    inline_max: int = 1 << 20
    queue: str = "scale"
    timeout: float = 30.0

    def __post_init__(self) -> None:
        if not 1 <= self.operations <= 1_000_000:
            raise BadOption("--operations", self.operations, "1 to 1000000")
        if not 0 <= self.body_bytes <= BODY_BYTES_MAX:
            raise BadOption("--body-bytes", self.body_bytes, f"0 to {BODY_BYTES_MAX}")


@contextmanager
def opened(job: Job) -> Iterator[Queue]:
    """The queue at the job's URL, a cluster's or the plain one's.

    >>> with opened(Job(url="http://127.0.0.1")):
    ...     pass
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: url is 'http://127.0.0.1'; allowed: snowmelt://HOST:PORT...
    """
    if job.url.startswith(SCHEME):
        with PlainQueue(job.url, job.timeout) as plain:
            yield plain
        return
    with connect(job.url) as cluster:
        cluster.ping()  # a connection is made by the first call
        yield cluster.fifo(job.queue, replicas=job.replicas, inline_max=job.inline_max)


def put_all(queue: Queue, job: Job) -> None:
    """The first half: every value is safe when this returns."""
    body = b"x" * job.body_bytes
    for _ in range(job.operations):
        queue.put(body)


def get_all(queue: Queue, job: Job) -> None:
    """The second half: as many as were put by each, whoever put them."""
    for _ in range(job.operations):
        queue.get(timeout=job.timeout).ack()
