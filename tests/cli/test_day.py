"""A day of a cluster (`benchmarks/day_of_a_cluster.py`): an operator's commands under load."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).resolve().parents[2] / "benchmarks" / "day_of_a_cluster.py"


def test_every_item_of_a_day_is_accounted_for() -> None:
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), "--pace", "100"],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Every item is accounted for." in ran.stdout
