"""What starts quickly in tests is what it would be: Spark's Pythons are forked from the first."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import warm
from spark.cluster import wait_until


def started() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "pyspark.daemon", "pyspark.worker"],
        env=os.environ | {"PYTHONPATH": warm.PRELOADED},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def port_of(one: "subprocess.Popen[bytes]") -> int:
    """Where it forks workers; it tells that when it has loaded all."""
    assert one.stdout is not None
    return int.from_bytes(one.stdout.read(4))


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def gone(pid: int) -> bool:
    return wait_until(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each loads for itself")
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_a_python_of_spark_is_forked_from_the_first_and_ends_with_who_was_started(
    ending: signal.Signals,
) -> None:
    with started() as first:
        port_of(first)
        with started() as second:
            with socket.create_connection(("127.0.0.1", port_of(second)), 60) as line:
                daemon = parent(int.from_bytes(line.recv(4)))
            forking = parent(daemon)
            assert parent(forking) == first.pid
            second.send_signal(ending)
            second.wait(60)
            assert gone(daemon)
    assert gone(forking)
