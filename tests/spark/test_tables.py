"""Queues as tables of SQL."""

from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.spark.cluster import Queues, bodies, queues_of


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    with queues_of(1, tmp_path_factory.mktemp("tables")) as made:
        yield made


@pytest.fixture
def no_tables(spark: SparkSession) -> Iterator[None]:
    yield
    for table in ("jobs", "named"):
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
