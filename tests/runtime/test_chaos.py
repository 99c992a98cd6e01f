"""Nodes of a real cluster are killed under load, and no promise is broken."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "fifo_chaos.py"


def survives(folder: Path, *options: str, timeout: float) -> None:
    command = [sys.executable, str(PROGRAM), "--json", "--folder", str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        try:
            told, said = program.communicate(timeout=timeout)
        except BaseException:
            program.send_signal(signal.SIGTERM)  # it stops its nodes and its clients
            program.communicate(timeout=60)
            raise
    assert program.returncode == 0, f"{said.decode()}\n{told.decode()}"
    result = json.loads(told)
    judged = result["judgement"]
    assert result["broken"] == []
    assert (judged["lost"], judged["revived"], judged["doubled"]) == (0, 0, 0)
    assert judged["put"] > 0
    assert sum(result["kills"].values()) >= 3


def test_nothing_is_lost_while_nodes_are_killed_for_10_seconds(tmp_path: Path) -> None:
    survives(
        tmp_path,
        *("--nodes", "3", "--clients", "8", "--processes", "1"),
        *("--seconds", "10", "--kill-every", "3"),
        timeout=100,
    )


@pytest.mark.soak
def test_nothing_is_lost_while_nodes_are_killed_for_20_seconds(tmp_path: Path) -> None:
    survives(
        tmp_path,
        *("--nodes", "3", "--clients", "16", "--processes", "2"),
        *("--seconds", "20", "--kill-every", "2"),
        timeout=110,
    )
