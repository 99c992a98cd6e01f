"""The driver publishes what tasks staged, once, however often it is done again.

Into one queue it is one step. Into several it is first written down which queue gets what, in the
queue `spark.publications`, which holds no items; then each queue gets its share, and then it is
written down that all have. What is written down stands. So a run that comes after a crash ends what
was begun, even if it would share the rows out in another way.

A stream puts once under a number. A function of batches may write more often, each time into other
queues, and all its writes have the number of the batch. Their queues tell them apart. What was
begun in one of a write's queues is that write, and is ended. What was begun in other queues is
another write, so this one has the next place under the number. When all of them have ended, each
queue knows by itself whether it has its share, as one does that the option names.

A batch has a number, and the queue remembers what was published under it (`staging.content_of`).
The same again does nothing. Anything else under a number that was used is refused: either this
checkpoint is older than the queue, or the rows are others each time they are computed.
"""

from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import msgspec
from pyspark.sql.datasource import WriterCommitMessage

from snowmelt.client.cluster import Cluster
from snowmelt.client.cluster_async import Cluster as AsyncCluster
from snowmelt.core.errors import (
    AlreadyPublished,
    BadOption,
    Empty,
    Full,
    NoSuchQueue,
    QueueExists,
    SequenceTooOld,
)
from snowmelt.protocols.queue.api.calls import Planned, Receipt, Share
from snowmelt.spark.connections import cluster_at
from snowmelt.spark.options import SinkOptions
from snowmelt.spark.several import asked, queues_of
from snowmelt.spark.staging import CONTENTS, StagedReceipts

PLANS: Final = "spark.publications"


@dataclass(frozen=True)
class StagedCommit(WriterCommitMessage):
    queues: dict[str, StagedReceipts]
    rows: int
    query: str
    """The query's id; empty for a batch job. The driver's part of a stream does not know it."""
    batch: str


class PublicationName(msgspec.Struct, frozen=True):
    """Under which name and number something is published."""

    producer: str
    sequence: int


def commit(
    messages: Iterable[WriterCommitMessage | None],
    options: SinkOptions,
    name: PublicationName | None,
) -> None:
    """Publishes what tasks staged, in the order of the partitions; without a name, at most once."""
    shares = shares_of(messages)
    cluster = cluster_at(options.connection)
    with _telling(options):
        if name is None:
            _put(shares, options, None)
        elif not options.queue:
            _put_all(cluster, shares, options, name)
        else:
            _put(shares, options, name)


def shares_of(messages: Iterable[WriterCommitMessage | None]) -> list[Share]:
    """What goes into which queue, by its name."""
    receipts: dict[str, list[Receipt]] = {}
    contents: dict[str, int] = {}
    for message in messages:
        if isinstance(message, StagedCommit):
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


def _put(shares: Sequence[Share], options: SinkOptions, name: PublicationName | None) -> None:
    """Publishes all of them at once, each in its queue."""
    timeout = options.connection.timeout

    def publish_one(cluster: AsyncCluster, share: Share) -> Awaitable[object]:
        queue = queues_of(cluster, options.kind)
        if name is None:
            return queue(share.queue).publish(share.receipts, timeout=timeout)
        return queue(share.queue, producer=name.producer).publish(
            share.receipts,
            sequence=name.sequence,
            digest=share.digest if options.compared else 0,
            timeout=timeout,
        )

    asked(options.connection, shares, publish_one)


def _put_all(
    cluster: Cluster, shares: list[Share], options: SinkOptions, name: PublicationName
) -> None:
    """Ends what was begun under this number, or begins it."""
    alone = options.version is None
    digest = _digest_of(shares) if alone and options.compared else 0
    place: PublicationName | None = name
    if alone:
        planned = _planned(cluster, shares, options, name, digest)
    else:
        place, planned = _write(cluster, shares, options, name)
    if planned.ended or not planned.shares:
        return
    staged = {share.queue: share for share in shares}
    own = []
    for share in planned.shares:
        fresh = staged.get(share.queue)
        # What this run staged waits longer than what an earlier one did.
        alike = fresh is not None and fresh.digest == share.digest
        own.append(fresh if fresh is not None and alike else share)
    _put(own, options, name)
    if place is not None:
        home = cluster.fifo(PLANS, producer=place.producer)
        home.publish((), sequence=name.sequence, digest=digest, timeout=options.connection.timeout)


def _write(
    cluster: Cluster, shares: Sequence[Share], options: SinkOptions, name: PublicationName
) -> tuple[PublicationName | None, Planned]:
    """Which of a number's writes this is, and what it is to put; None where each queue knows it.

    The first place is asked for with the shares, since most often there is no other.
    """
    queues = {share.queue for share in shares}
    write, offered = 0, shares
    while True:
        place = _nth(name, write)
        told = _planned(cluster, offered, options, place, 0)
        begun = {share.queue for share in told.shares}
        if begun and (not queues or begun & queues):
            _check_alike(told.shares, shares, options, name)
            return place, told
        if begun or told.ended:
            write, offered = write + 1, ()
        elif not shares:
            return None, told
        elif _have(cluster, shares, options, name):
            return None, Planned(tuple(shares))
        else:
            offered = shares


def _have(
    cluster: Cluster, shares: Sequence[Share], options: SinkOptions, name: PublicationName
) -> bool:
    """Whether queues have shares of this number; all are asked, and raise that have another."""
    handle = queues_of(cluster, options.kind)
    there, timeout = [], options.connection.timeout
    for share in shares:
        queue = handle(share.queue, producer=name.producer)
        digest, number = share.digest if options.compared else 0, name.sequence
        with suppress(NoSuchQueue):
            told = queue.plan((), sequence=number, digest=digest, timeout=timeout)
            there.append(told.ended)
    return any(there)


def _check_alike(
    begun: Sequence[Share], shares: Sequence[Share], options: SinkOptions, name: PublicationName
) -> None:
    """Raises when a write that was begun had other rows. Without any, it is ended as it is."""
    if not shares or not options.compared or _digest_of(begun) == _digest_of(shares):
        return
    text = (
        f"number {name.sequence} of {name.producer!r} was begun before, with {_count(begun)} items "
        f"for {', '.join(share.queue for share in begun)}, and these {_count(shares)} are not the "
        "same; nothing was put"
    )
    raise AlreadyPublished(text)


def _count(shares: Iterable[Share]) -> int:
    return sum(one.stop - one.first for share in shares for one in share.receipts)


def _digest_of(shares: Iterable[Share]) -> int:
    return _digest(sum(share.digest for share in shares))


def _nth(name: PublicationName, place: int) -> PublicationName:
    """The first has the name itself."""
    return PublicationName(f"{name.producer}.{place}" if place else name.producer, name.sequence)


def _planned(
    cluster: Cluster,
    shares: Sequence[Share],
    options: SinkOptions,
    name: PublicationName,
    digest: int,
) -> Planned:
    home, timeout = cluster.fifo(PLANS, producer=name.producer), options.connection.timeout
    try:
        return home.plan(shares, sequence=name.sequence, digest=digest, timeout=timeout)
    except NoSuchQueue:
        if not shares:
            return Planned(())
    replicas, durable = _copies(cluster, shares[0].queue, options)
    with suppress(Empty, QueueExists):  # this makes it, as safe as the first of the others
        cluster.fifo(PLANS, replicas=replicas, durable_copies=durable).get(timeout=0)
    return home.plan(shares, sequence=name.sequence, digest=digest, timeout=timeout)


def _copies(cluster: Cluster, queue: str, options: SinkOptions) -> tuple[int, int]:
    """On how many nodes a queue keeps what it has."""
    timeout = options.connection.timeout
    handle = queues_of(cluster, options.kind)
    like = handle(queue).stats(timeout=timeout).settings
    return like.replicas, like.durable_copies


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
            "another txnVersion for another write, or in a function of batches another txnAppId"
            if options.version is not None
            else "this checkpoint is older than the queue: go on from the newer one"
        )
        text = (
            f"{error}. Either {older}; or its rows are others each time they are computed: option "
            "failOnOtherContent=false then leaves what was published, puts nothing and goes on, so "
            "whatever these rows have that is new is lost"
        )
        raise AlreadyPublished(text) from None
