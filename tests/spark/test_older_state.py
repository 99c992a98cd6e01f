"""Source and sink are shown an older state of their own: nothing is lost, doubled, or unsaid."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from snowmelt.core.errors import AlreadyPublished, BadOption, Full, GroupHeld, Unavailable
from snowmelt.spark.columns import source_schema
from snowmelt.spark.datasource import SnowmeltDataSource
from snowmelt.spark.stream_source import StreamReader
from spark.cluster import Queues, bodies, forget, queues_of, wait_until

ALL = ReadAllAvailable()


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    with queues_of(1, tmp_path_factory.mktemp("queues")) as running:
        yield running


def reader_of(running: Queues, /, **options: str) -> StreamReader:
    return StreamReader({"url": running.url, "timeout": "10", **options}, source_schema("false"))


def read(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    return [
        value
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for value in batch["value"].to_pylist()
    ]


def rows(values: list[bytes], into: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    columns = {"value": pa.array(values, pa.binary())}
    if into is not None:
        columns["queue"] = pa.array(into)
    yield pa.record_batch(columns)


def published(
    running: Queues,
    /,
    number: int,
    values: list[bytes],
    into: list[str] | None = None,
    **options: str,
) -> None:
    """A micro-batch is staged by one task, and committed by the driver."""
    schema = StructType().add("value", "binary")
    if into is not None:
        schema = schema.add("queue", "string")
    given = {"url": running.url, "txnappid": "app", "timeout": "2", **options}
    writer = SnowmeltDataSource(given).streamWriter(schema=schema, overwrite=False)
    writer.commit([writer.write(rows(values, into))], number)


# --- the source -----------------------------------------------------------------------------------


def test_a_batch_that_the_checkpoint_lost_is_planned_anew_with_nothing_added(
    queues: Queues,
) -> None:
    left, right = queues.fifo("back.a"), queues.fifo("back.b")
    left.put_many([b"a0"])
    right.put_many([b"b0"])
    reader = reader_of(queues, queues="back.a,back.b")
    begin = reader.initialOffset()
    zero = reader.latestOffset(begin, ALL)
    published(queues, 0, read(reader, begin, zero), queue="back.out")
    left.put_many([b"a1", b"a2"])
    one = reader.latestOffset(zero, ALL)
    published(queues, 1, read(reader, zero, one), queue="back.out")
    right.put_many([b"b1", b"b2", b"b3"])  # and batch 1 is in no log any more
    with pytest.raises(
        GroupHeld, match=r"items 1 to 2 .* of queue 'back\.a' was planned, and this"
    ):
        reader_of(queues, queues="back.a,back.b").latestOffset(zero, ALL)
    later = reader_of(queues, queues="back.a,back.b", failOnOlderCheckpoint="false")
    again = later.latestOffset(zero, ALL)
    published(queues, 1, read(later, zero, again), queue="back.out")
    two = later.latestOffset(again, ALL)
    published(queues, 2, read(later, again, two), queue="back.out")
    assert again == one
    assert later.latestOffset(two, ALL) == two
    assert bodies(queues.fifo("back.out")) == [b"a0", b"b0", b"a1", b"a2", b"b1", b"b2", b"b3"]
    assert (left.stats().assigned, right.stats().assigned) == (0, 0)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_checkpoint_behind_what_is_done_is_refused_whatever_is_said_of_loss(
    queues: Queues, fail: str
) -> None:
    queue = queues.fifo(f"behind.{fail}")
    queue.put_many([b"%d" % at for at in range(6)])
    reader = reader_of(queues, queue=queue.name)
    begin = reader.initialOffset()
    one = reader.latestOffset(begin, ReadMaxRows(2))
    two = reader.latestOffset(one, ReadMaxRows(2))
    read(reader, one, two)
    three = reader.latestOffset(two, ReadMaxRows(2))
    older = reader_of(queues, queue=queue.name, failOnDataLoss=fail)
    said = rf"is done with 4 items, and this reader knows of 2 only: .* release {queue.name} spark"
    with pytest.raises(GroupHeld, match=said):
        older.latestOffset(one, ALL)
    with pytest.raises(GroupHeld, match=said):
        older.partitions(one, two)
    assert read(reader, two, three) == [b"4", b"5"]


def test_a_second_checkpoint_does_not_do_again_what_was_read_and_is_not_done_yet(
    queues: Queues,
) -> None:
    queues.fifo("taken").put_many([b"1", b"2"])
    reader = reader_of(queues, queue="taken")
    begin = reader.initialOffset()
    end = reader.latestOffset(begin, ALL)
    assert read(reader, begin, end) == [b"1", b"2"]  # and it is published
    other = reader_of(queues, queue="taken")
    with pytest.raises(GroupHeld, match=r"at work on 2 items already.*groups release taken spark"):
        other.latestOffset(begin, ALL)
    assert reader.latestOffset(end, ALL) == end


def test_few_rows_at_a_time_come_from_each_queue_in_turn(queues: Queues) -> None:
    names = ("turn.a", "turn.b", "turn.c")
    for name in names:
        queues.fifo(name).put_many([b"1", b"2"])
    reader = reader_of(queues, queuePattern=r"turn\..")
    offset = reader.initialOffset()
    for batch in range(1, 7):
        offset = reader.latestOffset(offset, ReadMaxRows(1))
        counts = [count for _, count in offset["queues"].values()]
        assert (sum(counts), max(counts)) == (batch, -(-batch // 3))


def test_items_whose_node_is_away_are_waited_for_and_never_skipped(tmp_path: Path) -> None:
    with queues_of(2, tmp_path) as queues:
        names = (f"away-{number}" for number in range(50))
        name = next(name for name in names if mastered(queues, name) == "n2")
        queue = queues.fifo(name)
        queue.get().ack()
        queue.put_many([b"%d" % number for number in range(12)])
        options = {"queue": name, "failOnDataLoss": "false", "timeout": "2"}
        reader = reader_of(queues, **options)
        begin = reader.initialOffset()
        end = reader.latestOffset(begin, ALL)
        partitions = reader.partitions(begin, end)
        queues.cluster.nodes[1].kill()
        found = (list(reader.read(partition)) for partition in partitions)
        with pytest.raises(Unavailable, match="they are not lost, the nodes that keep them"):
            list(found)
        queues.cluster.nodes[1].start()
        queues.cluster.wait_for(["n1", "n2"], 20)
        assert read(reader, begin, end) == [b"%d" % number for number in range(12)]


def mastered(queues: Queues, name: str) -> str:
    """Which node is the master of a queue that is made for this."""
    queues.fifo(name, replicas=1).put(b"x")
    return queues.fifo(name).stats().leader.partition("/")[0]


# --- the sink -------------------------------------------------------------------------------------


def test_other_rows_under_a_number_that_was_used_are_refused_in_a_sentence(
    queues: Queues,
) -> None:
    published(queues, 7, [b"1", b"2"], queue="same")
    published(queues, 7, [b"2", b"1"], queue="same")
    other = [b"1", b"2", b"3"]
    with pytest.raises(AlreadyPublished, match=r"with 2 items, and these 3 .*failOnOtherContent="):
        published(queues, 7, other, queue="same")
    published(queues, 7, other, queue="same", failOnOtherContent="false")
    assert bodies(queues.fifo("same")) == [b"1", b"2"]


def test_what_was_begun_in_several_queues_is_ended_as_it_was_begun(queues: Queues) -> None:
    full = queues.fifo("share.b", max_items=1)
    full.put(b"there")
    values = [b"1", b"2", b"3"]
    with pytest.raises(Full):  # its share is not published, and those of the others are
        published(queues, 3, values, ["share.a", "share.b", "share.c"])
    assert bodies(queues.fifo("share.a")) == [b"1"]
    assert queues.fifo("share.b").stats().tail == 1
    full.get().ack()
    published(queues, 3, values, ["share.c", "share.a", "share.a"])  # it is computed anew
    shares = [bodies(queues.fifo(f"share.{name}")) for name in "abc"]
    assert shares == [[b"1"], [b"2"], [b"3"]]
    published(queues, 3, values, ["share.d", "share.d", "share.d"])
    assert queues.fifo("share.d").stats().tail == 0
    with pytest.raises(AlreadyPublished):
        published(queues, 3, [*values, b"4"], ["share.a"] * 4)
    published(queues, 4, [b"4"], ["share.a"])
    assert bodies(queues.fifo("share.a")) == [b"1", b"4"]
    assert queues.fifo("spark.publications").stats().tail == 0


def test_rows_do_not_go_where_plans_are_kept(queues: Queues) -> None:
    with pytest.raises(BadOption, match=r"column queue is 'spark\.publications'"):
        published(queues, 1, [b"1"], ["spark.publications"])


def test_a_stream_without_an_id_has_no_name_to_share_with_others(queues: Queues) -> None:
    with pytest.raises(BadOption, match="txnAppId is None; allowed: a name: Spark does not say"):
        published(queues, 1, [b"1"], queue="nameless", txnappid="")
    assert queues.fifo("nameless").stats().tail == 0


# --- through Spark --------------------------------------------------------------------------------


@pytest.mark.wide  # above, the same is asked of the reader
@pytest.mark.timeout(300)  # the first to need Spark may wait for its start as well
def test_a_query_whose_logs_lost_their_last_batch_goes_on_and_one_that_lost_more_is_refused(
    spark: SparkSession, queues: Queues
) -> None:
    left, right = queues.fifo("log.a"), queues.fifo("log.b")
    left.put_many([b"a0"])
    right.put_many([b"b0"])
    frame = queues.stream(spark, queues="log.a,log.b").select("value")
    queues.into(frame, "log", queue="log.out")
    left.put_many([b"a1", b"a2"])
    writer = frame.writeStream.format("snowmelt").options(url=queues.url, queue="log.out")
    one_batch(writer.option("checkpointLocation", queues.path("log")))
    forget(Path(queues.path("log")), 1)
    right.put_many([b"b1", b"b2", b"b3"])
    with pytest.raises(StreamingQueryException, match="was planned, and this checkpoint does not"):
        queues.into(frame, "log", queue="log.out")
    options = {"queues": "log.a,log.b", "failOnOlderCheckpoint": "false"}
    frame = queues.stream(spark, **options).select("value")
    queues.into(frame, "log", queue="log.out")
    expected = [b"a0", b"b0", b"a1", b"a2", b"b1", b"b2", b"b3"]
    assert sorted(bodies(queues.fifo("log.out"))) == sorted(expected)
    forget(Path(queues.path("log")), 2)
    said = r"GroupHeld: group 'spark' of queue 'log\.b' is done with 4 items"
    with pytest.raises(StreamingQueryException, match=said):
        queues.into(frame, "log", queue="log.out")
    assert queues.fifo("log.out").stats().tail == len(expected)


def one_batch(writer: DataStreamWriter) -> None:
    """Runs batch 1 and leaves it unacknowledged."""
    query = writer.trigger(processingTime="1 hour").start()
    try:
        assert wait_until(lambda: [one.batchId for one in query.recentProgress] == [1], 100)
    finally:
        query.stop()


@pytest.mark.wide  # of a stage's folder `test_stages_that_end.py` asks the same
def test_a_query_of_two_loads_does_not_lose_new_rows_in_parquet_when_its_last_batch_is_lost(
    spark: SparkSession, queues: Queues
) -> None:
    left, right = queues.fifo("two.a"), queues.fifo("two.b")
    left.put(b"a0")
    right.put(b"b0")
    loads = [queues.stream(spark, queue=f"two.{name}", group=name) for name in "ab"]
    frame = loads[0].union(loads[1]).select("value")
    writer = frame.writeStream.format("parquet").option("path", queues.path("two.parquet"))
    writer = writer.option("checkpointLocation", queues.path("two"))
    queues.drained(writer)
    left.put(b"a1")
    one_batch(writer)
    forget(Path(queues.path("two")), 1)
    right.put(b"b1")  # the next batch would have it, whose number the folder has
    with pytest.raises(StreamingQueryException, match="and a new folder for Parquet"):
        queues.drained(writer)
    assert right.stats().ready + right.stats().assigned == 1
