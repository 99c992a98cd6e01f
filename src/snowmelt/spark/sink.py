"""`df.write` and `df.writeStream`: tasks stage rows, the driver publishes all of them in one step.

A batch is published under a name and a number: those of the query and its micro-batch, or the ones
a person gives a batch job. The queue remembers the numbers, so what is committed twice, because the
driver died before it could write down that it had committed, is in the queue once. The number is
the batch's, never a task's: a task that is run again need not have the same rows. How it is
published, into one queue or several, stands in `committing.py`. Of a queue of several partitions
each micro-batch goes into one, in turn by its number, so it is one step there.

What a stream's `foreachBatch` writes is a batch job of Spark's, and its tasks know the query as
well. So it needs no name, but a number: the query's name is another with each new checkpoint, whose
numbers begin with 0 again.
"""

import logging
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from snowmelt.core.errors import BadOption, Empty
from snowmelt.protocols.queue.api.partition_names import part_name
from snowmelt.spark.columns import check_writable
from snowmelt.spark.committing import PublicationName, StagedCommit, commit
from snowmelt.spark.connections import LOOK_SECONDS, check_kind, cluster_at, known, queues_at
from snowmelt.spark.errors import plainly
from snowmelt.spark.options import PRIORITY, SinkOptions, sink_options
from snowmelt.spark.settling import settling
from snowmelt.spark.several import queues_of
from snowmelt.spark.staging import stage
from snowmelt.spark.tables import without_read_only

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
_LOG: Final = logging.getLogger(__name__)


class _Staging:
    """What tasks do, of a batch job and of a stream alike."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    @plainly()
    @settling()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedCommit:
        options, context = self._options, TaskContext.get()
        query = batch = ""
        if context is not None:
            query = context.getLocalProperty(_QUERY) or ""
            batch = context.getLocalProperty(_BATCH) or ""
        if options.version is not None and not (options.producer or query):
            allowed = (
                "a name with txnVersion; a stream's foreachBatch needs none, but for Connect's"
            )
            raise BadOption("txnAppId", None, allowed)
        if options.partitions > 1:
            name = part_name(options.queue, _number(options, batch) % options.partitions)
            options = msgspec.structs.replace(options, queue=name, made={})
        done = stage(iterator, options)
        return StagedCommit(done.queues, done.rows, query, batch)


class BatchSink(_Staging, DataSourceArrowWriter):
    @plainly()
    @settling()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publishes what all tasks staged; once, when the job has a name and a number."""
        options = self._options
        staged = [one for one in messages if isinstance(one, StagedCommit)]
        producer = _producer(staged, options)
        # A job without a number needs no name: Spark commits it once, and nobody can run it again.
        named = options.version is not None and producer
        commit(staged, options, PublicationName(producer, options.version or 0) if named else None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leaves what was staged to be erased when its time is over."""
        _abandon(messages, self._options)


class StreamSink(_Staging, DataSourceStreamArrowWriter):
    """Writes a stream's micro-batches. The driver makes a new one for each commit."""

    @plainly()
    @settling()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Publishes the micro-batch, unless it was published before."""
        staged = [one for one in messages if isinstance(one, StagedCommit)]
        producer = _producer(staged, self._options)
        if producer:  # without rows, too: an earlier run may have begun to publish this batch
            _check_part(staged, self._options, batchId)
            commit(staged, self._options, PublicationName(producer, batchId))
        elif staged:
            raise BadOption("txnAppId", None, "a name: Spark does not say which query this is")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Leaves what was staged to be erased when its time is over."""
        _abandon(messages, self._options)


def sink(
    given: Mapping[str, str], schema: StructType, overwrite: bool, *, streaming: bool
) -> SinkOptions:
    """Checks all that can be checked before a task runs; also whether the cluster answers.

    A stream asks for this at each batch, so it waits for a cluster that lost a node just now.
    """
    options = sink_options(given, streaming)
    check_writable(without_read_only(schema), options.queue, urgent=options.kind == PRIORITY)
    if overwrite and streaming:
        allowed = (
            "append; for complete and update write each batch by foreachBatch, with txnAppId and "
            "txnVersion=batch_id (docs/reference/spark.md)"
        )
        raise BadOption("outputMode", "complete", allowed)
    if overwrite:
        raise BadOption("mode", "overwrite", "append: what is in a queue belongs to its readers")
    queues_at(options.connection, options.connection.timeout if streaming else LOOK_SECONDS)
    if options.queue:
        check_kind(options.connection, (options.queue,), options.kind)
        options = _in_parts(options)
    place = known(options.connection, cluster_at(options.connection).identity)
    return msgspec.structs.replace(options, connection=place)


def _in_parts(options: SinkOptions) -> SinkOptions:
    """The same, with how many partitions the queue has; it is made if it is to have several."""
    place, queue = options.connection, queues_of(cluster_at(options.connection), options.kind)
    if options.made.get("partitions", 1) > 1:
        with suppress(Empty):
            queue(options.queue, **options.made).get_many(1, timeout=0).release()
    elif options.queue not in queues_at(place, place.timeout, "parted"):
        return options
    count = len(queue(options.queue).parts(timeout=place.timeout))
    return msgspec.structs.replace(options, partitions=count, drawn=secrets.randbelow(count))


def _number(options: SinkOptions, batch: str) -> int:
    """Decides into which partition a write goes: the same whenever it is done again."""
    if options.version is not None:
        return options.version
    return int(batch) if batch else options.drawn


def _check_part(staged: list[StagedCommit], options: SinkOptions, number: int) -> None:
    """A micro-batch that is done again has to come where it would have come before."""
    own = part_name(options.queue, number % options.partitions)
    strange = [name for one in staged for name in one.queues if name != own]
    if options.partitions > 1 and strange:
        allowed = f"{own}: this task does not know from Spark that it is of batch {number}"
        raise BadOption("the partition of a task", strange[0], allowed)


def _producer(staged: list[StagedCommit], options: SinkOptions) -> str:
    """The name that was given, or the query's, which tasks know and the driver does not."""
    query = next((one.query for one in staged if one.query), "")
    return options.producer or (f"spark-{query}" if query else "")


def _abandon(messages: list[WriterCommitMessage | None], options: SinkOptions) -> None:
    rows = sum(one.rows for one in messages if isinstance(one, StagedCommit))
    _LOG.warning("a write failed; %d staged rows are erased within %g s", rows, options.hold)
