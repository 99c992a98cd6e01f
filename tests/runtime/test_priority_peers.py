"""The comparison of priority queues runs with real nodes, and judges its rows as it should."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.fifo.cell import Cell
from benchmarks.fifo.load import Phase, Turn
from benchmarks.fifo.row import Row
from benchmarks.priority_cpu import spent
from benchmarks.priority_peers_parts.bars import bars

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "benchmarks" / "priority_peers.py"


def row(peer: str, cell: Cell, seconds: float) -> Row:
    took = Phase(10, seconds, seconds / 10, seconds / 10)
    return Row(cell, peer, turns=[Turn(took, took)])


def test_one_node_is_held_against_the_best_of_the_others() -> None:
    cell = Cell(100, 1000)
    rows = [row("snowmelt-1", cell, 1.0), row("redis", cell, 4.0), row("beanstalkd", cell, 9.0)]
    (bar,) = bars(rows)
    assert (bar.ratio, bar.reached) == (4.0, False)
    assert "redis" in bar.name


def test_any_priorities_in_batches_are_held_against_each_that_loses_what_it_hands_out() -> None:
    names = ("snowmelt-1", "snowmelt-any", "redis", "redis-zpopmin", "redis-pipeline")
    cell, took = Cell(100, 1000), (1, 2, 8, 5, 16)
    rows = [row(name, cell, seconds) for name, seconds in zip(names, took, strict=True)]
    found = {bar.name.split(", ")[-1]: (bar.ratio, bar.reached) for bar in bars(rows)}
    assert found == {
        "snowmelt-1 / redis": (8.0, True),
        "snowmelt-any / redis": (4.0, True),
        "snowmelt-any / redis-zpopmin": (2.5, False),
        "snowmelt-any / redis-pipeline": (8.0, True),
    }


def test_without_others_nothing_is_judged() -> None:
    assert not list(bars([row("snowmelt-1", Cell(100, 1), 1.0)]))


def test_it_comes_to_figures(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), "--json", "--quick", "--data", str(tmp_path)]
    command += ["--only", "peers", "--peers", "snowmelt-1,least-python", "--seconds", "0.05"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout}"
    found = json.loads(done.stdout)
    rates = {row["peer"]: [] for row in found["rows"]}
    for row in found["rows"]:
        rates[row["peer"]].append(row["both_per_second"])
    assert [len(rates[peer]) for peer in ("snowmelt-1", "least-python")] == [3, 1]
    assert all(rates["snowmelt-1"] + rates["least-python"])
    assert not list(tmp_path.iterdir())  # what it made is gone


@pytest.mark.parametrize(("calls", "items", "tasks"), [(2, 1_000, 0), (30, 1, 0), (30, 1, 8)])
def test_the_processor_time_of_an_item_is_the_client_s_and_the_servers(
    calls: int, items: int, tasks: int
) -> None:
    found = spent("snowmelt-any", calls, items, tasks)
    assert found.put_server > 0
    assert found.get_server > 0
    parts = found.put_client + found.put_server + found.get_client + found.get_server
    assert found.both == pytest.approx(parts, abs=0.05)
