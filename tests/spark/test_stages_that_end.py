"""Stages of Spark that would end without a word: a folder that another wrote, a query stopped."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.core.errors import BadOption
from snowmelt.spark.failing import StageFailed
from snowmelt.spark.pipeline import Pipeline
from spark.cluster import forget, wait_until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(1, tmp_path_factory.mktemp("nodes"), 0.5) as running:
        running.start()
        yield running


@pytest.mark.wide
def test_a_stage_begun_anew_does_not_lose_its_batches_in_a_folder_of_the_old_one(
    cluster: LocalCluster, tmp_path: Path, spark: SparkSession
) -> None:
    def run(places: str, folder: str) -> None:
        pipeline = Pipeline("anew").stage("write", source="anew", parquet=str(tmp_path / folder))
        pipeline.run(cluster.url, drain=True, checkpoints=tmp_path / places, session=spark)

    def written(folder: str) -> list[bytes]:
        rows = spark.read.parquet(str(tmp_path / folder)).collect()
        return sorted(bytes(row.value) for row in rows)

    with snowmelt.connect(cluster.url) as connection:
        queue = connection.fifo("anew")
        queue.put(b"a")
        run("places", "out")
        queue.put(b"b")
        run("places", "out")
        assert written("out") == [b"a", b"b"]
        forget(tmp_path / "places" / "anew" / "write", 1)
        with pytest.raises(BadOption, match=r"write is .* which knows of 1 batches only"):
            run("places", "out")
        queue.group("anew.write").release()
        queue.put(b"c")
        with pytest.raises(BadOption, match=r"parquet of stage write .* allowed: a new folder"):
            run("begun-anew", "out")
        assert queue.stats().ready == 1
        run("begun-anew", "new")
    assert written("new") == [b"c"]


def test_a_stage_does_not_lose_its_batches_in_a_folder_that_another_query_wrote_further(
    cluster: LocalCluster, tmp_path: Path, spark: SparkSession
) -> None:
    folder = str(tmp_path / "out")
    pipeline = Pipeline("further").stage("write", source="further", parquet=folder)

    def run() -> None:
        pipeline.run(cluster.url, drain=True, checkpoints=tmp_path / "places", session=spark)

    with snowmelt.connect(cluster.url) as connection:
        queue, other = connection.fifo("further"), connection.fifo("other")
        queue.put(b"a")
        run()
        other.put_many([b"%d" % number for number in range(5)])
        frame = spark.readStream.format("snowmelt").options(url=cluster.url, queue="other")
        writer = frame.option("maxMessagesPerTrigger", 1).load().writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(tmp_path / "others"))
        query = writer.trigger(availableNow=True).start(folder)
        assert query.awaitTermination(60)
        queue.put(b"b")
        said = r"another checkpoint wrote into this one, .* which knows of 1 batches only"
        with pytest.raises(BadOption, match=said):
            run()
        assert queue.stats().ready == 1, "it was not told to be done"


def test_two_stages_do_not_write_into_one_folder() -> None:
    pipeline = Pipeline("two").stage("one", source="a", parquet="out")
    with pytest.raises(BadOption, match=r"parquet of stage two is 'out'; .* stage one writes"):
        pipeline.stage("two", source="b", parquet="out")


def test_a_query_that_another_stopped_fails_its_stage(
    cluster: LocalCluster, tmp_path: Path, spark: SparkSession
) -> None:
    with snowmelt.connect(cluster.url) as connection:
        connection.fifo("stopped").put(b"a")
        pipeline = Pipeline("stopped").stage(
            "write", source="stopped", parquet=str(tmp_path / "out")
        )
        with pipeline.start(cluster.url, checkpoints=tmp_path / "places", session=spark) as running:
            assert wait_until(lambda: running.look()[0].taken == 1, 60)
            next(one for one in spark.streams.active if one.name == "stopped.write").stop()
            with pytest.raises(StageFailed, match="its query was stopped by another"):
                running.look()
