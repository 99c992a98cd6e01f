"""Writing: all rows of a batch in one step, once, whatever is run twice."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from snowmelt.core.errors import (
    AlreadyPublished,
    BadOption,
    Full,
    NotStaged,
    QueueExists,
    SnowmeltError,
)
from snowmelt.spark.datasource import SnowmeltDataSource
from spark.cluster import Queues, bodies, queues_of

VALUES = StructType().add("value", "binary")
INTO = StructType().add("value", "binary").add("queue", "string")


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    with queues_of(1, tmp_path_factory.mktemp("queues")) as running:
        yield running


def rows(*values: bytes) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"value": pa.array(values, pa.binary())})


def test_a_frame_is_put_whole_in_the_order_of_its_partitions(
    spark: SparkSession, queues: Queues
) -> None:
    frame = spark.range(0, 50_000, 1, 3).selectExpr("cast(id as string) value")
    queues.write(frame, queue="out")
    assert bodies(queues.fifo("out")) == [b"%d" % at for at in range(50_000)]
    assert queues.fifo("out").stats().staged == 0
    queues.write(frame.limit(0), queue="out")
    assert queues.fifo("out").stats().tail == 50_000


def test_keys_and_headers_make_the_round_trip(spark: SparkSession, queues: Queues) -> None:
    frame = spark.createDataFrame(
        [(b"a", "k", {"n": "1"}), (b"b", None, None), (b"c", "l", {})],
        "value binary, key string, headers map<string,string>",
    ).coalesce(1)
    queues.write(frame, queue="labels")
    read = queues.read(spark, "labels", includeHeaders="true")
    assert [tuple(row) for row in read.select("value", "key", "headers").collect()] == [
        (b"a", b"k", {"n": "1"}),
        (b"b", None, None),
        (b"c", b"l", None),
    ]


def test_headers_of_bytes_make_the_round_trip_and_are_text_only_where_they_are(
    spark: SparkSession, queues: Queues
) -> None:
    rows = [(b"a", {"n": b"\xff"}), (b"b", {"n": b"one"}), (b"c", None)]
    for kind in ("fifo", "priority"):
        frame = spark.createDataFrame(rows, "value binary, headers map<string,binary>").coalesce(1)
        queues.write(frame, queue=f"bytes-{kind}", kind=kind)
    jobs = queues.priority("bytes-priority")
    assert [seen.headers for seen in jobs.peek(3)] == [{"n": b"\xff"}, {"n": b"one"}, {}]
    read = queues.read(spark, "bytes-fifo", includeHeaders="binary")
    assert [tuple(row) for row in read.select("value", "headers").collect()] == rows
    read = queues.read(spark, "bytes-fifo", includeHeaders="true")
    with pytest.raises(Exception, match="a header of the item at position 0 is no UTF-8"):
        read.collect()
    queues.fifo("bytes-fifo").get().ack()
    found = queues.read(spark, "bytes-fifo", includeHeaders="true").collect()
    assert [row.headers for row in found] == [{"n": "one"}, None]


def test_a_column_says_which_queue_and_when(spark: SparkSession, queues: Queues) -> None:
    frame = spark.sql(
        "select cast(id as string) value, concat('to', id % 3) queue, "
        "if(id % 2 = 0, null, 3600) delay from range(0, 60, 1, 2)"
    )
    queues.write(frame)
    for number in range(3):
        mine = [at for at in range(60) if at % 3 == number]
        queue = queues.fifo(f"to{number}")
        assert bodies(queue) == [b"%d" % at for at in mine if at % 2 == 0]
        assert queue.stats().delayed == sum(at % 2 for at in mine)
    queues.write(frame, queue="one")
    assert (queues.fifo("one").stats().ready, queues.fifo("one").stats().delayed) == (30, 30)


def test_a_queue_that_is_not_there_is_made_as_it_is_said(queues: Queues) -> None:
    job(queues, {"made.a": [b"1"]}, replicas="1", durableCopies="1", flush="0.5", maxItems="9")
    made = queues.fifo("made.a").stats().settings
    assert (made.replicas, made.durable_copies, made.linger) == (1, 1, 500_000_000)
    assert made.items_max == 9
    job(queues, {"made.b": [b"1"]}, kind="priority", lease="60", maxDeliveries="3")
    urgent = queues.priority("made.b").stats().settings
    assert (urgent.lease, urgent.deliveries_max) == (60_000_000_000, 3)
    with pytest.raises(QueueExists, match="max_items=9, asked 8"):
        job(queues, {"made.a": [b"2"]}, replicas="1", maxItems="8")
    with pytest.raises(SnowmeltError, match="replicas is 3; allowed: at most 1, the nodes present"):
        job(queues, {"made.c": [b"2"]}, replicas="3")


def test_a_job_with_a_name_and_a_number_is_put_once(spark: SparkSession, queues: Queues) -> None:
    frame = spark.range(10).selectExpr("cast(id as string) value")
    for version in ("1", "1", "2", "1"):
        queues.write(frame, queue="daily", txnAppId="load", txnVersion=version)
    assert queues.fifo("daily").stats().tail == 20
    queues.write(frame, queue="plain")
    queues.write(frame, queue="plain")
    assert queues.fifo("plain").stats().tail == 20


def test_what_a_function_of_batches_puts_needs_a_number_alone(
    spark: SparkSession, queues: Queues
) -> None:
    """Its name is the query's: it is put once, and a new checkpoint, numbered anew, is another."""
    queues.fifo("given").put(b"a")
    frame = queues.stream(spark, queue="given").select("value")

    def put(rows: DataFrame, batch: int) -> None:
        queues.write(rows, queue="by-function", txnVersion=str(batch))
        queues.write(rows, queue="by-function", txnVersion=str(batch))  # it is called again

    queues.each(frame, "by-function", put)
    assert bodies(queues.fifo("by-function")) == [b"a"]
    queues.fifo("given").group("spark").release()
    queues.fifo("given").put(b"a")
    queues.each(frame, "by-function-anew", put)
    assert bodies(queues.fifo("by-function")) == [b"a", b"a"]


def test_a_function_of_batches_writes_by_a_column_into_other_queues_each_time(
    spark: SparkSession, queues: Queues
) -> None:
    """The same rows into two queues, then each half into one more; and all of it again."""
    queues.fifo("fan").put_many([b"%d" % at for at in range(10)])
    frame = queues.stream(spark, queue="fan").select("value")
    odd = "cast(cast(value AS string) AS int) % 2"

    def put(rows: DataFrame, batch: int) -> None:
        for _ in range(2):
            for queue in ("gold", "audit"):
                queues.write(
                    rows.selectExpr("value", f"'fan.{queue}' queue"), txnVersion=str(batch)
                )
            for half in range(2):
                mine = rows.where(f"{odd} = {half}").selectExpr("value", f"'fan.{half}' queue")
                queues.write(mine, txnVersion=str(batch))

    queues.each(frame, "fan", put)
    tails = {queue: queues.fifo(f"fan.{queue}").stats().tail for queue in ("gold", "audit", 0, 1)}
    assert tails == {"gold": 10, "audit": 10, 0: 5, 1: 5}


def job(queues: Queues, into: dict[str, list[bytes]], **options: str) -> None:
    """A batch job with a name and a number puts rows into queues by a column."""
    given = {"url": queues.url, "txnappid": "job", "txnversion": "7", "timeout": "2", **options}
    source = SnowmeltDataSource(given)
    writer = source.writer(schema=INTO, overwrite=False)
    pairs = [(value, queue) for queue, values in into.items() for value in values]
    values, names = zip(*pairs, strict=True) if pairs else ((), ())
    columns = {"value": pa.array(values, pa.binary()), "queue": pa.array(names, pa.string())}
    writer.commit([writer.write(iter([pa.record_batch(columns)]))])


def test_of_writes_of_one_number_each_is_ended_as_it_was_begun(queues: Queues) -> None:
    """The second is in one of its queues when its driver dies, and its rows go elsewhere then."""
    full = queues.fifo("w.d", max_items=1)
    full.put(b"there")
    gold = {"w.a": [b"1"], "w.b": [b"2"]}
    job(queues, gold)
    with pytest.raises(Full):
        job(queues, {"w.c": [b"1"], "w.d": [b"2"]})
    full.get().ack()
    with pytest.raises(AlreadyPublished, match="was begun before, with 2 items for "):
        job(queues, {"w.d": [b"2"]})
    for audit in ({"w.c": [b"2"], "w.d": [b"1"]}, {"w.c": [b"1"], "w.d": [b"2"]}):
        job(queues, gold)
        job(queues, audit)
    assert [bodies(queues.fifo(f"w.{name}")) for name in "abcd"] == [[b"1"], [b"2"]] * 2


def test_writes_of_one_number_into_priority_queues_are_told_apart(queues: Queues) -> None:
    for _ in range(2):
        job(queues, {"u.a": [b"1"], "u.b": [b"2"]}, kind="priority", txnappid="urgent")
        job(queues, {"u.c": [b"1"], "u.d": [b"2"]}, kind="priority", txnappid="urgent")
    assert [queues.priority(f"u.{name}").stats().ready for name in "abcd"] == [1, 1, 1, 1]


def test_other_rows_for_a_queue_that_has_the_number_are_refused_before_any_are_put(
    queues: Queues,
) -> None:
    job(queues, {"o.b": [b"1"]})
    with pytest.raises(AlreadyPublished, match=r"in queue 'o\.b' .*in a function of batches anoth"):
        job(queues, {"o.a": [b"1"], "o.b": [b"2"]})
    job(queues, {"o.a": [b"1"], "o.b": [b"2"]}, failOnOtherContent="false")
    job(queues, {})
    assert (bodies(queues.fifo("o.a")), bodies(queues.fifo("o.b"))) == ([b"1"], [b"1"])


def test_a_number_without_a_name_is_refused_where_no_query_gives_one(queues: Queues) -> None:
    source = SnowmeltDataSource({"url": queues.url, "queue": "numbered", "txnversion": "3"})
    writer = source.writer(schema=VALUES, overwrite=False)
    with pytest.raises(BadOption, match="txnAppId is None; allowed: a name with txnVersion"):
        writer.write(rows(b"a"))


def test_a_batch_that_is_committed_twice_is_published_once(queues: Queues) -> None:
    source = SnowmeltDataSource({"url": queues.url, "queue": "twice", "txnappid": "q"})
    writer = source.streamWriter(schema=VALUES, overwrite=False)
    messages = [writer.write(rows(b"a", b"b")), None, writer.write(rows(b"c"))]
    assert queues.fifo("twice").stats().staged == 3
    writer.commit(messages, 7)
    source.streamWriter(schema=VALUES, overwrite=False).commit(messages, 7)
    anew = [writer.write(rows(b"c", b"a")), writer.write(rows(b"b"))]
    writer.commit(anew, 7)
    again = [writer.write(rows(b"other"))]
    with pytest.raises(AlreadyPublished, match="with 3 items, and these 1 are not the same"):
        writer.commit(again, 7)
    assert bodies(queues.fifo("twice")) == [b"a", b"b", b"c"]
    writer.commit(again, 8)
    writer.commit([None], 9)
    assert bodies(queues.fifo("twice")) == [b"a", b"b", b"c", b"other"]


def test_a_job_without_a_name_is_not_silently_committed_twice(queues: Queues) -> None:
    source = SnowmeltDataSource({"url": queues.url, "queue": "nameless"})
    writer = source.writer(schema=VALUES, overwrite=False)
    messages = [writer.write(rows(b"a"))]
    writer.commit(messages)
    with pytest.raises(NotStaged, match="they were published"):
        writer.commit(messages)
    assert bodies(queues.fifo("nameless")) == [b"a"]


def test_what_is_aborted_is_in_no_queue_and_erased_later(queues: Queues) -> None:
    source = SnowmeltDataSource({"url": queues.url, "queue": "aborted", "stagedfor": "1"})
    writer = source.writer(schema=VALUES, overwrite=False)
    writer.abort([writer.write(rows(b"a")), None])
    queue = queues.fifo("aborted")
    assert (queue.stats().ready, queue.stats().staged) == (0, 1)


def test_a_full_queue_is_waited_for_and_then_told(queues: Queues) -> None:
    queue = queues.fifo("bounded", max_items=3)
    queue.put_many([b"1", b"2"])
    source = SnowmeltDataSource({"url": queues.url, "queue": "bounded", "timeout": "1"})
    writer = source.writer(schema=VALUES, overwrite=False)
    messages = [writer.write(rows(b"a", b"b"))]
    with pytest.raises(Full, match=r"holds 2 items .* no room was made within 1 s \(option time"):
        writer.commit(messages)
    queue.get().ack()
    writer.commit(messages)
    assert bodies(queue) == [b"2", b"a", b"b"]


@pytest.mark.parametrize(
    ("frame", "options", "said"),
    [
        ("select id value from range(3)", {"queue": "q"}, "'value bigint'; allowed: value as bin"),
        ("select '1' value, 1 priority", {"queue": "q"}, "schema has 'priority'; allowed: none"),
        ("select '1' value", {}, "queue is None; allowed: the name of a queue, or a column"),
        ("select '1' value", {"queue": "a/b"}, "queue is 'a/b'; allowed: 1 to 100 of"),
    ],
)
def test_a_misfit_is_told_before_a_task_runs(
    spark: SparkSession, queues: Queues, frame: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        queues.write(spark.sql(frame), **options)
    first = str(caught.value).splitlines()[0]
    assert said in first
    assert "Traceback" not in str(caught.value)


def test_a_queue_is_not_overwritten(spark: SparkSession, queues: Queues) -> None:
    frame = spark.sql("select '1' value")
    writer = frame.write.format("snowmelt").options(url=queues.url, queue="q")
    with pytest.raises(AnalysisException, match="mode is 'overwrite'; allowed: append"):
        writer.mode("overwrite").save()


def test_a_stream_that_lost_its_commit_log_publishes_its_batch_once(
    spark: SparkSession, queues: Queues, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.mkdir()
    (lines / "1.txt").write_text("a\nb\n")
    (lines / "2.txt").write_text("c\nd\n")
    frame = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(lines))
    queues.into(frame, "lines", queue="lines")
    queue = queues.fifo("lines")
    assert queue.stats().tail == 4
    commits = Path(queues.path("lines")) / "commits"
    for number in (0, 1):
        for name in (str(number), f".{number}.crc"):
            (commits / name).unlink()
        queues.into(frame, "lines", queue="lines")
        assert queue.stats().tail == 4
    (lines / "3.txt").write_text("e\n")
    queues.into(frame, "lines", queue="lines")
    assert sorted(bodies(queue)) == [b"a", b"b", b"c", b"d", b"e"]


def test_a_stream_says_what_is_wrong_with_its_sink(spark: SparkSession, queues: Queues) -> None:
    frame = spark.readStream.format("rate").load().selectExpr("value")
    with pytest.raises(StreamingQueryException, match="schema has 'value bigint'; allowed: value"):
        queues.into(frame, "bad", queue="bad")
