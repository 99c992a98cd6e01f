"""A queue of several partitions, read and filled by Spark: exactly once, partition by partition."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from snowmelt.core.errors import BadOption
from snowmelt.spark.columns import source_schema
from snowmelt.spark.options import sink_options
from snowmelt.spark.sink import _check_part, _number
from snowmelt.spark.stream_source import StreamReader
from spark.cluster import Queues, bodies, queues_of


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    with queues_of(2, tmp_path_factory.mktemp("queues")) as running:
        yield running


def filled(queues: Queues, name: str, count: int) -> list[bytes]:
    some = [b"%d" % at for at in range(count)]
    log = queues.fifo(name, partitions=3)
    for at in range(0, count, 5):
        log.put_many(some[at : at + 5])
    return some


def test_a_stream_reads_all_partitions_and_goes_on_where_it_was(
    spark: SparkSession, queues: Queues
) -> None:
    some = filled(queues, "read", 60)
    seen: list[tuple[str, bytes, int]] = []

    def keep(rows, number) -> None:  # type: ignore[no-untyped-def]
        del number
        found = rows.select("queue", "value", "position").collect()
        seen.extend((row.queue, bytes(row.value), row.position) for row in found)

    queues.each(queues.stream(spark, queue="read"), "read", keep)
    assert sorted(seen, key=lambda row: row[2]) == [("read", one, int(one)) for one in some]
    queues.fifo("read").put_many([b"60", b"61"])
    queues.each(queues.stream(spark, queue="read"), "read", keep)
    assert sorted(int(value) for _, value, _ in seen) == list(range(62))
    status = queues.fifo("read").stats()
    assert (status.ready, status.assigned, status.done) == (0, 0, 62)


def test_offsets_name_partitions_and_a_batch_is_the_same_again(queues: Queues) -> None:
    some = filled(queues, "again", 30)
    given = {"url": queues.url, "timeout": "10", "queue": "again"}
    reader = StreamReader(given, source_schema("false"))
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(12))
    assert sorted(first["queues"]) == ["again/0", "again/1", "again/2"]
    assert sum(count for _, count in first["queues"].values()) == 12
    assert reader.reportLatestOffset()["queues"] == {"again": {"ready": 18}}  # type: ignore[index]
    later = StreamReader(given, source_schema("false"))
    both = [
        [
            value
            for partition in one.partitions(start, first)
            for batch in one.read(partition)
            for value in batch["value"].to_pylist()
        ]
        for one in (reader, later)
    ]
    assert both[0] == both[1]
    second = later.latestOffset(first, ReadAllAvailable())
    assert sum(count for _, count in second["queues"].values()) == len(some)


@pytest.mark.wide
def test_micro_batches_go_into_partitions_in_turn_and_once(
    spark: SparkSession, queues: Queues
) -> None:
    files = queues.folder / "files"
    files.mkdir()
    for at in range(3):
        (files / f"{at}.txt").write_text(f"{2 * at}\n{2 * at + 1}\n")
    rows = spark.readStream.option("maxFilesPerTrigger", 1).text(str(files))
    query = queues.into(rows, "into", queue="into", partitions="3")
    assert [part.stats().ready for part in queues.fifo("into").parts()] == [2, 2, 2]
    last = query.lastProgress["batchId"]
    for name in (str(last), f".{last}.crc"):
        Path(queues.path("into"), "commits", name).unlink()
    queues.into(rows, "into", queue="into", partitions="3")
    assert sorted(bodies(queues.fifo("into"))) == [b"%d" % at for at in range(6)]


def test_a_batch_job_with_a_number_is_done_once(spark: SparkSession, queues: Queues) -> None:
    frame = spark.createDataFrame([(b"a",), (b"b",), (b"c",)], "value binary")
    for _ in range(2):
        queues.write(frame, queue="job", partitions="3", txnAppId="daily", txnVersion="7")
    assert sorted(bodies(queues.fifo("job"))) == [b"a", b"b", b"c"]
    queues.write(frame, queue="job")
    assert len(bodies(queues.fifo("job"))) == 6
    assert [part.stats().ready for part in queues.fifo("job").parts()][7 % 3] >= 3


def test_priorities_are_written_and_read_too(spark: SparkSession, queues: Queues) -> None:
    frame = spark.createDataFrame(
        [(b"%d" % at, at % 5) for at in range(20)], "value binary, priority int"
    )
    queues.write(frame, queue="jobs", kind="priority", partitions="2")
    jobs = queues.priority("jobs")
    assert [one.priority for one in jobs.peek(20)] == sorted(at % 5 for at in range(20))
    seen: list[tuple[int, bytes]] = []

    def keep(rows, number) -> None:  # type: ignore[no-untyped-def]
        del number
        seen.extend((row.priority, bytes(row.value)) for row in rows.collect())

    queues.each(queues.stream(spark, queue="jobs", kind="priority"), "jobs", keep)
    assert sorted(seen) == sorted((at % 5, b"%d" % at) for at in range(20))


def test_a_queue_is_read_as_it_is(spark: SparkSession, queues: Queues) -> None:
    some = filled(queues, "snapshot", 15)
    assert sorted(bytes(row.value) for row in queues.read(spark, "snapshot").collect()) == sorted(
        some
    )
    assert queues.fifo("snapshot").stats().ready == 15


def test_a_task_that_does_not_know_its_batch_is_refused_where_it_would_count() -> None:
    options = sink_options({"url": "snowmelt://h:1", "queue": "log"}, streaming=True)
    assert _number(options, "5") == 5
    _check_part([], options, 5)
    with pytest.raises(BadOption, match="none: all partitions of a queue are read"):
        StreamReader(
            {"url": "snowmelt://h:1", "assign": "x"}, source_schema("false")
        ).initialOffset()
