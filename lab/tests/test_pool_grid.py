"""Grids as people write them: what they come to, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from snowmelt.core.errors import BadOption
from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_lab.pool.grid import grid_of, read, seeded
from snowmelt_lab.pool.options import Algorithm, Group, PoolOptions, Times

SEED_OF_THE_USUAL = 8_822_492_455_124_945_969
"""Drawn once; it changes when an option is added, and then sweeps have other dice."""
WRITTEN = """
seed = 7
objects = 1000
max_hops = [1, 2, 3]
groups = "50:2,50:1"
access = ["uniform", "0.67,0.33"]
times = "uniform"
transit = 2
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "grid.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_of_values_and_lists_becomes_all_their_pairs(tmp_path: Path) -> None:
    grid = read(written(tmp_path, WRITTEN))
    assert grid.varied == ("max_hops", "access")
    assert len(grid.points) == 6
    assert [(one.max_hops, one.access, one.shares) for one in grid.points[:2]] == [
        (1, AccessKind.UNIFORM, ()),
        (1, AccessKind.WEIGHTED, (0.67, 0.33)),
    ]
    for point in grid.points:
        assert point.groups == (Group(50, 2.0), Group(50, 1.0))
        assert (point.objects, point.times, point.transit) == (1000, Times.UNIFORM, 2.0)


def test_algorithms_are_written_by_name_and_the_rest_is_as_usual() -> None:
    points = grid_of({"algorithm": ["stochastic", "central", "manager"]}).points
    assert [one.algorithm for one in points] == list(Algorithm)
    assert {one.buffers for one in points} == {PoolOptions().buffers}


def test_each_point_has_its_own_seed_whatever_stands_beside_it() -> None:
    many = grid_of({"seed": 4, "max_hops": [1, 2, 3], "consumers": [50, 100]}).points
    assert len({one.seed for one in many}) == 6
    alone = grid_of({"seed": 4, "max_hops": 2, "consumers": 100}).points
    assert alone[0] in many
    other = grid_of({"seed": 5, "max_hops": 2, "consumers": 100}).points
    assert other[0].seed != alone[0].seed


def test_seeds_stay_the_same_from_one_program_to_the_next() -> None:
    assert seeded(PoolOptions(), 1).seed == seeded(PoolOptions(), 1).seed == SEED_OF_THE_USUAL


def test_a_point_that_is_written_twice_is_one() -> None:
    assert len(grid_of({"max_hops": [3, 3, 3], "access": ["uniform", "uniform"]}).points) == 1


@pytest.mark.parametrize(
    ("table", "key", "allowed"),
    [
        ({"hops": 3}, "hops", "max_hops"),
        ({"shares": [0.5, 0.5]}, "shares", "access"),
        ({"max_hops": []}, "max_hops", "a list of values"),
        ({"max_hops": "3"}, "max_hops", "a whole number"),
        ({"max_hops": [1, 2.5]}, "max_hops", "a whole number"),
        ({"max_hops": True}, "max_hops", "a whole number"),
        ({"transit": "fast"}, "transit", "a number"),
        ({"transit": {"mean": 1}}, "transit", "a number"),
        ({"groups": 50}, "groups", "text"),
        ({"algorithm": "clever"}, "algorithm", "stochastic, central, manager"),
        ({"times": ["uniform", "even"]}, "times", "exponential, uniform, constant"),
        ({"max_hops": [3, 0]}, "max_hops", "1 to"),
        ({"consume_rate": 0}, "consume_rate", "1e-06 to"),
        ({"groups": "50:2"}, "groups", "100 producers"),
        ({"access": "0.67,0.33"}, "access", "a share for each group"),
        ({"groups": "50:2,50:1", "access": "0.6,0.6"}, "access", "shares that sum to one"),
        ({"groups": "50:2,50:1", "access": "1"}, "access", "of which there are 2"),
        ({"algorithm": "central", "fan_out": 3}, "fan_out", "left out"),
        ({"producers": 10_000, "buffers": 1001}, "buffers", "1 to 1000"),
        ({"fan_out": 101}, "fan_out", "1 to 100"),
        ({"seed": [1, 2]}, "seed", "a whole number"),
        ({"seed": -1}, "seed", "0 or more"),
    ],
)
def test_what_cant_be_is_refused_by_its_key(table: dict[str, Any], key: str, allowed: str) -> None:
    with pytest.raises(BadOption) as refused:
        grid_of(table)
    assert refused.value.option == key
    assert allowed in refused.value.allowed


def test_a_grid_with_too_many_points_is_refused_before_they_are_made() -> None:
    numbers = list(range(1, 5001))
    with pytest.raises(BadOption, match=r"125,000,000,000 points.*100,000 at most"):
        grid_of({"producers": numbers, "consumers": numbers, "buffers": numbers})


def test_a_file_that_is_not_there_or_no_toml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="No such file"):
        read(tmp_path / "nowhere.toml")
    with pytest.raises(BadOption, match="a TOML file"):
        read(written(tmp_path, "max_hops = "))


def test_brackets_without_end_are_refused(tmp_path: Path) -> None:
    endless = "a = " + "[" * 5000 + "]" * 5000
    with pytest.raises(BadOption, match="nested less deeply"):
        read(written(tmp_path, endless))
