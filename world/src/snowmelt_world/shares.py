"""Bounds on the processor time of processes, by Linux control groups: a small machine for each.

On one machine with few cores a pair of processes may keep all of them at work, and then nothing can
be learnt about more pairs. Where every process is given the same small share of a core, each is as
fast as one on a small machine of its own, and many of them fit. Needs root.

To the rest of the machine a folder of groups is one program, however many live in it. So it weighs
as much as its groups: where others use the machine, each process has its part of what is left.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

MOUNTED: Final = Path("/sys/fs/cgroup")
PERIOD_US: Final = 40_000
WEIGHT: Final = 1_024
"""Of one process, in the first version; in the second it is `WEIGHT_UNIFIED`."""
WEIGHT_UNIFIED: Final = 100
WEIGHT_UNIFIED_MOST: Final = 10_000


class Unbounded(Exception):
    """No bounds can be set here."""


class Shares:
    """A folder of control groups, one for each process that is bounded."""

    def __init__(self, name: str, mounted: Path = MOUNTED, period_us: int = PERIOD_US) -> None:
        self._period_us = period_us
        first = mounted / "cpu"  # the first version has a tree for each kind of bound
        self.unified = not first.is_dir()
        self.folder = (mounted if self.unified else first) / name
        try:
            self.folder.mkdir()
            if self.unified:
                for parent in (mounted, self.folder):
                    (parent / "cgroup.subtree_control").write_text("+cpu")
        except OSError as error:
            with contextlib.suppress(OSError):
                self.folder.rmdir()
            raise Unbounded(f"processor time can't be bounded here: {error}") from error

    def bound(self, process: int, share: float) -> None:
        """From now on a process, with those it starts, has this share of one core, and no more.

        Said again, the share is another one: so what begins may begin fast.
        """
        group = self.folder / str(process)
        if not group.is_dir():
            group.mkdir()
            self._weigh()
        quota = round(share * self._period_us)
        if self.unified:
            (group / "cpu.max").write_text(f"{quota} {self._period_us}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(self._period_us))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        (group / "cgroup.procs").write_text(str(process))

    def _weigh(self) -> None:
        count = sum(one.is_dir() for one in self.folder.iterdir())
        if self.unified:
            weight = min(count * WEIGHT_UNIFIED, WEIGHT_UNIFIED_MOST)
            (self.folder / "cpu.weight").write_text(str(weight))
        else:
            (self.folder / "cpu.shares").write_text(str(count * WEIGHT))

    def bound_me(self, share: float) -> None:
        """The same for the process that calls."""
        self.bound(os.getpid(), share)

    def sweep(self) -> None:
        """Removes the groups of processes that have ended."""
        for group in self.folder.iterdir():
            if group.is_dir():
                with contextlib.suppress(OSError):  # somebody lives there still
                    group.rmdir()

    def close(self) -> None:
        """Removes all."""
        self.sweep()
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def nanoseconds(process: int) -> int:
    """How long its threads were on a core; of those that ended meanwhile nothing is counted."""
    threads = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(one.read_text().split()[0]) for one in threads)
