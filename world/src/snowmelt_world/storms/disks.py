"""Disks that fill and disks that fail, under processes that run.

Each is a file system of its own in an image, on a loop device. It *fills* by a file that nobody
needs, to the last byte. It *fails* by the call that shuts a file system down as a dying device
does: from then on writes, flushes and reads say "input/output error", and what was not flushed is
gone. Mounted anew it holds what was flushed: the machine was repaired, its data are there.
"""

import fcntl
import os
import shutil
import struct
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

DISK_MIB: Final = 192
FILLER: Final = "filler"
STEP: Final = 64 << 10
SHUT_DOWN: Final = 0x8004587D
"""The ext4 file system's own call; its number is fixed by Linux."""
WITHOUT_FLUSH: Final = struct.pack("I", 2)


def possible() -> bool:
    """Whether this user may mount, and can make such file systems."""
    needed = map(shutil.which, ("mkfs.ext4", "mount"))
    return os.name == "posix" and os.geteuid() == 0 and None not in [*needed]


class ImageDisk:
    """A folder that is a disk of its own; what was on it stays in the folder in the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._image = folder.with_suffix(".image")

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(DISK_MIB << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(self._image)], check=True)
        self._mount()
        (self._folder / "lost+found").rmdir()
        self._folder.chmod(0o700)
        return self

    def __exit__(self, *_: object) -> None:
        self.free()
        kept = self._folder.with_suffix(".kept")
        shutil.copytree(self._folder, kept)
        self._unmount()
        self._folder.rmdir()
        kept.rename(self._folder)
        self._image.unlink()

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

    def fail(self) -> None:
        """From now on nothing can be written or flushed, until it is repaired."""
        handle = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, SHUT_DOWN, WITHOUT_FLUSH)
        finally:
            os.close(handle)

    def repair(self) -> None:
        """It works again, with what was flushed; its process has ended."""
        self._unmount()
        self._mount()

    def _mount(self) -> None:
        subprocess.run(["mount", "-o", "loop", str(self._image), str(self._folder)], check=True)

    def _unmount(self) -> None:
        subprocess.run(["umount", str(self._folder)], check=True)
