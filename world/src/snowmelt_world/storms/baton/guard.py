"""The file that a baton guards: it takes nobody's act who has a smaller fence than the last one."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from snowmelt_world.storms.journals import TAIL, now, read


class GuardedAct(msgspec.Struct, frozen=True, array_like=True):
    """One line of a guarded file."""

    fence: int
    who: str
    at: int
    checked: int
    """When the worker began to make sure that it holds the baton."""
    number: int
    """Of this hold's acts."""


class Guard:
    """One worker's way to the file of one baton."""

    def __init__(self, folder: Path, baton: str, who: str) -> None:
        self._file = os.open(guarded(folder, baton), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._who = who

    def act(self, fence: int, checked: int, number: int) -> bool:
        """Appends a line, if nobody with a larger fence has; whether it did."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            if self._largest() > fence:
                return False
            self._append(GuardedAct(fence, self._who, now(), checked, number))
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        return True

    def pass_by(self, fence: int, number: int) -> None:
        """Appends a line whatever was there: a planted fault."""
        at = now()
        self._append(GuardedAct(fence, self._who, at, at, number))

    def close(self) -> None:
        os.close(self._file)

    def _append(self, act: GuardedAct) -> None:
        os.write(self._file, msgspec.json.encode(act) + b"\n")

    def _largest(self) -> int:
        """The last line has the largest fence, since this looks before every line."""
        size = os.fstat(self._file).st_size
        tail = os.pread(self._file, TAIL, max(0, size - TAIL)).splitlines()
        return msgspec.json.decode(tail[-1], type=GuardedAct).fence if tail else 0


_PREFIX: Final = "guarded-"


def guarded(folder: Path, baton: str) -> Path:
    """The file that a baton guards."""
    return folder / f"{_PREFIX}{baton}.jsonl"


def acts(folder: Path) -> Iterator[tuple[str, list[GuardedAct]]]:
    """Every guarded file: its baton, and what was done, in the order of its lines."""
    for path in sorted(folder.glob(f"{_PREFIX}*.jsonl")):
        yield path.stem.removeprefix(_PREFIX), list(read(path, GuardedAct))
