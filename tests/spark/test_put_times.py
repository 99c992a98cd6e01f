"""A time column, so that Spark's own words for lateness work: watermarks, windows, duplicates."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from snowmelt.client.fifo.face import Fifo
from spark.cluster import Queues, queues_of

WINDOW = timedelta(milliseconds=20)
EPOCH = datetime.fromtimestamp(0, UTC)


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    with queues_of(1, tmp_path_factory.mktemp("queues")) as running:
        yield running


def put_at(queue: Fifo) -> list[datetime]:
    """When each item was put, to the microsecond."""
    times = [seen.put_at for seen in queue.peek(1000)]
    return [time for time in times if time is not None]


def filled(queues: Queues, name: str) -> Fifo:
    """Puts of three items each, over some windows."""
    queue = queues.fifo(name)
    queue.put_many([b"a", b"b", b"0"])
    while (times := put_at(queue))[-1] - times[0] < 4 * WINDOW:
        queue.put_many([b"a", b"b", b"%d" % len(times)])
    return queue


def test_windows_over_a_watermark_count_what_was_put_in_each(
    spark: SparkSession, queues: Queues
) -> None:
    times = put_at(filled(queues, "windows"))
    latest = EPOCH + (max(times) - EPOCH) // timedelta(milliseconds=1) * timedelta(milliseconds=1)
    starts = Counter(time - (time - EPOCH) % WINDOW for time in times)
    window = f.window("timestamp", f"{WINDOW // timedelta(milliseconds=1)} milliseconds")
    frame = queues.stream(spark, queue="windows").withWatermark("timestamp", "0 seconds")
    counted: list[tuple[datetime, int]] = []

    def count(batch: DataFrame, _: int) -> None:
        rows = batch.select(f.unix_micros("window.start").alias("at"), "count").collect()
        counted.extend((EPOCH + timedelta(microseconds=row.at), row["count"]) for row in rows)

    queues.each(frame.groupBy(window).count(), "windows", count)
    # A window is told once, when the watermark is past it; the last one is still open.
    assert sorted(counted) == sorted(
        (start, count) for start, count in starts.items() if start + WINDOW <= latest
    )


@pytest.mark.wide
def test_duplicates_within_the_watermark_are_dropped_across_batches(
    spark: SparkSession, queues: Queues
) -> None:
    queue = filled(queues, "twice")
    late = queues.stream(spark, queue="twice").withWatermark("timestamp", "1 hour")
    came: list[bytes] = []

    def keep(batch: DataFrame, _: int) -> None:
        came.extend(bytes(row.value) for row in batch.collect())

    bodies = {seen.body for seen in queue.peek(1000)}
    queues.each(late.dropDuplicatesWithinWatermark(["value"]), "twice", keep)
    assert sorted(came) == sorted(bodies)
    queue.put_many([b"a", b"new", b"b"])
    queues.each(late.dropDuplicatesWithinWatermark(["value"]), "twice", keep)
    assert sorted(came) == sorted({*bodies, b"new"})


def test_a_snapshot_has_the_times_and_a_schema_may_ask_for_nothing_else(
    spark: SparkSession, queues: Queues
) -> None:
    times = put_at(filled(queues, "times"))
    reader = spark.read.format("snowmelt").options(url=queues.url, queue="times")
    rows = reader.schema("timestamp timestamp").load().select(f.unix_micros("timestamp")).collect()
    assert [EPOCH + timedelta(microseconds=row[0]) for row in rows] == times
    jobs = queues.priority("urgent", priorities=2)
    jobs.put_many([(1, b"later"), (0, b"now")])
    (seen, *_) = jobs.peek()
    kept = queues.stream(spark, queue="urgent", kind="priority").select("priority", "timestamp")
    told: list[datetime] = []

    def keep(batch: DataFrame, _: int) -> None:
        micros = batch.where("priority = 0").select(f.unix_micros("timestamp")).collect()
        told.extend(EPOCH + timedelta(microseconds=row[0]) for row in micros)

    queues.each(kept, "urgent", keep)
    assert told == [seen.put_at]
