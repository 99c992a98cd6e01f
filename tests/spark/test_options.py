"""Options and schemas: what is taken, and what is told to a person who gives something else."""

import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from snowmelt.client.queue.group_steps import Mark
from snowmelt.core.errors import BadOption
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.calls import Located, Span
from snowmelt.spark.columns import check_writable, readable, source_schema
from snowmelt.spark.offsets import Offset, told
from snowmelt.spark.options import sink_options, source_options
from snowmelt.spark.partitions import LocatedItems, Tasks, cut, tasks, within
from spark.cluster import Queues, queues_of

URL = {"url": "snowmelt://127.0.0.1:4410"}
RAW = {**URL, "queue": "raw"}


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    with queues_of(1, tmp_path_factory.mktemp("queues")) as running:
        yield running


def ddl(text: str) -> StructType:
    """Read by Spark, so a session must be there."""
    return StructType.fromDDL(text)


def test_what_is_not_said_is_as_the_docs_have_it() -> None:
    options = source_options(RAW)
    assert (options.queues, options.pattern, options.group) == (("raw",), "", "spark")
    assert (options.rows_max, options.bytes_max, options.partitions_min) == (0, 0, 0)
    assert options.fail_on_loss
    assert options.headers == "false"
    assert options.connection.timeout == 60
    sink = sink_options(RAW, streaming=True)
    assert (sink.queue, sink.producer, sink.version, sink.hold) == ("raw", "", None, 6 * 3600)


def test_kafkas_names_mean_the_same_and_case_means_nothing() -> None:
    options = source_options({**URL, "SUBSCRIBE": "b, a,b", "maxoffsetspertrigger": "7"})
    assert (options.queues, options.rows_max) == (("a", "b"), 7)
    assert source_options({**URL, "subscribePattern": "r.*"}).pattern == "r.*"
    assert sink_options({**URL, "topic": "raw"}, streaming=False).queue == "raw"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**RAW, "maxMesagesPerTrigger": "1"}, "maxMessagesPerTrigger, which is the nearest"),
        ({**RAW, "startingOffsets": "latest"}, "none: a new group begins with what waits"),
        ({**RAW, "kafka.bootstrap.servers": "a:1"}, "none: the option `url` says where"),
        ({**RAW, "kafka.group.id": "a"}, "kafka.group.id is 'a'; allowed: none: the option `url`"),
        ({**RAW, "minOffsetsPerTrigger": "9"}, "none: a batch is what waits; trigger(processing"),
        ({**RAW, "maxTriggerDelay": "9m"}, "maxTriggerDelay is '9m'; allowed: none: a batch is"),
        ({**RAW, "startingOffsetsByTimestamp": "{}"}, "however old it is. Filter by column times"),
        ({**RAW, "path": "raw"}, "named by the option `queue`"),
        ({"queue": "raw"}, "url is None; allowed: where the cluster is"),
        ({"url": "kafka://a:1", "queue": "raw"}, "url is 'kafka://a:1'; allowed: snowmelt://"),
        (URL, "queue is None; allowed: one of the options queue, queues and queuePattern"),
        ({**RAW, "queues": "a"}, "queue is 'queue and queues'"),
        ({**RAW, "queues": "raw", "subscribe": "late"}, "one value; it is also given as 'raw'"),
        ({**URL, "queues": "a,,b"}, "queues is ''; allowed: 1 to 100 of"),
        ({**URL, "queuePattern": "("}, "queuePattern is '('; allowed: a regular expression"),
        ({**RAW, "group": "my group"}, "group is 'my group'; allowed: 1 to 64 of"),
        ({**RAW, "maxMessagesPerTrigger": "0"}, "maxMessagesPerTrigger is '0'; allowed: a whole"),
        ({**RAW, "maxBytesPerTrigger": "1MB"}, "maxBytesPerTrigger is '1MB'"),
        ({**RAW, "minPartitions": "-1"}, "minPartitions is '-1'"),
        ({**RAW, "cores": "0"}, "cores is '0'"),
        ({**RAW, "batchSeconds": "0.1"}, "batchSeconds is '0.1'; allowed: 1 to 3600 seconds"),
        ({**RAW, "batchSeconds": "5", "kind": "priority"}, "none with kind=priority"),
        ({**RAW, "failOnDataLoss": "no"}, "failOnDataLoss is 'no'; allowed: true or false"),
        ({**RAW, "timeout": "nan"}, "timeout is 'nan'; allowed: 1 to 86400 seconds"),
    ],
)
def test_an_option_that_is_wrong_is_named_with_a_way_out(given: dict[str, str], said: str) -> None:
    with pytest.raises(BadOption) as caught:
        source_options(given)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("given", "streaming", "said"),
    [
        ({"txnAppId": "daily"}, False, "txnVersion is None; allowed: a number with txnAppId"),
        ({"txnAppId": "a", "txnVersion": "x"}, False, "txnVersion is 'x'"),
        ({"txnAppId": "a", "txnVersion": "3"}, True, "numbers its batches itself"),
        ({"txnAppId": "c-1"}, True, "txnAppId is 'c-1'; allowed: 1 to 64 of"),
        ({"stagedFor": "0"}, True, "stagedFor is '0'; allowed: 1 to 604800 seconds"),
        ({"group": "spark"}, True, "option is 'group'"),
        ({"includeHeaders": "true"}, True, "none in a sink: it takes a column `headers`"),
        ({"replicas": "8"}, True, "replicas is '8'; allowed: 1 to 7"),
        ({"maxItems": "many"}, True, "maxItems is 'many'; allowed: a whole number, 0 or more"),
        ({"flush": "soon"}, True, "flush is 'soon'; allowed: a number of seconds"),
        ({"durableCopies": "9", "kind": "priority"}, True, "durableCopies is '9'; allowed: 0 to 7"),
    ],
)
def test_a_sinks_options_are_checked_too(given: dict[str, str], streaming: bool, said: str) -> None:
    with pytest.raises(BadOption) as caught:
        sink_options({**RAW, **given}, streaming)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "columns",
    [
        "value string",
        "position bigint not null, value binary not null",
        "headers map<string,string>, key string, failures int",
    ],
)
@pytest.mark.usefixtures("spark")
def test_arrow_has_just_the_schema_that_spark_expects(columns: str) -> None:
    for schema in (ddl(columns), source_schema("true")):
        assert readable(schema).equals(to_arrow_schema(schema, timezone="UTC"))
    assert readable(ddl("value string")).types == [pa.string()]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("offset bigint", "schema has 'offset'; allowed: some of key, value, queue, position"),
        ("value bigint", "schema has 'value bigint'; allowed: value as binary or string"),
        ("key binary not null", "key, which is null for some items"),
        ("headers map<string,int>", "allowed: headers as map<string,string|binary>"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_a_schema_that_cannot_be_read_is_refused(columns: str, said: str) -> None:
    with pytest.raises(BadOption) as caught:
        readable(ddl(columns))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("value binary, priority int", "schema has 'priority'; allowed: none in a fifo"),
        ("key binary", "a column `value`"),
        ("value struct<a:int>", "allowed: value as binary or string"),
        ("value string, delay string", "schema has 'delay string'; allowed: delay as double"),
        ("value string, topic string", "some of value, key, headers, delay, queue"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_a_schema_that_cannot_be_written_is_refused(columns: str, said: str) -> None:
    with pytest.raises(BadOption) as caught:
        check_writable(ddl(columns), "raw")
    assert said in str(caught.value)


@pytest.mark.usefixtures("spark")
def test_a_sink_is_told_a_queue_by_option_or_column() -> None:
    check_writable(ddl("value string, queue string, delay int"), "")
    with pytest.raises(BadOption, match="queue is None; allowed: the name of a queue, or a column"):
        check_writable(ddl("value string"), "")


def test_an_offset_comes_back_as_it_was_and_is_nobody_elses() -> None:
    offset = Offset("g", {"b": Mark(2, 3), "a": Mark(1, 9)})
    assert list(offset.told()["queues"]) == ["a", "b"]
    assert told(offset.told(), "g") == offset
    with pytest.raises(BadOption, match="group is 'h'; allowed: g, whose checkpoint this is"):
        told(offset.told(), "h")
    with pytest.raises(BadOption, match="start a new checkpoint"):
        told({"offset": 3}, "g")
    with pytest.raises(BadOption, match="checkpoint is 'of version 2'; allowed: version 1"):
        told({**offset.told(), "v": 2}, "g")


def test_spans_are_cut_into_portions_that_hold_each_position_once() -> None:
    spans = tuple(Span(at, at + 70, f"s{at}", 5, ()) for at in range(0, 1000, 100))
    found = [LocatedItems("raw", Located(spans, 0, 700 * 100))]
    for parts in (0, 1, 3, 7, 700, 5000):
        made = [one for task in tasks(found, Tasks(parts)) for one in task]
        assert len(made) >= min(parts, 700)
        held = [at for one in made for span in one.spans for at in range(span.start, span.stop)]
        assert held == [at for span in spans for at in range(span.start, span.stop)]
        firsts = [span.first - 5 for one in made for span in one.spans]
        assert firsts == [span.start % 100 for one in made for span in one.spans]
        assert pickle.loads(pickle.dumps(made)) == made
    assert tasks([LocatedItems("raw", Located((), 3, 0))], Tasks(4)) == []
    large = LocatedItems("raw", Located(spans, 0, 700 * (4 << 20)))
    assert len(tasks([large], Tasks())) == 175
    assert [len(some) for some in cut(spans, 1000)] == [10]
    assert within(spans, [Interval(60, 110), Interval(990, 2000)]) == (
        Span(60, 70, "s0", 65, ()),
        Span(100, 110, "s100", 5, ()),
    )


def test_as_many_tasks_as_cores_where_each_has_work_and_small_queues_share_one() -> None:
    def waits(name: str, rows: int) -> LocatedItems:
        return LocatedItems(name, Located((Span(0, rows, "s", 0, ()),), 0, rows * 100))

    assert [len(tasks([waits("raw", rows)], Tasks(cores=8))) for rows in (1, 3000, 50_000)] == [
        1,
        3,
        8,
    ]
    twenty = [waits(f"q{at:02}", 20) for at in range(20)]
    (together,) = tasks(twenty, Tasks(cores=2))
    assert [portion.queue for portion in together] == [f"q{at:02}" for at in range(20)]
    large = [waits(f"q{at:02}", 2000) for at in range(20)]
    assert [sum(one.rows for one in task) for task in tasks(large, Tasks(cores=2))] == [20_000] * 2
    assert len(tasks(twenty, Tasks(least=20))) == 20
    three = [waits(name, 100_000) for name in "abc"]
    assert [sum(one.rows for one in task) for task in tasks(three, Tasks(cores=2))] == [150_000] * 2
    assert len(tasks(three, Tasks())) == 5, "nobody knows how many are run at once"


def failure(spark: SparkSession, **options: str) -> str:
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("snowmelt").options(**options).load()
    first = str(caught.value).splitlines()[0]
    assert "Traceback" not in str(caught.value)
    with pytest.raises(AnalysisException) as caught:
        spark.readStream.format("snowmelt").options(**options).load()
    assert str(caught.value).splitlines()[0] == first
    return first


def test_load_says_in_its_first_line_what_is_wrong(spark: SparkSession, queues: Queues) -> None:
    queues.fifo("there").put(b"1")
    said = failure(spark, url=queues.url, queue="their")
    assert "NoSuchQueue: queue 'their' is not in the cluster at" in said
    assert "there" in said
    assert "option is 'quue'; allowed: queue" in failure(spark, url=queues.url, quue="there")
    nobody = "snowmelt://127.0.0.1:9"
    assert f"nobody answers at {nobody}" in failure(spark, url=nobody, queue="there", timeout="1")


def test_an_action_says_what_is_wrong_with_a_schema(spark: SparkSession, queues: Queues) -> None:
    queues.fifo("there").put(b"1")
    reader = spark.read.format("snowmelt").options(url=queues.url, queue="there")
    with pytest.raises(AnalysisException, match="schema has 'offset'; allowed: some of key, value"):
        reader.schema("offset long").load().collect()
