"""The example of urgent and patient jobs runs as it stands, and its account is exact."""

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*options: str) -> tuple[int, dict[str, float], str]:
    ended = subprocess.run(
        [sys.executable, "-m", "jobs", *options],
        cwd=EXAMPLES,
        env={name: value for name, value in os.environ.items() if "SNOWMELT" not in name},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    lines = re.findall(r"^ +([\d.,]+)  (.*)$", ended.stdout, re.MULTILINE)
    told = {words: float(number.replace(",", "")) for number, words in lines}
    return ended.returncode, told, ended.stdout + ended.stderr


def test_every_job_is_done_or_given_up_though_a_worker_is_killed() -> None:
    code, told, said = run("--jobs", "150", "--workers", "3", "--patience", "60")
    assert code == 0, said
    assert "a worker was killed" in said
    assert (told["jobs"], told["lost"]) == (150, 0)
    assert told["given up after 4 tries"] >= 3
    assert told["tries in vain of those that were done"] > 5


def test_bad_options_are_refused() -> None:
    code, _, said = run("--workers", "1")
    assert code == 2
    assert "--kill is less than --workers" in said
