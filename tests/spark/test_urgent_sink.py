"""Writing into a priority queue: the column `priority`, and each batch once."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from snowmelt.core.errors import AlreadyPublished, BadOption
from snowmelt.spark.datasource import SnowmeltDataSource
from snowmelt.spark.sink import StreamSink
from spark.cluster import Queues, queues_of

COLUMNS = StructType().add("value", "binary").add("priority", "integer")
WITH_QUEUE = StructType().add("value", "binary").add("priority", "integer").add("queue", "string")


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    with queues_of(1, tmp_path_factory.mktemp("queues")) as running:
        yield running


def rows(
    *pairs: tuple[bytes, float | None], kind: pa.DataType | None = None, queue: str = ""
) -> Iterator[pa.RecordBatch]:
    values, priorities = zip(*pairs, strict=True)
    column = pa.array(priorities, kind or pa.int32())
    made = pa.record_batch({"value": pa.array(values, pa.binary()), "priority": column})
    yield made.append_column("queue", pa.array([queue] * len(made))) if queue else made


def writer_of(queues: Queues, columns: StructType = COLUMNS, **options: str) -> StreamSink:
    given = {"url": queues.url, "kind": "priority", "txnappid": "q", **options}
    return SnowmeltDataSource(given).streamWriter(schema=columns, overwrite=False)


def taken(queues: Queues, name: str) -> list[tuple[float, bytes]]:
    """All that is there, done."""
    found = []
    for item in queues.priority(name).consume(timeout=0):
        found.append((item.priority, item.body))
        item.ack()
    return found


def test_a_frame_says_how_urgent_each_row_is(spark: SparkSession, queues: Queues) -> None:
    queues.priority("jobs", priorities=3).put(b"before", priority=1)
    frame = spark.sql(
        "select cast(id as string) value, cast(id % 3 as int) priority, "
        "if(id % 2 = 0, map('n', cast(id as string)), null) headers from range(0, 3000, 1, 2)"
    )
    queues.write(frame, kind="priority", queue="jobs")
    first = queues.priority("jobs").peek(1)[0]  # of either partition: they are put side by side
    assert first.priority == 0
    assert first.headers == ({} if int(first.body) % 2 else {"n": first.body.decode()})
    found = taken(queues, "jobs")
    assert [priority for priority, _ in found] == [0] * 1000 + [1] * 1001 + [2] * 1000
    assert found[1000] == (1, b"before")
    assert sorted(int(body) for _, body in found if body != b"before") == list(range(3000))


def test_a_stream_fills_a_priority_queue_once(spark: SparkSession, queues: Queues) -> None:
    queues.fifo("raw").put_many([b"%d" % at for at in range(100)])
    for _ in range(2):  # the second run has nothing left to do
        stream = queues.stream(spark, queue="raw", maxMessagesPerTrigger="30")
        frame = stream.selectExpr("value", "cast(cast(value as string) as int) % 4 priority")
        queues.into(frame, "urgent", kind="priority", queue="made")
    found = taken(queues, "made")
    assert sorted(int(body) for _, body in found) == list(range(100))
    assert [priority for priority, _ in found] == sorted(int(body) % 4 for _, body in found)


def test_a_batch_that_is_committed_twice_is_published_once(queues: Queues) -> None:
    writer = writer_of(queues, queue="twice")
    messages = [writer.write(rows((b"a", 1), (b"b", 0))), None, writer.write(rows((b"c", 1)))]
    assert queues.priority("twice").stats().staged == 3
    writer.commit(messages, 7)
    assert taken(queues, "twice") == [(0, b"b"), (1, b"a"), (1, b"c")]
    writer_of(queues, queue="twice").commit(messages, 7)
    anew = [writer.write(rows((b"c", 1), (b"a", 1))), writer.write(rows((b"b", 0)))]
    writer.commit(anew, 7)
    with pytest.raises(AlreadyPublished, match="these 3 are not the same"):
        writer.commit([writer.write(rows((b"c", 1), (b"a", 1), (b"b", 1)))], 7)
    assert taken(queues, "twice") == []
    writer.commit([writer.write(rows((b"d", 3)))], 8)
    assert taken(queues, "twice") == [(3, b"d")]


@pytest.mark.parametrize("named_first", [True, False])
def test_a_batch_is_published_once_though_its_queue_is_named_elsewhere_meanwhile(
    queues: Queues, named_first: bool
) -> None:
    name = f"moved-{named_first}"
    named, column = both(queues, name)
    ways: list[Callable[[], None]] = [
        lambda: named.commit([named.write(rows((b"a", 0), (b"b", 1)))], 3),
        lambda: column.commit([column.write(rows((b"b", 1), (b"a", 0), queue=name))], 3),
    ]
    for way in ways if named_first else reversed(ways):
        way()
    assert taken(queues, name) == [(0, b"a"), (1, b"b")]
    with pytest.raises(AlreadyPublished, match="these 1 are not the same"):
        (named if not named_first else column).commit(
            [column.write(rows((b"c", 1), queue=name))], 3
        )
    assert taken(queues, name) == []


def both(queues: Queues, name: str) -> tuple[StreamSink, StreamSink]:
    """Into one queue: the one is told it by the option, the other by the column."""
    column = writer_of(queues, columns=WITH_QUEUE, txnappid=name)
    return writer_of(queues, queue=name, txnappid=name), column


def dying(*_: object, **__: object) -> None:
    """What ends a publication, in a driver that is killed there."""
    raise KeyboardInterrupt


def test_any_priorities_are_published_once(queues: Queues) -> None:
    writer = writer_of(queues, queue="whole")
    staged = [writer.write(rows((b"a", 2**62), (b"b", -(2**62)), (b"c", 0), kind=pa.int64()))]
    writer.commit(staged, 1)
    writer.commit(staged, 1)
    anew = [writer.write(rows((b"a", 2**62), (b"b", -(2**62) + 1), (b"c", 0), kind=pa.int64()))]
    with pytest.raises(AlreadyPublished, match="these 3 are not the same"):
        writer.commit(anew, 1)
    assert taken(queues, "whole") == [(-(2**62), b"b"), (0, b"c"), (2**62, b"a")]
    queues.priority("parts", priorities=float).put(b"z", priority=float("inf"))
    writer = writer_of(queues, queue="parts")
    some = [writer.write(rows((b"a", 0.5), (b"b", -1e9), kind=pa.float64()))]
    writer.commit([*some, writer.write(rows((b"c", 7), kind=pa.int64()))], 1)
    assert [body for _, body in taken(queues, "parts")] == [b"b", b"a", b"c", b"z"]


def test_a_priority_that_is_none_is_refused_before_anything_is_put(queues: Queues) -> None:
    jobs = queues.priority("strict", priorities=float)
    jobs.put(b"before", priority=0.5)
    writer = writer_of(queues, queue="strict")
    for value, told in ((None, "None"), (float("nan"), "nan")):
        with pytest.raises(BadOption, match=f"column priority is {told}; allowed: a number in"):
            writer.write(rows((b"a", 1.5), (b"b", value), kind=pa.float64()))
    assert (jobs.stats().ready, jobs.stats().staged) == (1, 0)
    with pytest.raises(BadOption, match=r"priority is 1.0; allowed: a whole number in unmade"):
        writer_of(queues, queue="unmade").write(rows((b"a", 1.0), kind=pa.float64()))
    assert "unmade" not in queues.there()


def test_what_a_priority_queue_does_not_take_is_said(spark: SparkSession, queues: Queues) -> None:
    frame = spark.range(3).selectExpr("cast(id as string) value", "'k' key", "1 priority")
    with pytest.raises(AnalysisException, match="schema has 'key'; allowed: none in a priority"):
        queues.write(frame, kind="priority", queue="jobs")
    decimals = frame.selectExpr("value", "cast(priority as decimal(9, 2)) priority")
    with pytest.raises(AnalysisException, match=r"has 'priority decimal.* or double"):
        queues.write(decimals, kind="priority", queue="jobs")
    with pytest.raises(AnalysisException, match="or say kind=priority"):
        queues.write(frame.drop("key"), queue="raw")
    with pytest.raises(AnalysisException, match="kind is 'urgent'; allowed: fifo, the default, or"):
        queues.write(frame.drop("key"), kind="urgent", queue="jobs")
    queues.priority("few", priorities=3).put(b"before")
    writer = writer_of(queues, queue="few")
    with pytest.raises(BadOption, match="priority is 3; allowed: 0 to 2 in few"):
        writer.write(rows((b"a", 3)))
