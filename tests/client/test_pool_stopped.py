"""A process that stood still in a call to a pool gets its answer once it goes on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import warm
from snowmelt.cli.local import LocalCluster

PROGRAM = """
import sys, snowmelt
from snowmelt.core.errors import Empty
with snowmelt.connect(sys.argv[1]) as cluster:
    pool = cluster.pool("objects")
    for _ in range(2):
        print("asks", flush=True)
        try:
            pool.get(timeout=1.0)
        except Empty:
            print("empty", flush=True)
"""
MANY = 8


@pytest.mark.soak
@pytest.mark.parametrize("stopped", [6.2, 8.0])
def test_a_get_that_was_stopped_beyond_its_time_finds_nothing(
    tmp_path: Path, stopped: float
) -> None:
    """A moment beyond what it waits after its time, or more."""
    with LocalCluster(1, tmp_path / "nodes") as cluster:
        cluster.start()
        command = [sys.executable, "-c", PROGRAM, cluster.url]
        programs = [
            warm.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(MANY)
        ]
        for program in programs:
            assert program.stdout is not None
            assert program.stdout.readline() == "asks\n"
        time.sleep(0.3)
        for program in programs:
            os.kill(program.pid, signal.SIGSTOP)
        time.sleep(stopped)
        for program in programs:
            os.kill(program.pid, signal.SIGCONT)
        for program in programs:
            told, said = program.communicate(timeout=60)
            assert (told, program.returncode) == ("empty\nasks\nempty\n", 0), said
