"""The comparison of priority queues runs with real nodes, and judges its rows as it should."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.peers import processes
from benchmarks.peers.comparison import Work
from benchmarks.peers.priority import COMPARISON
from benchmarks.peers.rows import Bar, Row, bars
from benchmarks.peers.starting import running

ROOT = Path(__file__).parents[2]
MANY, ONE, _ = (work.name for work in COMPARISON.works)


def row(peer: str, work: str, seconds: float) -> Row:
    return Row(Work(work, work, lambda *_: {}), peer, turns=[{"both_per_second": 1 / seconds}])


def judged(rows: list[Row]) -> list[Bar]:
    return list(bars(COMPARISON.goals, rows))


def test_one_node_is_held_against_the_best_of_the_others() -> None:
    rows = [row("snowmelt-1", MANY, 1.0), row("redis", MANY, 4.0), row("beanstalkd", MANY, 9.0)]
    (bar,) = judged(rows)
    assert (bar.ratio, bar.reached) == (4.0, False)
    assert "redis" in bar.name


def test_any_priorities_in_batches_are_held_against_each_that_loses_what_it_hands_out() -> None:
    names = ("snowmelt-1", "snowmelt-any", "redis", "redis-zpopmin", "redis-pipeline")
    took = (1, 2, 8, 5, 16)
    rows = [row(name, MANY, seconds) for name, seconds in zip(names, took, strict=True)]
    found = {bar.name.split(", ")[-1]: (bar.ratio, bar.reached) for bar in judged(rows)}
    assert found == {
        "snowmelt-1 / redis": (8.0, True),
        "snowmelt-any / redis": (4.0, True),
        "snowmelt-any / redis-zpopmin": (2.5, False),
        "snowmelt-any / redis-pipeline": (8.0, True),
    }


def test_without_others_nothing_is_judged() -> None:
    assert not judged([row("snowmelt-1", ONE, 1.0)])


@pytest.mark.wide
def test_it_comes_to_figures(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "snowmelt", "bench", "priority", "--quick", "--json"]
    command += ["--data", str(tmp_path), "--seconds", "0.05", "--chart", str(tmp_path / "f.png")]
    command += ["--peers", "snowmelt-1,plain-python"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout}"
    found = json.loads(done.stdout)
    rows = {peer: [row for row in found["rows"] if row["peer"] == peer] for peer in found["peers"]}
    assert [len(rows[peer]) for peer in ("snowmelt-1", "plain-python")] == [3, 3]
    for one in rows["snowmelt-1"] + rows["plain-python"]:
        assert one["both_per_second"] > 0
        assert one["client_us"] > 0  # processor time of both ends
        assert one["servers_us"] > 0
    assert {one.name for one in tmp_path.iterdir()} <= {"f.png"}  # what it made is gone


@pytest.mark.parametrize("name", ["rabbitmq-classic", "redis", "beanstalkd"])
def test_a_peer_that_is_not_here_is_named_with_what_installs_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PLACES", [str(tmp_path)])
    with running(COMPARISON, [name, "disk"], tmp_path) as (peers, missing):
        assert [peer.name for peer in peers] == ["disk"]
        assert list(missing) == [name]
        assert "install" in missing[name]
