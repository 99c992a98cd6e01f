"""What "full" means: who is refused first, and how to learn it before anything is written.

A queue that is full must still be able to shrink, and shrinking writes too: the engine copies the
pages it changes, and a machine notes what it gave away. So there are three ceilings:

    payloads (keys that begin with BULK)   size_max
    a machine's small state                size_max and half the reserve
    erasing                                size_max and the whole reserve

The size of the store can be known from the engine. The disk's can't be asked for reliably, and a
disk that fills in the middle of a write makes the engine report a plain i/o error, which looks like
a dying disk. So the file is made longer ahead of the writes, by `posix_fallocate`. There "no space"
comes as a clean answer, before anything was begun, and some space is always in hand: payloads leave
all of it, and small state half of it.

What is committed to the log alone (`log.py`) is promised its room. It counts as if the engine had
it, and what its transaction may need at most is behind the end of the engine's file already. In the
worst case each change copies the pages from the root to its own and splits them, and all pages
there are become free, which is noted with eight bytes for each. Where that can't be had, nothing
is promised, and a commit goes to the engine at once.
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import lmdb

from snowmelt.core.errors import DiskFull
from snowmelt.store.changes import PAGE, Measure
from snowmelt.store.folder import FULL

_RESERVE_MIN: Final = 16 << 20
_AHEAD: Final = 256 << 10  # always in hand, for the pages the engine copies when it erases
_STRIDE_MAX: Final = 64 << 20
_PROMISES_MAX: Final = 4_096
"""Changes that wait for the engine: so many it makes in some hundredths of a second."""


def reserve(size_max: int) -> int:
    """Bytes above `size_max` that only small state and erasing may use.

    >>> reserve(1 << 20), reserve(1 << 30)
    (16777216, 134217728)
    """
    return max(_RESERVE_MIN, size_max // 8)


class Room:
    """Decides which groups of changes the folder has room for."""

    def __init__(self, file: Path, size_max: int, env: lmdb.Environment) -> None:
        self.folder = file.parent
        self.size_max = size_max
        self._small_max = size_max + reserve(size_max) // 2
        self._file = file
        self._map = env.info()["map_size"]
        self._allocated = file.stat().st_size // PAGE * PAGE
        self.short = False  # the disk itself had no room when it was last asked
        self._admitted = 0  # bytes, of those admitted last
        self.committed(env)

    def committed(self, env: lmdb.Environment) -> None:
        """The engine has what was promised its room, and takes this much."""
        stat = env.stat()
        pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        self._used = pages * stat["psize"]
        self._depth = max(stat["depth"], 1)
        self._end = (env.info()["last_pgno"] + 1) * PAGE
        self._promised = self._promises = 0

    @property
    def length(self) -> int:
        """Bytes of the engine's file."""
        return self._allocated

    @property
    def used(self) -> int:
        """Bytes of the pages that hold records, or may when the engine has what is in the log."""
        return self._used + self._promised

    def admit(self, groups: Sequence[Measure]) -> list[DiskFull | None]:
        """For each group, why it is refused, or None; those admitted fit together."""
        used = self.used
        verdicts: list[DiskFull | None] = []
        for group in groups:
            need = group.pages
            refusal = self._refusal(used, need, bulk=group.bulk) if need else None
            verdicts.append(refusal)
            used += need if refusal is None else 0
        self._admitted = used - self.used
        self._lengthen(max(self._end, used))
        return verdicts

    def has(self, group: Measure) -> bool:
        """Whether the store's own size lets it in as it is."""
        ceiling = self.size_max if group.bulk else self._small_max
        return not group.pages or self._used + self._promised + group.pages <= ceiling

    def covers(self, pages: int, changes: int) -> bool:
        """Whether the engine is sure to have room for these changes too when it gets them."""
        copied = 2 * min((self._promises + changes) * self._depth * PAGE, self._used)
        end = self._end + self._promised + pages + copied + self._used // (PAGE // 16)
        if self._promises + changes > _PROMISES_MAX or end + _AHEAD > self._map:
            return False
        if self.short or end + _AHEAD > self._allocated:
            self._lengthen(end)
        return not self.short

    def promise(self, pages: int, changes: int) -> None:
        """These are in the log."""
        self._promised += pages
        self._promises += changes

    def _refusal(self, used: int, need: int, *, bulk: bool) -> DiskFull | None:
        ceiling = self.size_max if bulk else self._small_max
        if used + need > ceiling:
            return DiskFull(
                f"{self.folder} holds {used} bytes and {need} more are asked for; the limit is "
                f"{ceiling}. Raise size_max, or take items off"
            )
        self._lengthen(max(self._end, used + need))
        ahead = _AHEAD if bulk else _AHEAD // 2
        if self.short and used + need + ahead > self._allocated:  # nor do freed pages suffice
            return DiskFull(f"the disk of {self.folder} has no room for {need} bytes more")
        return None

    def is_full(self, error: lmdb.Error) -> bool:
        """Whether the engine failed for want of room, and not because something broke.

        A write cut short by a full disk reaches us as EIO. Nothing refers to the pages of a commit
        that failed, and the next one writes them anew, so going on is safe. It is done only when
        the disk is known to be full, or is found to be when it is asked now, since else EIO means
        what it says. It may not be known: a large value goes behind the end of the file where no
        free pages lie side by side, however many are free, and so behind what is in hand.
        """
        if isinstance(error, lmdb.MapFullError | lmdb.TxnFullError | lmdb.DiskError):
            return True
        code = getattr(error, "code", 0)  # only those that come from the engine have it
        return code in FULL or (code == errno.EIO and (self.short or self._is_short()))

    def _is_short(self) -> bool:
        """Whether the disk has no room for what was admitted last, behind all that is in hand."""
        try:
            return not self._allocate(self._allocated + self._admitted + _AHEAD)
        except OSError:  # it is broken, and no matter how full
            return False

    def _lengthen(self, end: int) -> None:
        """Gets disk space up to `end` and a little more, or finds that the disk is short of it."""
        wanted = end + _AHEAD
        if wanted <= self._allocated:
            self.short = False
            return
        stride = min(_STRIDE_MAX, self._allocated // 8) // PAGE * PAGE
        self.short = not any(self._allocate(length) for length in (wanted + stride, wanted))

    def _allocate(self, length: int) -> bool:
        handle = os.open(self._file, os.O_RDWR)
        try:
            if hasattr(os, "posix_fallocate"):  # macOS has none; there the engine's word must do
                os.posix_fallocate(handle, 0, length)
        except OSError as error:
            if error.errno in FULL:
                return False
            raise
        finally:
            os.close(handle)
        self._allocated = length
        return True
