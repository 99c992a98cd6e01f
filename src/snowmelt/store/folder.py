"""The folder of a store: made durably, held by one process, its troubles told by name.

What is in it is its owner's: the files are 0600, and the folder that is made for them is 0700. What
an earlier version made is tightened when it is opened. A folder that holds other things too is
somebody's, and stays as it is; `others_may_look` says so.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Container, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from snowmelt.core.errors import DiskFull, StoreBusy, StoreError

OWNER_NAME: Final = "owner"

INSTEAD: Final = (
    "bring back a copy of the whole folder; or, of a node, keep the folder aside, say snowmelt"
    " forget and its id, and start it on a new one, which the other nodes fill"
)
"""The ways out where a folder can't be read."""
OTHERS: Final = 0o077
"""The rights of everybody but the owner, in a file's mode."""

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What an operating system says when there is no room: disk, quota, file size."""


@contextlib.contextmanager
def naming(folder: Path) -> Iterator[None]:
    """Turns the operating system's complaints into ours, which say where.

    >>> with naming(Path("n1")):
    ...     Path("/nowhere/at/all").read_bytes()
    Traceback (most recent call last):
    snowmelt.core.errors.StoreError: the store in n1 can't be used: No such file or directory (/nowhere/at/all)
    """  # noqa: E501 - the error is one line
    try:
        yield
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        kind = DiskFull if error.errno in FULL else StoreError
        raise kind(f"the store in {folder} can't be used: {error.strerror}{place}") from error


def make_folder(folder: Path, mode: int = 0o700) -> None:
    """Makes the folder so that it is still there after a crash."""
    if not folder.is_dir():
        make_folder(folder.parent, 0o777)
        folder.mkdir(mode, exist_ok=True)
        flush_folder(folder.parent)


def private(file: Path) -> BinaryIO:
    """Opens a file to add to it; a new one is its owner's alone."""
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def new_private(file: Path) -> BinaryIO:
    """Makes a file that is its owner's alone; where anything is there, be it a link, it raises."""
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def tighten(folder: Path, own: Container[str]) -> None:
    """Takes everybody else's rights away, on what is ours by name; a stranger's stays as it is."""
    with contextlib.suppress(PermissionError):  # another user's, who lets this one write
        there = list(folder.iterdir())
        for path in there:
            if path.name in own and path.is_file() and path.stat().st_mode & OTHERS:
                path.chmod(0o600)
        if others_may_look(folder) and all(path.name in own for path in there):
            folder.chmod(0o700)


def others_may_look(folder: Path) -> bool:
    """Whether anybody but its owner has a right to this folder."""
    return bool(folder.stat().st_mode & OTHERS)


def flush_folder(folder: Path) -> None:
    """Flushes the names in a folder; a file whose name is not flushed can vanish in a crash."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class FolderLock:
    """The right of one process to a folder; the system takes it back when the process dies.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> first = FolderLock(folder)
    >>> FolderLock(folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    snowmelt.core.errors.StoreBusy: the store in ... is held by process ...
    >>> first.release()
    >>> FolderLock(folder).release()
    """

    def __init__(self, folder: Path) -> None:
        self._handle = os.open(folder / OWNER_NAME, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._handle, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(self._handle)
            if holder == str(os.getpid()):
                raise StoreBusy(
                    f"the store in {folder} is held by process {holder}, which is this one: close "
                    "what has it open, or share that"
                ) from None
            raise StoreBusy(
                f"the store in {folder} is held by process {holder}; stop it, or give this node "
                "a folder of its own"
            ) from None
        # Always as long: to cut a file makes its file system free a block, which takes longer.
        os.pwrite(self._handle, str(os.getpid()).ljust(20).encode(), 0)

    def release(self) -> None:
        """Lets others have the folder; once: the number of what is closed will be another's."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)
