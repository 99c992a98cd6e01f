"""Which processes a program has, by what the system knows of them.

Spark's Python daemons leave the process group of their program, but not its session; so the session
is what tells all that belongs to it, also those whose parents are gone.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

_ROLES: Final = {
    "pyspark.worker": "worker",
    "python_streaming_source_runner": "source",
    "python_streaming_sink_runner": "sink",
    "storms.spark.driver": "driver",
}
"""What a process does, by a word of its command line; all else of Spark in Python is `planner`."""


class SparkProcess(msgspec.Struct, frozen=True):
    """One process."""

    pid: int
    parent: int
    role: str


def of_session(session: int) -> list[SparkProcess]:
    """All processes of a session that live."""
    return [process for leader, process in _living() if leader == session]


def kill(pid: int) -> bool:
    """Kills a process; whether it was still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _living() -> Iterator[tuple[int, SparkProcess]]:
    """Every process of the system, with its session."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            after_name = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has ended
            continue
        state, parent, _, session = after_name[:4]
        if state != "Z":
            yield int(session), SparkProcess(int(folder.name), int(parent), _role(command))


def _role(command: str) -> str:
    if "java" in command.partition(" ")[0]:
        return "java"
    return next((role for word, role in _ROLES.items() if word in command), "planner")
