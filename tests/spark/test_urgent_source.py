"""Reading a priority queue as a stream: the most urgent first, into each micro-batch, once."""

from collections.abc import Iterator
from random import Random

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import DataType, DoubleType, IntegerType, LongType

from snowmelt.client.priority.face import PriorityQueue
from snowmelt.core.errors import BadOption, GroupHeld, LeaseLost
from snowmelt.spark.columns import source_schema
from snowmelt.spark.stream_source import StreamReader
from spark.cluster import Queues, queues_of

Pair = tuple[float, bytes]


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    with queues_of(1, tmp_path_factory.mktemp("queues")) as running:
        yield running


def filled(queues: Queues, name: str, count: int) -> PriorityQueue:
    jobs = queues.priority(name, priorities=3)
    jobs.put_many([(number % 3, b"%d" % number) for number in range(count)])
    return jobs


def reader_of(
    queues: Queues, queue: str, kind: DataType | None = None, **options: str
) -> StreamReader:
    given = {"url": queues.url, "kind": "priority", "queue": queue, "timeout": "10", **options}
    return StreamReader(given, source_schema("false", priority=kind or IntegerType()))


def read(reader: StreamReader, start: dict, end: dict) -> list[Pair]:
    return [
        pair
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for pair in zip(batch["priority"].to_pylist(), batch["value"].to_pylist(), strict=True)
    ]


# --- through the reader, as Spark calls it --------------------------------------------------------


def test_offsets_alone_say_which_rows(queues: Queues) -> None:
    jobs = filled(queues, "alone", 12)
    start = reader_of(queues, "alone").initialOffset()
    assert start == {"v": 1, "group": "spark", "queues": {}}
    first = reader_of(queues, "alone").latestOffset(start, ReadMaxRows(5))
    again = reader_of(queues, "alone")  # a new process, before the offset was written down
    first = again.latestOffset(start, ReadMaxRows(9))
    rows = read(again, start, first)
    assert rows == [(0, b"0"), (0, b"3"), (0, b"6"), (0, b"9"), (1, b"1")]
    jobs.put(b"fire", priority=0)
    second = again.latestOffset(first, ReadMaxRows(3))
    later = reader_of(queues, "alone", minPartitions="3")
    assert read(later, first, second) == [(0, b"fire"), (1, b"4"), (1, b"7")]
    assert read(later, first, second) == read(reader_of(queues, "alone"), first, second)
    assert jobs.stats().assigned == 3
    third = later.latestOffset(second, ReadAllAvailable())
    assert len(read(later, second, third)) == 5
    assert later.latestOffset(third, ReadAllAvailable()) == third
    assert (jobs.stats().assigned, jobs.stats().ready) == (0, 0)


def test_commit_acknowledges_and_takes_nothing(queues: Queues) -> None:
    jobs = filled(queues, "commit", 10)
    reader = reader_of(queues, "commit")
    first = reader.latestOffset(reader.initialOffset(), ReadMaxRows(4))
    reader.commit(first)
    assert (jobs.stats().assigned, jobs.stats().ready) == (0, 6)


def test_an_older_checkpoint_and_a_second_query_are_refused(queues: Queues) -> None:
    filled(queues, "older", 9)
    reader = reader_of(queues, "older")
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(3))
    read(reader, start, first)
    with pytest.raises(GroupHeld, match="this reader does not know it"):
        reader_of(queues, "older").latestOffset(start, ReadMaxRows(3))
    second = reader.latestOffset(first, ReadMaxRows(3))
    rows = read(reader, first, second)
    with pytest.raises(GroupHeld, match="was planned, and this checkpoint does not know it: it is"):
        reader_of(queues, "older").latestOffset(first, ReadMaxRows(3))
    again = reader_of(queues, "older", failOnOlderCheckpoint="false")
    assert again.latestOffset(first, ReadMaxRows(3)) == second
    assert read(again, first, second) == rows
    reader.latestOffset(second, ReadMaxRows(3))
    with pytest.raises(GroupHeld, match="is done with 6 items, and this reader knows of 3 only"):
        reader_of(queues, "older").latestOffset(first, ReadMaxRows(3))
    with pytest.raises(GroupHeld):
        reader_of(queues, "older").partitions(start, first)


def test_a_released_group_ends_the_query_and_gives_its_items_back(queues: Queues) -> None:
    jobs = filled(queues, "released", 6)
    reader = reader_of(queues, "released")
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(4))
    assert len(read(reader, start, first)) == 4
    assert jobs.group("spark").release() == 4
    with pytest.raises(LeaseLost, match="groups release released spark"):
        reader.latestOffset(first, ReadMaxRows(4))
    assert jobs.stats().ready == 6


@pytest.mark.parametrize("kind", [int, float])
def test_any_priorities_are_read_in_their_order(queues: Queues, kind: type) -> None:
    jobs = queues.priority(f"any-{kind.__name__}", priorities=kind, largest_first=kind is float)
    dice = Random(1)
    numbers = [kind(dice.randrange(-(2**53), 2**53)) for _ in range(300)]
    jobs.put_many([(number, b"%d" % number) for number in numbers])
    column = LongType() if kind is int else DoubleType()
    reader = reader_of(queues, jobs.name, column, minPartitions="3")
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(200))
    again = reader_of(queues, jobs.name, column, minPartitions="3")
    rows = read(again, start, first)
    second = again.latestOffset(first, ReadAllAvailable())
    rows += read(again, first, second)
    assert [number for number, _ in rows] == sorted(numbers, reverse=kind is float)
    assert all(int(body) == number for number, body in rows)
    assert again.latestOffset(second, ReadAllAvailable()) == second
    assert (jobs.stats().assigned, jobs.stats().ready) == (0, 0)
    with pytest.raises(BadOption, match=f"allowed: priority as {column.simpleString()}, as any-"):
        reader_of(queues, jobs.name).initialOffset()


# --- through Spark --------------------------------------------------------------------------------


def test_each_micro_batch_takes_the_most_urgent_that_was_there_and_each_item_comes_once(
    spark: SparkSession, queues: Queues
) -> None:
    jobs = filled(queues, "jobs", 90)
    seen: dict[int, list[Pair]] = {}

    def note(frame: DataFrame, batch: int) -> None:
        if batch == 1 and batch not in seen:
            jobs.put(b"fire", priority=0)
        seen[batch] = [(row.priority, bytes(row.value)) for row in frame.collect()]

    options = {"kind": "priority", "queue": "jobs", "maxMessagesPerTrigger": "20"}
    queues.each(queues.stream(spark, **options), "jobs", note)
    rows = [pair for batch in sorted(seen) for pair in seen[batch]]
    of = [(number % 3, number) for number in range(90)]
    assert rows == [(priority, b"%d" % number) for priority, number in sorted(of)]
    later = len(seen)
    queues.each(queues.stream(spark, **options), "jobs", note)
    assert seen[later] == [(0, b"fire")]  # what came meanwhile is the next run's
    assert jobs.stats().ready == jobs.stats().assigned == 0


@pytest.mark.wide
def test_from_a_priority_queue_into_another_by_way_of_a_new_urgency(
    spark: SparkSession, queues: Queues
) -> None:
    filled(queues, "from", 30)
    options = {"kind": "priority", "queue": "from", "maxMessagesPerTrigger": "8"}
    for _ in range(2):
        frame = queues.stream(spark, **options).selectExpr("value", "2 - priority priority")
        queues.into(frame, "from", kind="priority", queue="to")
    queues.priority("back", priorities=float).put(b"30", priority=1e300)
    frame = queues.stream(spark, kind="priority", queue="to")
    assert dict(frame.dtypes)["priority"] == "bigint"
    frame = frame.selectExpr("value", "-priority / 2D priority")
    queues.into(frame, "to", kind="priority", queue="back")
    assert dict(queues.stream(spark, kind="priority", queue="back").dtypes)["priority"] == "double"
    got = queues.priority("back").get_many(100, timeout=5)
    assert sorted(int(item.body) for item in got) == list(range(31))
    urgency = {-1.0: 0, -0.5: 1, 0.0: 2, 1e300: 0}
    assert all(urgency[item.priority] == int(item.body) % 3 for item in got)


@pytest.mark.wide
def test_what_can_not_be_had_of_a_priority_queue_is_said(
    spark: SparkSession, queues: Queues
) -> None:
    filled(queues, "said", 1)
    queues.fifo("plain").put(b"a")
    with pytest.raises(AnalysisException, match="kind is 'fifo'; allowed: priority: 'said' is a"):
        queues.stream(spark, queue="said")
    with pytest.raises(AnalysisException, match="kind is 'priority'; allowed: fifo: 'plain' is a"):
        queues.stream(spark, queue="plain", kind="priority")
    with pytest.raises(AnalysisException, match="allowed: one queue with kind=priority"):
        queues.stream(spark, queues="said,other", kind="priority")
    with pytest.raises(AnalysisException, match="allowed: fifo for a snapshot"):
        queues.read(spark, "said", kind="priority").collect()
    query = queues.stream(spark, queue="said", kind="priority").writeStream.format("noop")
    started = query.option("checkpointLocation", queues.path("said")).trigger(availableNow=True)
    assert started.start().awaitTermination(60)
    other = query.option("checkpointLocation", queues.path("other")).trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match="GroupHeld"):
        other.start().awaitTermination(60)
