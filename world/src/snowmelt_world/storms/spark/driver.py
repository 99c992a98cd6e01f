"""The program that is killed: `python -m snowmelt_world.storms.spark.driver LOAD TRIGGER`.

It runs the stream from the checkpoint until it is killed; with the trigger `drain`, until all that
was there at its start is through. A line on standard output tells of each micro-batch that is done
with: the first of them is when it is fully there. It ends with 2, and with Spark's words on
standard error, when the stream ends in an error.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from snowmelt.spark.failing import cause_of
from snowmelt.spark.session import JAVA_OPTIONS, session
from snowmelt_world.standalone import quick
from snowmelt_world.storms.spark.load import DONE, GROUP, SINK, SOURCES, StreamLoad

MASTER = "local[2,2]"
"""Two tasks at a time, and each may be tried twice: a worker that is killed is not the end."""
PARTITIONS = 2
LOOK_SECONDS = 0.02


def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Appends a word to each value, in Python."""
    for batch in batches:
        values = [value + DONE for value in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["value"])


def started(spark: SparkSession, load: StreamLoad, trigger: str) -> StreamingQuery:
    frame = (
        spark.readStream.format("snowmelt")
        .options(url=load.url, queues=",".join(SOURCES), group=GROUP, failOnOlderCheckpoint="false")
        .options(maxMessagesPerTrigger=str(load.settings.rows), minPartitions=str(PARTITIONS))
        .load()
        .select("value")
        .mapInArrow(work, "value binary")
    )
    writer = frame.writeStream.format("snowmelt").options(url=load.url, queue=SINK)
    writer = writer.option("checkpointLocation", str(load.checkpoint))
    if trigger == "drain":
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=trigger).start()


def watch(query: StreamingQuery) -> None:
    """Tells of each batch, until the stream ends, or nobody is there any more to kill it."""
    told, killer = -1, os.getppid()
    while query.isActive:
        if os.getppid() != killer:
            return
        progress = query.lastProgress
        if progress is not None and progress.numInputRows and progress.batchId != told:
            told = progress.batchId
            print(f"batch {told} {progress.numInputRows}", flush=True)
        time.sleep(LOOK_SECONDS)
    query.awaitTermination()


def main() -> int:
    load = msgspec.json.decode(sys.argv[1], type=StreamLoad)
    small = {"spark.executor.extraJavaOptions": quick(), "spark.executor.memory": "512m"}
    where = {"master": load.master, **small} if load.master else {"master": MASTER}
    spark = session("chaos", **where, **{JAVA_OPTIONS: quick()})
    try:
        watch(started(spark, load, sys.argv[2]))
    except StreamingQueryException as error:
        print(error, cause_of(str(error)), sep="\n", file=sys.stderr)
        return 2
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
