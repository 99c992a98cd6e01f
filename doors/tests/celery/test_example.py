"""The example of a Celery program without a broker runs as it stands."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_program_of_the_example_runs() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "celery_shop"],
        cwd=EXAMPLES,
        env={name: value for name, value in os.environ.items() if "SNOWMELT" not in name},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    said = ended.stdout
    assert ended.returncode == 0, said + ended.stderr
    assert "4 articles cost" in said
    assert "sent a bill of" in said
    assert "after 2." in said
    assert "1 worker answers" in said
    assert "the worker ended with 0" in said
