"""What starts quickly in tests is what it would be: Java with its classes, Spark's Pythons."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import warm
from snowmelt.spark.java import find_java
from snowmelt_world import standalone
from spark.cluster import wait_until


def told(options: str) -> tuple[int, bytes, int]:
    """How it ended, what it said, and how many lines its version has."""
    java = find_java().home / "bin" / "java"
    done = subprocess.run(
        [java, *options.split(), "-version"], capture_output=True, check=False, timeout=60
    )
    return done.returncode, done.stdout, done.stderr.count(b"\n")


def test_a_java_goes_on_without_classes_that_are_not_its_own_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "spark.jsa"
    monkeypatch.setattr(standalone, "CLASSES", file)
    alone = told(standalone.quick())
    assert (alone[0], alone[1], "jsa" in standalone.quick()) == (0, b"", False)
    for content in (b"", b"of another" * 10_000):
        file.write_bytes(content)
        assert "jsa" in standalone.quick()
        assert told(standalone.quick()) == alone


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
            assert second.stdin is not None
            with socket.create_connection(("127.0.0.1", port_of(second)), 60) as line:
                worker = int.from_bytes(line.recv(4))
                daemon = parent(worker)
                forking = parent(daemon)
                assert parent(forking) == first.pid
                second.stdin.write(worker.to_bytes(4))  # by its ends it is told whom to end
                second.stdin.flush()
                assert gone(worker)  # so it forks no more: what a signal raises there is lost
            second.send_signal(ending)
            second.wait(60)
            assert gone(daemon)
    assert gone(forking)
