"""The example of three stages runs as it stands, and its account is exact."""

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_every_event_passes_all_stages_once() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "stages", "--detectors", "2", "--events", "40"],
        cwd=EXAMPLES,
        env={name: value for name, value in os.environ.items() if "SNOWMELT" not in name},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = {
        words: float(number.replace(",", ""))
        for number, words in re.findall(r"^ +([\d.,]+)  (.*)$", ended.stdout, re.MULTILINE)
    }
    assert told["events of 1 MB made"] == 80
    assert told["counted, each with the energy that it had"] == 80
    assert (told["lost"], told["counted twice"]) == (0, 0)
    assert told["MB went through the node for the first half: introductions"] < 0.5
