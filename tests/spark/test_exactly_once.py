"""A stream is killed at random moments and goes on from its checkpoint: every item comes out once.

The program runs on a real cluster and kills real processes; it counts what came out by item, and
after each kill looks whether the checkpoint and both queues fit together.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "spark_chaos.py"


def survives(folder: Path, *options: str, timeout: float) -> dict[str, Any]:
    command = [sys.executable, str(PROGRAM), "--json", "--folder", str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        try:
            told, said = program.communicate(timeout=timeout)
        except BaseException:
            program.send_signal(signal.SIGTERM)  # it stops its nodes and the stream
            program.communicate(timeout=60)
            raise
    assert program.returncode == 0, f"{said.decode()}\n{told.decode()}"
    result: dict[str, Any] = json.loads(told)
    judged = result["judgement"]
    assert result["broken"] == []
    assert (judged["lost"], judged["doubled"], judged["foreign"]) == (0, 0, 0)
    assert judged["came_out"] == judged["put"] > 0
    assert result["batches"] > 0
    return result


def killed(result: dict[str, Any], *names: str) -> int:
    return sum(result["kills"].get(name, 0) for name in names)


@pytest.mark.timeout(300)
def test_a_stream_killed_twice_has_every_item_once(tmp_path: Path) -> None:
    options = ("--rounds", "2", "--after", "1.5", "--seed", "9")
    result = survives(tmp_path, *options, timeout=240)
    assert killed(result, "everything", "driver with Java", "worker") == 2


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
