"""What the driver does with what tasks staged: publishes it, once, whoever has to do it again.

Into one queue it is one step. Into several it is first written down which queue gets what, in the
queue `spark.publications`, which holds no items; then each queue gets its share, and then it is
written down that all have. What is written down stands. So a run that comes after a crash ends what
was begun, even if it would share the rows out in another way.

A batch has a number, and the queue remembers what was published under it (`staging.content_of`).
The same again does nothing. Anything else under a number that was used is refused: either this
checkpoint is older than the queue, or the rows are others each time they are computed.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import msgspec
from pyspark.sql.datasource import WriterCommitMessage

from snowmelt.client.cluster import Cluster
from snowmelt.core.errors import (
    AlreadyPublished,
    BadOption,
    Empty,
    Full,
    NoSuchQueue,
    QueueExists,
    SequenceTooOld,
)
from snowmelt.protocols.fifo.calls import Planned, Receipt, Share
from snowmelt.spark.connections import cluster_at
from snowmelt.spark.options import SinkOptions
from snowmelt.spark.staging import CONTENTS, Landed

PLANS: Final = "spark.publications"


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What one task staged."""

    queues: dict[str, Landed]
    rows: int
    query: str
    """The query's id; empty for a batch job. The driver's part of a stream is not told it."""
    batch: str


class Name(msgspec.Struct, frozen=True):
    """Under which name and number something is published."""

    producer: str
    sequence: int


def commit(
    messages: Iterable[WriterCommitMessage | None], options: SinkOptions, name: Name | None
) -> None:
    """Publishes what tasks staged, in the order of the partitions; without a name, at most once."""
    shares = shares_of(messages)
    cluster = cluster_at(options.connection)
    with _telling(options):
        if name is None or options.queue:
            for share in shares:
                _put(cluster, share, options, name)
        else:
            _put_all(cluster, shares, options, name)


def shares_of(messages: Iterable[WriterCommitMessage | None]) -> list[Share]:
    """What goes into which queue, by its name."""
    receipts: dict[str, list[Receipt]] = {}
    contents: dict[str, int] = {}
    for message in messages:
        if isinstance(message, Staged):
            for name, landed in message.queues.items():
                receipts.setdefault(name, []).extend(landed.receipts)
                contents[name] = contents.get(name, 0) + landed.content
    if PLANS in receipts:
        raise BadOption("column queue", PLANS, "any other: this one keeps what is begun")
    return [
        Share(name, tuple(receipts[name]), _digest(contents[name])) for name in sorted(receipts)
    ]


def _digest(content: int) -> int:
    """Never 0, which would say that it is not to be compared."""
    return content % CONTENTS or 1


def _put(cluster: Cluster, share: Share, options: SinkOptions, name: Name | None) -> None:
    queue = cluster.fifo(share.queue, producer=None if name is None else name.producer)
    queue.publish(
        share.receipts,
        sequence=None if name is None else name.sequence,
        digest=share.digest if options.compared else 0,
        timeout=options.connection.timeout,
    )


def _put_all(cluster: Cluster, shares: list[Share], options: SinkOptions, name: Name) -> None:
    """Ends what was begun under this number, or begins it."""
    digest = _digest(sum(share.digest for share in shares)) if options.compared else 0
    planned = _planned(cluster, shares, options, name, digest)
    if planned.ended or not planned.shares:
        return
    own = {share.queue: share for share in shares}
    for share in planned.shares:
        fresh = own.get(share.queue)
        # What this run staged waits longer than what an earlier one did.
        alike = fresh is not None and fresh.digest == share.digest
        _put(cluster, fresh if fresh is not None and alike else share, options, name)
    home = cluster.fifo(PLANS, producer=name.producer)
    home.publish((), sequence=name.sequence, digest=digest, timeout=options.connection.timeout)


def _planned(
    cluster: Cluster, shares: list[Share], options: SinkOptions, name: Name, digest: int
) -> Planned:
    home, timeout = cluster.fifo(PLANS, producer=name.producer), options.connection.timeout
    try:
        return home.plan(shares, sequence=name.sequence, digest=digest, timeout=timeout)
    except NoSuchQueue:
        if not shares:
            return Planned(())
    like = cluster.fifo(shares[0].queue).stats(timeout=timeout).settings
    with suppress(Empty, QueueExists):  # this makes it, as safe as the first of the others
        made = cluster.fifo(PLANS, replicas=like.replicas, durable_copies=like.durable_copies)
        made.get(timeout=0)
    return home.plan(shares, sequence=name.sequence, digest=digest, timeout=timeout)


@contextmanager
def _telling(options: SinkOptions) -> Iterator[None]:
    """Adds to what a queue refuses what can be done about it."""
    try:
        yield
    except Full as error:
        text = (
            f"{error}; no room was made within {options.connection.timeout:g} s (option timeout). "
            "All rows of a write, or of a micro-batch, go in at once: take fewer at a time, or a "
            "wider bound"
        )
        raise Full(text) from None
    except SequenceTooOld as error:
        number = "txnVersion" if options.version is not None else "batch number"
        raise SequenceTooOld(f"{error} (of txnAppId, the {number})") from None
    except AlreadyPublished as error:
        older = (
            "another txnVersion for another write"
            if options.version is not None
            else "this checkpoint is older than the queue: go on from the newer one"
        )
        text = (
            f"{error}. Either {older}; or its rows are others each time they are computed: option "
            "failOnOtherContent=false then leaves what was published, puts nothing and goes on"
        )
        raise AlreadyPublished(text) from None
