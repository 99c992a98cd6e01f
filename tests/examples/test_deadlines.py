"""The example of deadlines runs as it stands: each parcel goes once, by when it is due."""

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_what_is_due_first_goes_first_though_a_worker_is_killed() -> None:
    command = [sys.executable, "-m", "deadlines", "--parcels", "80", "--workers", "3"]
    ended = subprocess.run(
        [*command, "--work", "0.005", "--due", "2", "--kind", "int", "--patience", "60"],
        cwd=EXAMPLES,
        env={name: value for name, value in os.environ.items() if "SNOWMELT" not in name},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "8 more, due at once\na worker was killed\n" in ended.stdout
    lines = re.findall(r"^ +([\d.,]+)  (.*)$", ended.stdout, re.MULTILINE)
    told = {words: float(number.replace(",", "")) for number, words in lines}
    sent = [count for words, count in told.items() if re.match(r"sent by \d workers", words)]
    assert (told["parcels"], sent, told["lost"]) == (80, [80], 0)
    assert told["workers that sent a later one before an earlier one"] == 0
