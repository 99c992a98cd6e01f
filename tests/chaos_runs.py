"""`snowmelt chaos`, run to its verdict; none of its processes outlives its test."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

END_SECONDS = 60


def run(kind: str, folder: Path, *options: str, timeout: float) -> tuple[int, Any, str]:
    """Its exit code, its result as JSON, and what it said besides."""
    module = "snowmelt_world.cli.chaos"
    words = ["--kind", kind, "--json", "--folder", str(folder), *options]
    command = [sys.executable, "-m", module, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        try:
            told, said = started.communicate(timeout=timeout)
        except BaseException:
            started.send_signal(signal.SIGTERM)  # it stops all that it started
            started.communicate(timeout=END_SECONDS)
            raise
    assert told, said.decode()
    return started.returncode, json.loads(told), said.decode()


def survives(kind: str, folder: Path, *options: str, timeout: float) -> dict[str, Any]:
    """The result of a run in which every promise was kept, and something was done."""
    code, result, said = run(kind, folder, *options, timeout=timeout)
    assert result["broken"] == [], said
    assert (code, result["verdict"]) == (0, "valid"), said
    assert set(result["properties"].values()) == {"valid"}
    assert result["operations"] > 0
    return result
