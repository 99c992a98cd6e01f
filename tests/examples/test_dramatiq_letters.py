"""The example of Dramatiq runs as it stands."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from snowmelt.cli.local import LocalCluster

pytest.importorskip("snowmelt_doors")
FOLDER = Path(__file__).parents[2] / "examples" / "dramatiq_letters"


def test_letters_are_posted(tmp_path: Path) -> None:
    with LocalCluster(1, tmp_path / "node", 0.5) as cluster:
        cluster.start()
        env = os.environ | {"SNOWMELT_URL": cluster.url, "PYTHONDONTWRITEBYTECODE": "1"}
        put = [sys.executable, "letters.py", "Anna", "Ben"]
        subprocess.run(put, cwd=FOLDER, env=env, check=True, timeout=60)
        work = [sys.executable, "-m", "dramatiq", "letters", "-p", "1", "-t", "2"]
        out = tmp_path / "out"
        with (
            out.open("wb") as written,
            subprocess.Popen(work, cwd=FOLDER, env=env, stdout=written, stderr=written) as worker,
        ):
            try:
                end = time.monotonic() + 60
                while out.read_text().count("posted") < 3 and time.monotonic() < end:
                    time.sleep(0.05)
            finally:
                worker.terminate()
        posted = sorted(re.findall(r"posted to (\w+)", out.read_text()))
        assert posted == ["Anna", "Ben", "yourself"]
