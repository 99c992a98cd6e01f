"""The example of Taskiq runs as it stands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from snowmelt.cli.local import LocalCluster

pytest.importorskip("snowmelt_doors")
FOLDER = Path(__file__).parents[2] / "examples" / "taskiq_letters"


def test_letters_are_posted(tmp_path: Path) -> None:
    with LocalCluster(1, tmp_path / "node", 0.5) as cluster:
        cluster.start()
        env = os.environ | {"SNOWMELT_URL": cluster.url, "PYTHONDONTWRITEBYTECODE": "1"}
        work = [sys.executable, "-m", "taskiq", "worker", "letters:broker", "-w", "1"]
        with subprocess.Popen(work, cwd=FOLDER, env=env, stderr=subprocess.DEVNULL) as worker:
            try:
                put = [sys.executable, "letters.py", "Anna", "Ben"]
                ended = subprocess.run(
                    put, cwd=FOLDER, env=env, check=True, timeout=60, stdout=subprocess.PIPE
                )
            finally:
                worker.terminate()
    said = ended.stdout.decode().splitlines()
    assert said == ["posted to Anna", "posted to Ben", "posted to yourself"]
