"""`format("snowmelt")`: queues as Spark reads and writes them."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from snowmelt.core.errors import BadOption
from snowmelt.spark import tables
from snowmelt.spark.columns import priority_type, readable, source_schema
from snowmelt.spark.connections import PlannedPart, check_queues, cluster_at, known, queue_names
from snowmelt.spark.errors import plainly
from snowmelt.spark.options import FIFO, PRIORITY, source_options
from snowmelt.spark.partitions import Tasks, tasks, waiting
from snowmelt.spark.reader_function import ReaderFunction
from snowmelt.spark.reading import rows_of
from snowmelt.spark.settling import settling
from snowmelt.spark.sink import BatchSink, StreamSink, sink
from snowmelt.spark.stream_source import StreamReader, settings_of


class SnapshotReader(DataSourceReader):
    """Reads what waits when it is planned; what others take before it is read, is missing."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = source_options(given)
        self._schema = readable(schema)

    @plainly()
    def partitions(self) -> list[InputPartition]:
        """A partition for each run of items that wait now."""
        options = self._options
        place = options.connection
        found = [
            one
            for name in queue_names(options)
            for one in waiting(cluster_at(place).fifo(name), place.timeout)
        ]
        wanted = Tasks(options.partitions_min, options.cores)
        there = known(place, cluster_at(place).identity)
        return [PlannedPart(task, there) for task in tasks(found, wanted)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition; Spark plans one with nothing in it when there is none."""
        with plainly(), settling():
            if isinstance(partition, PlannedPart):
                yield from rows_of(partition.value, partition.there(self._options), self._schema)


class SnowmeltDataSource(DataSource):
    """Queues of a cluster as a source and a sink, for streams and for batch jobs.

    Read as a stream, a queue's items are a group's own until the stream is past them:

        spark.readStream.format("snowmelt").option("url", url).option("queue", "raw").load()

    `spark.read` is a snapshot, which takes nothing. Options of a source, their case being free:

    - `url` (needed), `user`, `token`, and `timeout`: so many seconds it waits for the cluster (60)
    - `kind`: "fifo", or "priority" for a priority queue; each micro-batch takes the most urgent
      items
    - `queue`, or `queues` (with commas between), or `queuePattern`; also `subscribe` and
      `subscribePattern`, as Kafka's source calls them
    - `group`: under which name to read ("spark"); one stream only has a name at a time
    - `maxMessagesPerTrigger` (also `maxOffsetsPerTrigger`), `maxBytesPerTrigger`: how much a
      micro-batch takes at most; the bytes are shared evenly among several queues
    - `minPartitions`: in how many tasks to read at least
    - `cores`: how many tasks are run at once (as many as the session had when it was registered);
      what is worth it is cut into as many
    - `batchSeconds`: how long a micro-batch is to last: the first is small, the next ones grow
    - `failOnDataLoss` (true): end with an error when items can't be read, or go on without them
    - `failOnOlderCheckpoint` (true): end with an error when the checkpoint lost a batch, or plan
      it again
    - `includeHeaders` (false): true for a column `headers` of text, `binary` for one of bytes

    The columns are `key`, `value`, `queue`, `position`, `timestamp` (when it was put) and
    `failures`. A `.schema("value string")` of some of them reads no others.

    A priority queue has a column `priority`, as long, or as its priorities are, and no `key`.

    Written are the columns `value`, and if there are `key`, `headers`, `delay` (in seconds, rounded
    up to tenths) and `queue`:

        df.writeStream.format("snowmelt").option("url", url).option("queue", "tracks").start()

    - `kind`: "priority" for priority queues; then a column `priority` says how urgent a row is, and
      there is no `key`
    - `queue`: where all rows go; without it the column `queue` says it for each
    - `txnAppId`: the name under which batches are published; a stream has its query's id. With a
      new checkpoint give a new name: its batches are numbered from 0 again
    - `txnVersion`: a batch job's number; one with the same name and number is put once
    - `stagedFor`: for how many seconds rows wait to be published (6 hours), then they are erased
    - `replicas`, `durableCopies`, `flush`, `lease`, `maxDeliveries`, `maxItems`, `maxBytes`: with
      which settings a queue is made that is not there
    """

    cores = 0
    """How many tasks its session runs at once; 0 where that is not known."""
    inside: ReaderFunction | None = None
    """What a stream makes of its rows while it reads them."""

    def __reduce__(self) -> tuple[Callable[..., "SnowmeltDataSource"], tuple[Any, ...]]:
        return _made, (self.options, self.cores, self.inside)

    @classmethod
    def name(cls) -> str:
        """What `spark.read.format` calls this source."""
        return "snowmelt"

    @plainly()
    @settling()
    def schema(self) -> StructType | str:
        """The columns; asked for by `load`, so any mistake in the options is reported here."""
        given = tables.told(self.options) if tables.is_made(self.options) else self.options
        options = source_options(given)
        check_queues(options)
        urgent = options.kind == PRIORITY
        priority = priority_type(settings_of(options, options.queues[0])) if urgent else None
        if self.inside is not None:
            return self.inside.columns
        columns = source_schema(options.headers, priority=priority)
        return tables.with_options(columns, given) if given is not self.options else columns

    @plainly()
    @settling()
    def reader(self, schema: StructType) -> SnapshotReader:
        """A batch read: the items that are ready when it is planned."""
        given = tables.read_options(schema, self.options)
        if source_options(given).kind == PRIORITY:
            allowed = f"{FIFO} for a snapshot; a priority queue is read by readStream, or by `peek`"
            raise BadOption("kind", PRIORITY, allowed)
        return SnapshotReader(self._with_cores(given), schema)

    @plainly()
    @settling()
    def streamReader(  # noqa: N802  # Spark's word
        self, schema: StructType
    ) -> StreamReader:
        """A stream: one group reads its queues from where it stands."""
        given = self._with_cores(tables.read_options(schema, self.options))
        return StreamReader(given, schema, self.inside)

    @plainly()
    @settling()
    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        """Writes a batch job's rows, all of them or none."""
        given = tables.written_options(schema, self.options)
        return BatchSink(sink(given, schema, overwrite, streaming=False))

    @plainly()
    @settling()
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: N802
        """Writes each micro-batch of a stream once."""
        given = tables.written_options(schema, self.options)
        return StreamSink(sink(given, schema, overwrite, streaming=True))

    def _with_cores(self, given: dict[str, str]) -> dict[str, str]:
        return {"cores": str(self.cores), **given} if self.cores else given


def of_session(
    cores: int, name: str = "snowmelt", inside: ReaderFunction | None = None
) -> type[SnowmeltDataSource]:
    """The same for a session that runs so many tasks at once, which only its own program can ask.

    >>> of_session(8).name(), of_session(8)({}).cores
    ('snowmelt', 8)
    """
    own = {"cores": cores, "inside": inside, "name": classmethod(lambda _: name)}
    return type("SessionDataSource", (SnowmeltDataSource,), own)


def _made(
    options: MutableMapping[str, str], cores: int, inside: ReaderFunction | None
) -> SnowmeltDataSource:
    """One in another process, where its class is found by the name."""
    source = SnowmeltDataSource(options)
    source.cores, source.inside = cores, inside
    return source
