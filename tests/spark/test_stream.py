"""Reading a stream: exactly once, from offsets alone, acknowledged to the last item."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from snowmelt.core.errors import GroupHeld, LeaseLost
from snowmelt.spark import connections
from snowmelt.spark.columns import source_schema
from snowmelt.spark.lag import Lag, QueryLag
from snowmelt.spark.options import ConnectionOptions
from snowmelt.spark.stream_source import StreamReader
from spark.cluster import Queues, bodies, queues_of, wait_until


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    with queues_of(1, tmp_path_factory.mktemp("queues")) as running:
        yield running


def filled(queues: Queues, name: str, count: int) -> list[bytes]:
    some = [b"%s-%d" % (name.encode(), at) for at in range(count)]
    queues.fifo(name).put_many(some)
    return some


def reader_of(queues: Queues, **options: str) -> StreamReader:
    return StreamReader({"url": queues.url, "timeout": "10", **options}, source_schema("false"))


def read(reader: StreamReader, start: dict, end: dict) -> list[bytes]:
    return [
        value
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for value in batch["value"].to_pylist()
    ]


# --- through the reader, as Spark calls it --------------------------------------------------------


def test_offsets_alone_say_which_rows(queues: Queues) -> None:
    some = filled(queues, "alone", 10)
    reader = reader_of(queues, queue="alone")
    start = reader.initialOffset()
    assert start == {"v": 1, "group": "spark", "queues": {}}
    first = reader.latestOffset(start, ReadMaxRows(4))
    again = reader_of(queues, queue="alone")  # a new process, before the offset was written down
    first = again.latestOffset(start, ReadMaxRows(9))
    assert read(again, start, first) == some[:4]
    second = again.latestOffset(first, ReadAllAvailable())
    later = reader_of(queues, queue="alone")
    assert read(later, first, second) == some[4:]
    assert read(later, first, second) == some[4:]
    assert queues.fifo("alone").stats().assigned == 6
    assert later.latestOffset(second, ReadAllAvailable()) == second
    assert queues.fifo("alone").stats().assigned == 0


def test_commit_acknowledges_and_takes_nothing(queues: Queues) -> None:
    filled(queues, "commit", 10)
    reader = reader_of(queues, queue="commit")
    first = reader.latestOffset(reader.initialOffset(), ReadMaxRows(4))
    reader.commit(first)
    assert (queues.fifo("commit").stats().assigned, queues.fifo("commit").stats().ready) == (0, 6)


def test_limits_are_kept_and_shared_among_queues(queues: Queues) -> None:
    for name in ("limit.a", "limit.b", "limit.c"):
        filled(queues, name, 10)
    filled(queues, "limit.b", 100)
    reader = reader_of(queues, queuePattern=r"limit\..*", maxMessagesPerTrigger="60")
    assert reader.getDefaultReadLimit() == ReadMaxRows(60)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert [count for _, count in end["queues"].values()] == [10, 40, 10]
    rest = reader.latestOffset(end, ReadAllAvailable())
    assert rest["queues"]["limit.b"][1] == 110
    assert reader_of(queues, queue="x", maxBytesPerTrigger="5").getDefaultReadLimit() == (
        ReadMaxBytes(5)
    )
    assert reader_of(queues, queue="x").getDefaultReadLimit() == ReadAllAvailable()
    filled(queues, "bytes", 10)
    sized = reader_of(queues, queue="bytes")
    assert sized.latestOffset(start, ReadMaxBytes(7 * 3))["queues"]["bytes"][1] == 3


def test_queues_that_said_that_enough_waits_are_not_asked_for_it_again(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(queues, "told.a", 10)
    filled(queues, "told.b", 10)
    asked: list[str] = []
    stats = StreamReader._stats
    monkeypatch.setattr(
        StreamReader, "_stats", lambda self, at, name: asked.append(name) or stats(self, at, name)
    )
    reader = reader_of(queues, subscribe="told.a,told.b")
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(8))
    end = reader.latestOffset(end, ReadMaxRows(8))
    assert not asked
    end = reader.latestOffset(end, ReadMaxRows(8))
    assert sorted(asked) == ["told.a", "told.b"]
    assert [count for _, count in end["queues"].values()] == [10, 10]


@pytest.mark.parametrize(("waiting", "first"), [(14_000, 14_000), (16_000, 10_000)])
def test_a_rest_of_less_than_half_a_batch_goes_along_with_it(
    queues: Queues, waiting: int, first: int
) -> None:
    name = f"rest-{waiting}"
    filled(queues, name, waiting)
    reader = reader_of(queues, queue=name, batchSeconds="5", cores="1")
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert end["queues"][name][1] == first


def test_what_came_since_the_last_batch_counts_for_the_rest_that_goes_along(queues: Queues) -> None:
    """A stage has done all that was there, and the stage before it puts all that it made."""
    filled(queues, "late-rest", 1)
    reader = reader_of(queues, queue="late-rest", batchSeconds="5", cores="1")
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    filled(queues, "late-rest", 14_000)
    second = reader.latestOffset(first, reader.getDefaultReadLimit())
    assert second["queues"]["late-rest"][1] == 1 + 14_000


def test_a_run_begins_with_batches_as_large_as_the_last_one_found_out(queues: Queues) -> None:
    filled(queues, "paced", 10_000)
    reader = reader_of(queues, queue="paced", batchSeconds="5", cores="1")
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    filled(queues, "paced", 30_000)
    second = reader.latestOffset(first, reader.getDefaultReadLimit())
    assert second["queues"]["paced"][1] == 40_000, "the first took no time at all"
    assert reader.latestOffset(second, reader.getDefaultReadLimit()) == second, "nothing came"
    filled(queues, "paced", 250_000)
    later = reader_of(queues, queue="paced", batchSeconds="5", cores="1")
    third = later.latestOffset(second, later.getDefaultReadLimit())
    assert third["queues"]["paced"][1] == 40_000 + 160_000
    assert third["rows_a_core"] == 160_000
    without = reader_of(queues, queue="paced")
    fourth = without.latestOffset(third, ReadMaxRows(1))
    assert fourth["rows_a_core"] == 160_000, "it stays, should the option be said again"


def test_what_was_said_to_wait_and_went_to_others_is_made_up_from_another_queue(
    queues: Queues,
) -> None:
    filled(queues, "went.a", 10)
    queues.fifo("went.b").put(b"0")
    queues.fifo("went.b").get().ack()
    reader = reader_of(queues, subscribe="went.a,went.b")
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(2))
    for item in queues.fifo("went.a").get_many(8):
        item.ack()
    filled(queues, "went.b", 5)
    end = reader.latestOffset(end, ReadMaxRows(4))
    assert {name: count for name, (_, count) in end["queues"].items()} == {"went.a": 2, "went.b": 4}


def test_now_is_when_it_began(queues: Queues) -> None:
    filled(queues, "now", 5)
    queues.fifo("now-empty").put(b"1")
    queues.fifo("now-empty").get().ack()
    reader = reader_of(queues, queuePattern="now.*")
    reader.prepareForTriggerAvailableNow()
    filled(queues, "now", 5)
    filled(queues, "now-late", 5)
    queues.fifo("now-empty").put(b"2")
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(100))
    assert {name: count for name, (_, count) in end["queues"].items()} == {"now": 5}
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_a_pattern_leaves_out_priority_queues(queues: Queues) -> None:
    filled(queues, "jobs-done", 2)
    filled(queues, "jobs.bills", 1)
    queues.priority("jobs").put_many([b"a", b"b"])
    reader = reader_of(queues, queuePattern=r"jobs.*")
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    counts = {name: count for name, (_, count) in end["queues"].items()}
    assert counts == {"jobs-done": 2, "jobs.bills": 1}


def test_a_stream_of_a_pattern_waits_as_long_as_its_user_says(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []

    def queues_at(place: ConnectionOptions, *asked: Any) -> list[str]:
        waits.extend(asked[:1])  # a first look asks for no time
        return there(place, *asked)

    there = connections.queues_at

    filled(queues, "patient", 1)
    monkeypatch.setattr(connections, "queues_at", queues_at)
    reader = reader_of(queues, queuePattern="patient", timeout="77")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    reader.latestOffset(start, ReadAllAvailable())
    assert set(waits) == {77.0}


def test_who_does_not_know_the_group_is_told_so(queues: Queues) -> None:
    filled(queues, "held", 5)
    reader = reader_of(queues, queue="held", group="g")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(2))
    more = reader.latestOffset(end, ReadMaxRows(2))
    other = reader_of(queues, queue="held", group="g")
    with pytest.raises(GroupHeld, match="snowmelt groups release held g"):
        other.latestOffset(other.initialOffset(), ReadMaxRows(2))
    queues.fifo("held").group("g").release()
    for call in (
        lambda: reader.latestOffset(more, ReadMaxRows(2)),
        lambda: read(reader, end, more),
    ):
        with pytest.raises(LeaseLost, match=r"was released.*groups release held g.*new checkpoint"):
            call()


def test_the_report_says_what_waits(queues: Queues) -> None:
    filled(queues, "report", 5)
    reader = reader_of(queues, queue="report")
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(2))
    waiting = {"report": {"ready": 3}}
    assert reader.reportLatestOffset() == {"v": 1, "group": "spark", "queues": waiting}
    assert reader_of(queues, queue="report").reportLatestOffset() is None, "it has said nothing yet"


# --- through Spark --------------------------------------------------------------------------------


def test_available_now_drains_in_batches_and_acknowledges_its_tail(
    spark: SparkSession, queues: Queues
) -> None:
    some = filled(queues, "drain", 1000)
    frame = queues.stream(spark, queue="drain", maxMessagesPerTrigger="300")
    query = queues.into(frame.select("value"), "drain", queue="drained")
    assert [one.numInputRows for one in query.recentProgress if one.numInputRows] == [
        300,
        300,
        300,
        100,
    ]
    stats = queues.fifo("drain").stats()
    assert (stats.ready, stats.assigned, stats.done) == (0, 0, 1000)
    assert bodies(queues.fifo("drained")) == some
    queues.into(frame.select("value"), "drain", queue="drained")
    assert queues.fifo("drained").stats().tail == 1000


class Crash(Exception):
    """The driver's end, between a batch's work and its commit."""


@pytest.mark.wide  # offsets say which rows
def test_a_replay_has_exactly_the_same_rows(spark: SparkSession, queues: Queues) -> None:
    some = filled(queues, "replay", 500)
    frame = queues.stream(
        spark, queues="replay", maxMessagesPerTrigger="200", minPartitions="3"
    ).select("value", "position")
    tries: list[tuple[int, list[tuple[bytes, int]]]] = []

    def crashing(crash: bool) -> Callable[[DataFrame, int], None]:
        def work(batch: DataFrame, number: int) -> None:
            tries.append((number, [(bytes(row.value), row.position) for row in batch.collect()]))
            if crash and number == 1:
                raise Crash

        return work

    with pytest.raises(StreamingQueryException):
        queues.each(frame, "replay", crashing(True))
    filled(queues, "replay", 100)  # must not come into the batch that is planned already
    queues.each(frame, "replay", crashing(False))
    assert [number for number, _ in tries] == [0, 1, 1, 2]
    assert tries[1] == tries[2]
    rows = [row for number, batch in [*tries[:1], *tries[2:]] for row in batch]
    assert [position for _, position in rows] == list(range(600))
    assert [body for body, _ in rows[:500]] == some
    assert queues.fifo("replay").stats().assigned == 0


def test_an_idle_stream_acknowledges_its_last_batch_and_tells_its_lag(
    spark: SparkSession, queues: Queues
) -> None:
    queue = queues.fifo("idle")
    filled(queues, "idle", 10)
    lag = Lag()
    spark.streams.addListener(lag)
    writer = queues.stream(spark, queue="idle").writeStream.format("noop").queryName("idler")
    query = writer.option("checkpointLocation", queues.path("idle")).start()
    try:
        assert wait_until(lambda: queue.stats().done == 10)
        assert queue.stats().assigned == 0
        assert wait_until(lambda: lag.of("idler") is not None)
        behind = lag.of("idler")
        assert isinstance(behind, QueryLag)
        assert (behind.backlog, behind.queues) == (0, {"idle": 0})
        assert lag.of(str(query.id)) == behind
        filled(queues, "idle", 5)
        assert wait_until(lambda: queue.stats().done == 15)
    finally:
        query.stop()
        assert wait_until(lambda: lag.of("idler") is None)
        spark.streams.removeListener(lag)


@pytest.mark.wide
def test_two_queues_are_read_as_one_stream(spark: SparkSession, queues: Queues) -> None:
    some = filled(queues, "left", 50) + filled(queues, "right", 70)
    for options in ({"queues": "left,right"}, {"subscribePattern": "left|right"}):
        group = f"by-{len(options)}-{next(iter(options))}"
        frame = queues.stream(spark, group=group, maxMessagesPerTrigger="40", **options)
        queues.into(frame.select("value"), group, queue=group)
        assert sorted(bodies(queues.fifo(group))) == sorted(some)
        assert queues.fifo("left").stats().assigned == 0
        filled(queues, "left", 50)
        filled(queues, "right", 70)


def test_a_checkpoint_belongs_to_a_group(spark: SparkSession, queues: Queues) -> None:
    filled(queues, "mine", 3)
    frame = queues.stream(spark, queue="mine", group="first")
    queues.into(frame.select("value"), "mine", queue="mine-out")
    other = queues.stream(spark, queue="mine", group="second")
    with pytest.raises(StreamingQueryException) as caught:
        queues.into(other.select("value"), "mine", queue="mine-out")
    assert "group is 'second'; allowed: first, whose checkpoint this is" in str(caught.value)
    assert "Traceback" not in str(caught.value)
    with pytest.raises(StreamingQueryException, match="snowmelt groups release mine first"):
        queues.into(frame.select("value"), "anew", queue="mine-out")


def test_a_stream_with_a_schema_of_its_own_is_checked_at_its_start(
    spark: SparkSession, queues: Queues
) -> None:
    filled(queues, "own", 3)
    reader = spark.readStream.format("snowmelt").options(url=queues.url, queue="own")
    queues.into(reader.schema("value string").load(), "own", queue="own-out")
    assert queues.fifo("own-out").stats().tail == 3
    bad = reader.schema("value bigint").load().selectExpr("cast(value as string) value")
    with pytest.raises(StreamingQueryException, match="schema has 'value bigint'; allowed: value"):
        queues.into(bad, "own-bad", queue="own-out")
    wrong = reader.option("grup", "g").schema("value string").load()
    with pytest.raises(StreamingQueryException, match="option is 'grup'; allowed: group"):
        queues.into(wrong, "own-wrong", queue="own-out")
