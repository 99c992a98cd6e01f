"""How much processor time was spent, and on what: of this program and all that it started.

On a machine that others use as well, the clock tells little, and this still tells where work is.
"""

import os
from pathlib import Path

import msgspec

TICK = os.sysconf("SC_CLK_TCK")


class _Process(msgspec.Struct, frozen=True):
    parent: int
    command: str
    own: float
    ended: float
    """Of those of its children that have ended."""


def spent() -> dict[str, float]:
    """Processor seconds until now, by what the processes are."""
    processes = _all()
    seconds: dict[str, float] = {}
    for number, process in processes.items():
        line = _ancestors(number, processes)
        if os.getpid() in line:
            role = _role(process, [processes[one] for one in line if one in processes])
            seconds[role] = seconds.get(role, 0.0) + process.own
            children = role.replace("Java", "Python")  # a Java has no other children
            seconds[children] = seconds.get(children, 0.0) + process.ended
    return seconds


def since(before: dict[str, float]) -> dict[str, float]:
    """What was spent since then."""
    now = spent()
    return {role: max(0.0, now[role] - before.get(role, 0.0)) for role in sorted(now)}


def _role(process: _Process, line: list[_Process]) -> str:
    words = process.command
    if "CoarseGrainedExecutorBackend" in words:
        return "executors' Java"
    if "java" in words.partition(" ")[0]:
        return "driver's Java" if "SparkSubmit" in words else "master and workers"
    if any("CoarseGrainedExecutorBackend" in one.command for one in line):
        return "executors' Python"
    if any("SparkSubmit" in one.command for one in line):
        return "driver's Python"
    return "nodes" if "snowmelt node" in words else "this program"


def _ancestors(number: int, processes: dict[int, _Process]) -> list[int]:
    line = [number]
    while line[-1] in processes and processes[line[-1]].parent > 1:
        line.append(processes[line[-1]].parent)
    return line


def _all() -> dict[int, _Process]:
    found: dict[int, _Process] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            after_name = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has ended
            continue
        own, ended = (sum(map(int, after_name[at : at + 2])) / TICK for at in (11, 13))
        found[int(folder.name)] = _Process(int(after_name[1]), command, own, ended)
    return found
