"""Work spread over Spark's workers: what the built-in map does, and a sweep of pools by it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from snowmelt.spark.where import at_once
from snowmelt_lab.order.crew import Crew
from snowmelt_lab.order.grid import runs
from snowmelt_lab.pool.grid import grid_of
from snowmelt_lab.pool.sweep import sweep
from snowmelt_world.faults import KINDS
from snowmelt_world.planted import Bug
from snowmelt_world.spread import spread
from snowmelt_world.sweep import sweep as lives

GRID = {"producers": 5, "consumers": [5, 10, 15], "objects": 200}


@pytest.mark.wide
def test_spark_runs_a_sweep_as_this_process_does(spark: SparkSession, tmp_path: Path) -> None:
    mapped = spread(spark)
    points = grid_of(GRID).points
    there = sweep(points, tmp_path / "there", mapped, wave=2)
    here = sweep(points, tmp_path / "here")
    assert [row["consumers"] for row in there] == [5, 10, 15]
    own = {"seconds": 0.0, "version": ""}  # the rest is the same, with the same dice
    assert [row | own for row in there] == [row | own for row in here]


def test_lives_on_spark_are_the_lives_of_this_process(spark: SparkSession) -> None:
    wanted = ("membership", range(20), KINDS)
    assert list(lives(*wanted, crew=spread(spark))) == list(lives(*wanted))


def test_a_life_that_ends_badly_tells_its_story_from_spark(spark: SparkSession) -> None:
    bug = Bug.FORGOTTEN_TIMER  # seed 1 shows it
    there = list(lives("membership", range(6), KINDS, bug, crew=spread(spark)))
    assert there == list(lives("membership", range(6), KINDS, bug))
    assert any(one.story for one in there)


def test_results_come_in_order_and_who_leaves_early_gets_no_more(spark: SparkSession) -> None:
    assert at_once(spark) == 2
    assert list(spread(spark)(bytes.upper, [])) == []
    results = spread(spark)(bytes.upper, [b"a", b"b", *[b"c"] * 1_000])
    assert [next(results), next(results)] == [b"A", b"B"]
    results.close()
    assert next(results, None) is None


@pytest.mark.wide
def test_the_grid_of_orders_is_the_same_on_spark(spark: SparkSession) -> None:
    wanted = (Crew(consumers=1, failure=0), [2, 8], [0.01, 0.1], 500, 1)
    assert list(runs(*wanted, spread(spark))) == list(runs(*wanted))
