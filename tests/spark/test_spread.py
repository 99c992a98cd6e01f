"""Work spread over Spark's workers: what the built-in map does, and a sweep of pools by it."""

from pathlib import Path

from pyspark.sql import SparkSession

from snowmelt.lab.pool.grid import grid_of
from snowmelt.lab.pool.sweep import sweep
from snowmelt.spark.spread import spread
from snowmelt.spark.where import at_once

GRID = {"producers": 5, "consumers": [5, 10, 15], "objects": 200}


def test_spark_runs_a_sweep_as_this_process_does(spark: SparkSession, tmp_path: Path) -> None:
    mapped = spread(spark)
    assert list(mapped(bytes.upper, [b"one", b"two", b"three"])) == [b"ONE", b"TWO", b"THREE"]
    assert list(mapped(bytes.upper, [])) == []
    assert at_once(spark) == 2
    points = grid_of(GRID).points
    there = sweep(points, tmp_path / "there", mapped, wave=2)
    here = sweep(points, tmp_path / "here")
    assert [row["consumers"] for row in there] == [5, 10, 15]
    own = {"seconds": 0.0, "version": ""}  # the rest is the same, with the same dice
    assert [row | own for row in there] == [row | own for row in here]
