"""Writing: all rows of a batch in one step, once, whatever is run twice."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from snowmelt.core.errors import AlreadyPublished, BadOption, Full, NotStaged
from snowmelt.spark.datasource import SnowmeltDataSource
from spark.cluster import Queues, bodies, queues_of

VALUES = StructType().add("value", "binary")


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
