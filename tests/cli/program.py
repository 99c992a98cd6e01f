"""The program as a person runs it."""

import os
import subprocess
import sys


def snowmelt(*arguments: str, seconds: float = 60, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs the program to its end."""
    environment = {name: value for name, value in os.environ.items() if "SNOWMELT" not in name}
    return subprocess.run(
        [sys.executable, "-m", "snowmelt", *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env=environment | {"COLUMNS": "100", "NO_COLOR": "1"} | more,
    )
