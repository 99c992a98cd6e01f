"""The program as a person runs it."""

import os
import subprocess

from warm import ran


def snowmelt(
    *arguments: str, seconds: float = 110, **more: str
) -> subprocess.CompletedProcess[str]:
    """Runs the program to its end."""
    ended = piped(*arguments, seconds=seconds, **more)
    out, err = ended.stdout.decode(), ended.stderr.decode()
    return subprocess.CompletedProcess(ended.args, ended.returncode, out, err)


def piped(
    *arguments: str, given: bytes = b"", seconds: float = 110, **more: str
) -> subprocess.CompletedProcess[bytes]:
    """The same with bytes that go in, and bytes that come out."""
    environment = {name: value for name, value in os.environ.items() if "SNOWMELT" not in name}
    return ran(arguments, given, environment | {"COLUMNS": "100", "NO_COLOR": "1"} | more, seconds)
