"""`spark.read`: a snapshot of what waits in queues. It takes nothing, and keeps nothing there."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from snowmelt.spark.columns import readable
from snowmelt.spark.connections import PlannedPart, cluster_at, known, queue_names
from snowmelt.spark.errors import plainly
from snowmelt.spark.options import source_options
from snowmelt.spark.partitions import Tasks, tasks, waiting
from snowmelt.spark.reading import rows_of
from snowmelt.spark.settling import settling


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
