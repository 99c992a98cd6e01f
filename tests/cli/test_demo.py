"""The demo, as `make demo` runs it, with fewer events."""

import re
from pathlib import Path

import pytest

from cli.program import snowmelt
from snowmelt_world.standalone import quick
from warm import PRELOADED


@pytest.mark.timeout(600)  # half a minute; more where other tests have the cores
def test_the_demo_loses_a_node_and_no_event(tmp_path: Path) -> None:
    words = ("demo", "--kill", "--events", "5000", "--out", str(tmp_path))
    ended = snowmelt(*words, seconds=580, JDK_JAVA_OPTIONS=quick(), PYTHONPATH=PRELOADED)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Killed n" in ended.stdout
    assert "In the browser, once they run: http://127.0.0.1:" in ended.stdout
    assert re.search(r"5,000 +reconstructed, each exactly once", ended.stdout)
    assert "WRONG" not in ended.stdout
    (picture,) = tmp_path.glob("*/peak.png")
    assert picture.read_bytes().startswith(b"\x89PNG")
    counts = re.search(r"([\d,]+) +rejected by the test\n +(\d+) +passed", ended.stdout)
    assert counts is not None
    assert int(counts[1].replace(",", "")) + int(counts[2]) == 5000


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_executors_of_their_own_find_the_same(tmp_path: Path) -> None:
    words = ("--spark-cluster", "--kill", "--events", "5000", "--out", str(tmp_path))
    ended = snowmelt("demo", *words, seconds=280)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Starting Spark's master and 2 workers" in ended.stdout
    assert re.search(r"5,000 +reconstructed, each exactly once", ended.stdout)
    assert "WRONG" not in ended.stdout
