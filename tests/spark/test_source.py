"""Reading a snapshot: what waits, in order, and nothing is taken."""

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import msgspec
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from snowmelt.core.errors import DataLost
from snowmelt.protocols.queue.api.labels import Labels
from snowmelt.spark.columns import readable, source_schema
from snowmelt.spark.datasource import SnapshotReader, SnowmeltDataSource, of_session
from snowmelt.spark.options import source_options
from snowmelt.spark.partitions import LocatedItems, Tasks, tasks, waiting
from snowmelt.spark.reading import rows_of
from spark.cluster import Queues, queues_of


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    with queues_of(1, tmp_path_factory.mktemp("queues")) as running:
        yield running


def test_a_snapshot_has_all_that_waits_and_takes_nothing(
    spark: SparkSession, queues: Queues
) -> None:
    queue = queues.fifo("many")
    queue.put_many([b"%d" % at for at in range(100_000)])
    with queue.get_many(10):
        rows = queues.read(spark, "many").select("value", "position").collect()
    assert [row.position for row in rows] == list(range(10, 100_000))
    assert all(int(row.value) == row.position for row in rows)
    frame = queues.read(spark, "many", minPartitions="5")
    assert frame.rdd.getNumPartitions() >= 5
    assert frame.count() == 99_990  # ten were acknowledged
    assert queue.stats().ready == 99_990


def test_it_is_cut_into_as_many_tasks_as_the_session_runs_at_once(
    spark: SparkSession, queues: Queues
) -> None:
    queues.fifo("halves").put_many([b"%d" % at for at in range(5001)])
    frame = queues.read(spark, "halves")
    parts = frame.select("position").rdd.glom().map(len).collect()
    assert parts == [2501, 2500], "the session has two cores, and told the source when it was made"
    assert queues.read(spark, "halves", cores="1").rdd.getNumPartitions() == 1
    made = of_session(3)({"url": queues.url, "queue": "halves"})
    sent = pickle.loads(cloudpickle.dumps(made))
    assert (type(sent), sent.cores, sent.options) == (SnowmeltDataSource, 3, made.options)


def test_keys_headers_failures_and_queues_are_columns(spark: SparkSession, queues: Queues) -> None:
    queue = queues.fifo("labelled")
    labels = Labels({"from": "shop"}, (b"k", None), (None, {"n": "2"}))
    queue.publish(queue.stage([b"one", b"two"], headers=labels))
    queue.put(b"three")
    queue.get().nack(reason="no")
    queues.fifo("labelled2").put(b"four")
    rows = queues.read(spark, "labelled", includeHeaders="true").collect()
    assert [(*row[:4], *row[5:]) for row in rows] == [
        (b"k", b"one", "labelled", 0, 1, {"from": "shop"}),
        (None, b"two", "labelled", 1, 0, {"from": "shop", "n": "2"}),
        (None, b"three", "labelled", 2, 0, None),
    ]
    reader = spark.read.format("snowmelt").option("url", queues.url)
    both = reader.option("queuePattern", "label.*").load()
    assert both.columns == ["key", "value", "queue", "position", "timestamp", "failures"]
    assert [(row.queue, row.position) for row in both.collect()] == [
        ("labelled", 0),
        ("labelled", 1),
        ("labelled", 2),
        ("labelled2", 0),
    ]
    assert reader.option("queuePattern", "abel.*").load().count() == 0


def test_a_schema_of_some_columns_reads_these(spark: SparkSession, queues: Queues) -> None:
    queues.fifo("text").put_many(["grün".encode(), b"red"])
    reader = spark.read.format("snowmelt").options(url=queues.url, queue="text")
    rows = reader.schema("position long, value string").load().collect()
    assert [tuple(row) for row in rows] == [(0, "grün"), (1, "red")]
    queues.fifo("text").put(b"\xff")
    with pytest.raises(PythonException, match="the value at position 2 is no UTF-8"):
        reader.schema("value string").load().collect()


def test_an_empty_queue_has_no_rows(spark: SparkSession, queues: Queues) -> None:
    queue = queues.fifo("empty")
    queue.put(b"1")
    queue.get().ack()
    assert queues.read(spark, "empty").collect() == []


def portion_rows(
    queues: Queues, found: list[LocatedItems], **options: str
) -> Iterator[pa.RecordBatch]:
    given = source_options({"url": queues.url, "queue": "x", "timeout": "1", **options})
    for task in tasks(found, Tasks()):
        yield from rows_of(task, given, readable(source_schema("false")))


def test_what_others_took_meanwhile_is_missed_or_passed_over(queues: Queues) -> None:
    queue = queues.fifo("taken")
    queue.put_many([b"%d" % at for at in range(10)])
    found = list(waiting(queue, 10.0))
    queue.put(b"later")
    queue.get_many(4).ack()
    queue.get_many(1)
    end = time.monotonic() + 10
    while queue.stats().done < 4 and time.monotonic() < end:
        time.sleep(0.05)
    # What was taken may be on the disk for a while: ask for it where it never was.
    spans = [
        msgspec.structs.replace(span, stream="gone", keepers=span.keepers)
        for span in found[0].located.spans
    ]
    gone = [LocatedItems("taken", msgspec.structs.replace(found[0].located, spans=tuple(spans)))]
    with pytest.raises(
        DataLost, match=r"5 items of queue 'taken', positions 0 to 4: lost .*or others took them"
    ):
        list(portion_rows(queues, gone))
    batches = list(portion_rows(queues, gone, failOnDataLoss="false"))
    values = [value for batch in batches for value in batch["value"].to_pylist()]
    assert values == [b"%d" % at for at in range(5, 10)]


def test_a_reader_waits_for_a_node_that_comes_back(tmp_path: Path) -> None:
    with queues_of(1, tmp_path) as queues:
        queue = queues.fifo("raw")
        queue.put_many([b"%d" % at for at in range(1000)])
        options = {"url": queues.url, "queue": "raw", "timeout": "30"}
        reader = SnapshotReader(options, StructType().add("value", "string"))
        (partition,) = reader.partitions()
        (node,) = queues.cluster.nodes
        node.kill()
        timer = Timer(1.0, node.start)
        timer.start()
        try:
            rows = [
                value for batch in reader.read(partition) for value in batch["value"].to_pylist()
            ]
        finally:
            timer.join()
        assert rows == [str(at) for at in range(1000)]
