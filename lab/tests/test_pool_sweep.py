"""Sweeps: every point once, kept wave by wave, in this process; Spark's part is tested there."""

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from pyarrow import parquet

from snowmelt.core.errors import BadOption, CallerError
from snowmelt_lab.pool.grid import grid_of
from snowmelt_lab.pool.keep import SCHEMA, Keep
from snowmelt_lab.pool.options import PoolOptions
from snowmelt_lab.pool.runs import key_of, options_row, version
from snowmelt_lab.pool.sweep import SweepFailed, sweep
from snowmelt_world.work import Work
from test_commands import as_json, lines, ran

SMALL = {"producers": 5, "consumers": [5, 10], "max_hops": [1, 2], "objects": 200}


class Watched:
    """Does the work here, and remembers how much of it came; it ends as a killed program does."""

    def __init__(self, waves: int = 1000) -> None:
        self.pieces: list[bytes] = []
        self._waves = waves

    def __call__(self, work: Work, pieces: Sequence[bytes]) -> Iterable[bytes]:
        if not self._waves:
            raise KeyboardInterrupt
        self._waves -= 1
        self.pieces += pieces
        return map(work, pieces)


def test_every_point_is_run_once_and_kept_with_what_was_asked_measured_and_modelled(
    tmp_path: Path,
) -> None:
    points = grid_of(SMALL).points
    watched = Watched()
    told: list[int] = []
    rows = sweep([*points, points[0]], tmp_path, watched, wave=3, shown=told.append)
    assert told == [0, 3, 1]
    assert len(watched.pieces) == len(set(watched.pieces)) == 4
    assert rows[0] == rows[4]
    for point, row in zip(points, rows, strict=False):
        assert (row["consumers"], row["max_hops"]) == (point.consumers, point.max_hops)
        assert row["load"] == point.load
        assert (row["seed"], row["key"], row["version"]) == (point.seed, key_of(point), version())
        assert row["throughput"] == pytest.approx(row["model_throughput"], rel=0.3)
        assert row["model_converged"]
        assert row["objects_most"] == 200
        assert sum(row["states"].values()) == pytest.approx(1)
    kept = parquet.read_table(tmp_path / "runs")  # as Spark, pandas or duckdb would
    assert kept.num_rows == 4
    assert len(set(kept.column_names)) == len(kept.column_names) == len(SCHEMA.names)


def test_a_sweep_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    points = grid_of(SMALL).points
    first, second, third = Watched(waves=1), Watched(), Watched()
    with pytest.raises(KeyboardInterrupt):
        sweep(points, tmp_path, first, wave=2)
    rows = sweep(points, tmp_path, second, wave=2)
    assert (len(first.pieces), len(second.pieces)) == (2, 2)
    assert not set(first.pieces) & set(second.pieces)
    assert sweep(points, tmp_path, third) == rows
    assert third.pieces == []
    more = grid_of({**SMALL, "buffers": [5, 6]}).points
    sweep(more, tmp_path, third)
    assert len(third.pieces) == 4  # those of five buffers are there


def test_the_longest_runs_come_first(tmp_path: Path) -> None:
    points = grid_of({"producers": 5, "consumers": 5, "objects": [100, 400, 200]}).points
    watched = Watched()
    sweep(points, tmp_path, watched)
    sizes = [json.loads(piece)["objects"] for piece in watched.pieces]
    assert sizes == [400, 200, 100]


def test_what_another_version_has_run_is_run_anew(tmp_path: Path) -> None:
    points = grid_of(SMALL).points[:2]
    keep = Keep(tmp_path)
    keep.add([{**options_row(point), "version": "older"} for point in points])
    assert len(keep.rows("older")) == 2
    watched = Watched()
    sweep(points, tmp_path, watched)
    assert len(watched.pieces) == 2


def test_a_point_that_fails_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    points = grid_of({**SMALL, "access": ["uniform", "adaptive"]}).points  # no kernel for adaptive
    with pytest.raises(SweepFailed) as failed:
        sweep(points, tmp_path, Watched(), wave=3)
    said = str(failed.value)
    assert said.startswith("4 of 8 runs failed, the others are kept: ")
    assert "access=adaptive" in said
    assert "--engine machine" in said
    assert "and 1 more" in said
    assert len(Keep(tmp_path).rows(version())) == 4


def test_a_file_that_is_no_table_is_told_by_its_name(tmp_path: Path) -> None:
    Keep(tmp_path)
    (tmp_path / "runs" / "torn.parquet").write_bytes(b"PAR1")
    with pytest.raises(CallerError, match=r"torn\.parquet can't be read as Parquet: delete it"):
        sweep([PoolOptions()], tmp_path)


def test_half_a_file_of_a_killed_sweep_is_not_looked_at(tmp_path: Path) -> None:
    Keep(tmp_path)
    (tmp_path / "runs" / ".torn.part").write_bytes(b"PAR1")
    assert Keep(tmp_path).rows(version()) == {}


def test_a_folder_that_cant_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadOption, match="--out"):
        sweep([PoolOptions()], tmp_path / "file")


def test_the_command_prints_what_varies_and_writes_all_of_it(tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text("producers = 5\nconsumers = [5, 10]\nmax_hops = 2\nobjects = 200\n")
    out = tmp_path / "out"
    here = ("sweep", str(grid), "--out", str(out), "--master", "none")
    table = ran(*here)
    head = "consumers load throughput wait ± model's probes held up messages"
    assert head in " ".join(table.split())
    rows = lines(out / "results.csv")
    assert [row["consumers"] for row in rows] == ["5", "10"]
    assert json.loads(rows[0]["messages"])["ObjectsLent"] == pytest.approx(1, abs=0.05)
    again = as_json(*here)
    assert [row["seed"] for row in again["points"]] == [int(row["seed"]) for row in rows]


def test_two_sweeps_of_one_grid_in_one_folder_do_not_take_each_others_files(tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text("producers = 5\nmax_hops = [1, 2, 3, 4]\nobjects = 20_000\n")
    command = [sys.executable, "-m", "snowmelt", "lab", "sweep", str(grid)]
    command += ["--out", str(tmp_path / "out"), "--master", "none"]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [(one.communicate(timeout=120)[1], one.returncode) for one in both] == [("", 0)] * 2
    assert not list((tmp_path / "out" / "runs").glob(".*.part"))


def test_a_file_that_another_sweep_writes_just_now_is_left_alone(tmp_path: Path) -> None:
    sweep(grid_of(SMALL).points, tmp_path)
    (name,) = (file.stem for file in (tmp_path / "runs").glob("*.parquet"))
    other = tmp_path / "runs" / f".{name}.part"
    other.write_bytes(b"half")
    Keep(tmp_path).add(list(Keep(tmp_path).rows(version()).values()))
    assert other.read_bytes() == b"half"


@pytest.mark.parametrize("master", ["nonsense", "local[0]", ""])
def test_a_master_that_spark_does_not_know_is_refused_before_it_starts(
    tmp_path: Path, master: str
) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text("objects = 200\n")
    with pytest.raises(BadOption, match=r"--master is .*; allowed: none, local\[N\]"):
        ran("sweep", str(grid), "--out", str(tmp_path / "out"), "--master", master)
