"""The benchmark of scaling tells its points; nothing else runs it, and it once broke unseen."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).resolve().parents[2] / "benchmarks" / "spark_scaling.py"
SMALL = "--executors 1 2 --events 200 400 --batches 2 --share 0.5 --json"


def test_a_small_run_tells_a_point_for_each_size_and_what_a_thousand_cores_would_do() -> None:
    command = [sys.executable, str(PROGRAM), *SMALL.split()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    if "can't be bounded here" in ran.stderr:
        pytest.skip(ran.stderr.strip().splitlines()[-1])
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    sizes = [(row["executors"], row["events"]) for row in told["rows"]]
    assert sizes == [(1, 200), (1, 400), (2, 200), (2, 400)]
    assert all(row["seconds"] > 0 for row in told["rows"])
    assert len(told["forecast"]) == 3
