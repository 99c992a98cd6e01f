"""The folder of a store: made durably, held by one process, its troubles told by name."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from snowmelt.core.errors import DiskFull, StoreBusy, StoreError

OWNER_NAME: Final = "owner"

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


def make_folder(folder: Path) -> None:
    """Makes the folder so that it is still there after a crash."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        flush_folder(folder.parent)


def flush_folder(folder: Path) -> None:
    """Flushes the names in a folder; a file whose name is not flushed can vanish in a crash."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Owner:
    """The right of one process to a folder; the system takes it back when the process dies.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> first = Owner(folder)
    >>> Owner(folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    snowmelt.core.errors.StoreBusy: the store in ... is held by process ...
    >>> first.release()
    >>> Owner(folder).release()
    """

    def __init__(self, folder: Path) -> None:
        self._handle = os.open(folder / OWNER_NAME, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._handle, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(self._handle)
            raise StoreBusy(
                f"the store in {folder} is held by process {holder}; stop it, or give this node "
                "a folder of its own"
            ) from None
        # Always as long: to cut a file makes its file system free a block, which takes longer.
        os.pwrite(self._handle, str(os.getpid()).ljust(20).encode(), 0)

    def release(self) -> None:
        """Lets others have the folder."""
        os.close(self._handle)
