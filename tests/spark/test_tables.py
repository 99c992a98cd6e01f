"""Queues as tables of SQL."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter
from tests.spark.cluster import Queues, bodies, queues_of


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    with queues_of(1, tmp_path_factory.mktemp("tables")) as made:
        yield made


@pytest.fixture
def no_tables(spark: SparkSession) -> Iterator[None]:
    yield
    for table in ("jobs", "named", "other", "made"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")
    spark.sql("DROP VIEW IF EXISTS seen")


@pytest.mark.usefixtures("no_tables")
def test_a_table_keeps_its_options_for_select_and_insert(
    spark: SparkSession, queues: Queues
) -> None:
    queue = queues.fifo("jobs")
    queue.put(b"one")
    spark.sql(f"CREATE TABLE jobs USING snowmelt OPTIONS (url '{queues.url}', queue 'jobs')")
    spark.sql("INSERT INTO jobs (value) VALUES (CAST('two' AS binary))")
    assert bodies(queue) == [b"one", b"two"]
    rows = spark.sql("SELECT position, CAST(value AS string) FROM jobs ORDER BY position")
    assert [tuple(row) for row in rows.collect()] == [(0, "one"), (1, "two")]


@pytest.fixture
def two_tables(spark: SparkSession, queues: Queues, no_tables: None) -> None:  # noqa: ARG001
    """`jobs`, which has options that only a source has, and `other`."""
    for name, more in (("jobs", ", maxMessagesPerTrigger '10', group 'mine'"), ("other", "")):
        queue = queues.fifo(name)
        queue.put(b"of another test")
        queue.group("mine").release()
        queue.purge()
        queue.put(name.encode())
        options = f"OPTIONS (url '{queues.url}', queue '{name}'{more})"
        spark.sql(f"CREATE TABLE {name} USING snowmelt {options}")


INTO_OTHER: dict[str, Callable[[SparkSession, DataFrame], Any]] = {
    "INSERT INTO": lambda spark, _: spark.sql("INSERT INTO other (value) SELECT value FROM jobs"),
    "BY NAME": lambda spark, _: spark.sql("INSERT INTO other BY NAME SELECT value FROM jobs"),
    "writeTo": lambda _, rows: rows.writeTo("other").append(),
    "option": lambda _, rows: rows.writeTo("other").option("timeout", "9").append(),
    "saveAsTable": lambda _, rows: (
        rows.write.format("snowmelt").mode("append").saveAsTable("other")
    ),
}


@pytest.mark.parametrize("way", INTO_OTHER)
@pytest.mark.usefixtures("two_tables")
def test_rows_of_a_table_go_into_the_table_that_is_written(
    spark: SparkSession, queues: Queues, way: str
) -> None:
    INTO_OTHER[way](spark, spark.table("jobs").select("value"))
    assert bodies(queues.fifo("other")) == [b"other", b"jobs"]
    assert bodies(queues.fifo("jobs")) == [b"jobs"]


@pytest.mark.usefixtures("two_tables")
def test_a_table_that_has_options_of_a_source_alone_is_written(
    spark: SparkSession, queues: Queues
) -> None:
    spark.sql("INSERT INTO jobs (value) VALUES (CAST('two' AS binary))")
    assert bodies(queues.fifo("jobs")) == [b"jobs", b"two"]


def streamed(spark: SparkSession, queues: Queues, **options: str) -> DataStreamWriter:
    writer = spark.readStream.table("jobs").select("value").writeStream.options(**options)
    checkpoint = queues.path(f"tables-{len(options)}")
    return writer.format("snowmelt").option("checkpointLocation", checkpoint)


NOT_KNOWN: dict[str, Callable[[SparkSession, Queues], Any]] = {
    "all columns": lambda spark, _: spark.sql("INSERT INTO other SELECT * FROM jobs"),
    "all by writeTo": lambda spark, _: spark.table("jobs").writeTo("other").append(),
    "all into nowhere": lambda spark, _: (
        spark.table("jobs").write.format("snowmelt").mode("append").save()
    ),
    "some into nowhere": lambda spark, _: (
        spark.table("jobs").select("value").write.format("snowmelt").mode("append").save()
    ),
    "CREATE TABLE AS": lambda spark, queues: spark.sql(
        f"CREATE TABLE made USING snowmelt OPTIONS (url '{queues.url}', queue 'other') "
        "AS SELECT value, queue FROM jobs"
    ),
    "toTable": lambda spark, queues: queues.ended(streamed(spark, queues).toTable("other")),
}


@pytest.mark.parametrize("way", NOT_KNOWN)
@pytest.mark.usefixtures("two_tables")
def test_where_nobody_says_which_table_is_written_nothing_is(
    spark: SparkSession, queues: Queues, way: str
) -> None:
    with pytest.raises(
        Exception, match="url is None; allowed: where the cluster is; Spark does not say"
    ):
        NOT_KNOWN[way](spark, queues)
    queues.fifo("jobs").group("mine").release()
    assert bodies(queues.fifo("other")) == [b"other"]
    assert bodies(queues.fifo("jobs")) == [b"jobs"]


@pytest.mark.usefixtures("two_tables")
def test_rows_of_a_table_go_where_the_options_of_a_sink_say(
    spark: SparkSession, queues: Queues
) -> None:
    queues.write(spark.table("jobs").select("value", "queue"), queue="other")
    queues.write(spark.sql("SELECT value, 'other' queue FROM jobs"))
    writer = streamed(spark, queues, url=queues.url, queue="other").trigger(availableNow=True)
    queues.ended(writer.toTable("other"))
    assert bodies(queues.fifo("other")) == [b"other", b"jobs", b"jobs", b"jobs"]
    with pytest.raises(AnalysisException, match="schema has 'position'; allowed: some of value"):
        queues.write(spark.table("jobs"), queue="other")
    assert bodies(queues.fifo("jobs")) == []


@pytest.mark.usefixtures("no_tables")
def test_a_view_of_some_columns_is_read_and_filled(spark: SparkSession, queues: Queues) -> None:
    queue = queues.fifo("seen")
    queue.put(b"one")
    options = f"OPTIONS (url '{queues.url}', queue 'seen')"
    spark.sql(f"CREATE TEMPORARY VIEW seen (value string) USING snowmelt {options}")
    spark.sql("INSERT INTO seen VALUES ('two')")
    assert [row.value for row in spark.sql("SELECT * FROM seen").collect()] == ["one", "two"]


@pytest.mark.usefixtures("no_tables")
def test_a_table_says_what_it_can_not_keep(spark: SparkSession, queues: Queues) -> None:
    options = f"url '{queues.url}', queue 'named'"
    queues.fifo("named").put(b"one")
    spark.sql(f"CREATE TABLE named (value string) USING snowmelt OPTIONS ({options})")
    with pytest.raises(AnalysisException, match="Spark loses the OPTIONS of a table whose columns"):
        spark.sql("SELECT * FROM named").collect()
    with pytest.raises(AnalysisException, match="token is 'given'; allowed: none in a table"):
        spark.sql(f"CREATE TABLE jobs USING snowmelt OPTIONS ({options}, token 'secret')")


@pytest.mark.wide
def test_complete_mode_and_a_queue_that_is_loaded_twice_are_told_with_the_way_out(
    spark: SparkSession, queues: Queues
) -> None:
    queues.fifo("raw").put_many([b"1", b"2"])
    counts = queues.stream(spark, queue="raw", group="counted").groupBy("queue").count()
    counts = counts.selectExpr("CAST(count AS string) value")
    writer = counts.writeStream.format("snowmelt").options(url=queues.url, queue="out")
    writer = writer.outputMode("complete").option("checkpointLocation", queues.path("complete"))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(Exception, match=r"outputMode is 'complete'; .* by foreachBatch, with txn"):
        query.awaitTermination(60)
    queues.fifo("twice").put_many([b"1", b"2"])
    both = queues.stream(spark, queue="twice").union(queues.stream(spark, queue="twice"))
    with pytest.raises(Exception, match="load a queue once only in it, or each time with a group"):
        queues.into(both.select("value"), "twice", queue="out")
