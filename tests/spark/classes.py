"""`python -m spark.classes` writes down the classes that Spark has loaded in a small session.

It is done once for an installed Spark, in the background while a whole run of tests is collected
(`tests/conftest.py`). Each Java that tests start takes its classes from there.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark.sql import SparkSession

from snowmelt.spark.java import find_java
from snowmelt.spark.session import JAVA_OPTIONS, session
from snowmelt_world.standalone import CLASSES, QUICK
from spark.cluster import queues_of

END_SECONDS = 300


def make() -> None:
    """All is written beside where it is to be, and then moved: others may do the same."""
    partial = CLASSES.with_suffix(f".{os.getpid()}")
    options = f"{QUICK} -XX:ArchiveClassesAtExit={partial} -Xlog:disable"
    with TemporaryDirectory() as folder:
        conf = {JAVA_OPTIONS: options, "spark.sql.warehouse.dir": f"{folder}/tables"}
        spark = session("classes", master="local[2]", **conf)
        java = spark.sparkContext._gateway.proc
        use(spark, Path(folder))
        spark.stop()
    try:
        java.stdin.close()  # then it ends, and writes
        java.wait(END_SECONDS)
        partial.replace(CLASSES)
    finally:
        partial.unlink(missing_ok=True)


def use(spark: SparkSession, folder: Path) -> None:
    """A little of what tests do: streams, tables, functions in Python, files."""
    with queues_of(1, folder) as queues:
        queues.fifo("in").put_many([b"%d" % number for number in range(20)])
        rows = queues.stream(spark, queue="in").select("value")
        queues.into(rows.mapInArrow(same, "value binary"), "into", queue="out")
        out = queues.stream(spark, queue="out")
        queues.each(out, "each", lambda some, _: some.write.parquet(queues.path("parquet")))
        options = f"options (url '{queues.url}', queue 'out')"
        spark.sql(f"create table items using snowmelt {options}")
        spark.sql("insert into items (value) select cast(queue as binary) from items")
        queues.read(spark, "out").groupBy("queue").count().orderBy("queue").collect()


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__" and not find_java().trimmed:  # that one has no archive to add to
    make()
