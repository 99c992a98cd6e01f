"""Programs of `benchmarks` that kill processes, run to their verdict; none outlives its test."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
END_SECONDS = 60


def run(program: str, folder: Path, *options: str, timeout: float) -> tuple[int, Any, str]:
    """Its exit code, what it told as JSON, and what it said besides."""
    path = ROOT / "benchmarks" / program
    command = [sys.executable, str(path), "--json", "--folder", str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        try:
            told, said = started.communicate(timeout=timeout)
        except BaseException:
            started.send_signal(signal.SIGTERM)  # it stops all that it started
            started.communicate(timeout=END_SECONDS)
            raise
    assert told, said.decode()
    return started.returncode, json.loads(told), said.decode()
