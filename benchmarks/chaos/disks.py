"""Disks that fill and disks that fail, of processes that run.

A *small* disk is a mount of its own in memory, which a file that nobody needs fills to the last
byte. A disk *fails* when its process may write no byte more to any file: the system then refuses
each write with an error that is not "no space left", as it does for a disk that is dying.
"""

import os
import resource
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

SMALL_MIB: Final = 192
FILLER: Final = "filler"
STEP: Final = 64 << 10


def possible() -> bool:
    """Whether this user may mount."""
    return os.name == "posix" and os.geteuid() == 0 and shutil.which("mount") is not None


class SmallDisk:
    """A folder that is a disk of its own; what was on it stays in the folder in the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True)
        options = f"size={SMALL_MIB}m,mode=0700"
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self._folder)]
        subprocess.run(mount, check=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.free()
        kept = self._folder.with_suffix(".kept")
        shutil.copytree(self._folder, kept)
        subprocess.run(["umount", str(self._folder)], check=True)
        self._folder.rmdir()
        kept.rename(self._folder)

    def fill(self) -> None:
        """No byte more fits on it."""
        handle = os.open(self._folder / FILLER, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            with suppress(OSError):  # "no space left" is what is wanted
                while True:
                    os.posix_fallocate(handle, os.fstat(handle).st_size, STEP)
        finally:
            os.close(handle)

    def free(self) -> None:
        """There is room again."""
        with suppress(FileNotFoundError):
            (self._folder / FILLER).unlink()


def fail(pid: int) -> None:
    """From now on each write of this process to a file fails, until it ends."""
    _, highest = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, highest))
