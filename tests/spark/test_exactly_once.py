"""A stream is killed at random moments and goes on from its checkpoint: every item comes out once.

The program runs on a real cluster and kills real processes; it counts what came out by item, and
after each kill looks whether the checkpoint and both queues fit together.
"""

from pathlib import Path
from typing import Any

import pytest

import chaos_runs
from wide import wide


def survives(folder: Path, *options: str, timeout: float) -> dict[str, Any]:
    code, result, said = chaos_runs.run("spark_chaos.py", folder, *options, timeout=timeout)
    assert code == 0, f"{said}\n{result}"
    judged = result["judgement"]
    assert result["broken"] == []
    assert (judged["lost"], judged["doubled"], judged["foreign"]) == (0, 0, 0)
    assert judged["came_out"] == judged["put"] > 0
    assert result["batches"] > 0
    return result


def killed(result: dict[str, Any], *names: str) -> int:
    return sum(result["kills"].get(name, 0) for name in names)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rounds", [1, *wide(2)])
def test_a_stream_that_is_killed_has_every_item_once(tmp_path: Path, rounds: int) -> None:
    options = ("--rounds", str(rounds), "--after", "1.5", "--seed", "9")
    result = survives(tmp_path, *options, timeout=240)
    assert killed(result, "everything", "driver with Java", "worker") == rounds


@pytest.mark.soak
def test_a_stream_killed_50_times_has_every_item_once(tmp_path: Path) -> None:
    result = survives(tmp_path, "--rounds", "50", timeout=3600)
    assert result["rounds"] == 50
    assert sum(result["kills"].values()) >= 50
    assert len(result["moments"]) > 1


@pytest.mark.soak
def test_a_stream_whose_nodes_and_masters_are_killed_too_has_every_item_once(
    tmp_path: Path,
) -> None:
    result = survives(tmp_path, "--rounds", "25", "--nodes", timeout=3600)
    assert killed(result, "node") > 0
    assert killed(result, "master of in", "master of out") > 0
