"""The example of steps from queue to queue runs as it stands, and its account is exact."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_each_order_has_one_letter_though_workers_are_killed() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "carry", "--orders", "80", "--kills", "2"],
        cwd=EXAMPLES,
        env={name: value for name, value in os.environ.items() if "SNOWMELT" not in name},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said
    for line in ("80  letters", "80  rows in the ledger", "0  lost", "0  twice"):
        assert line in ended.stdout, said
    assert "a worker was killed" in ended.stdout
