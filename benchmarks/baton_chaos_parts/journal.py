"""What each worker writes down as it goes, and what is read of it when it is dead.

Every line is one write to the file's end, so a process that is killed has written all that it has
done, but for a last line that may be torn. All times are of the machine's monotonic clock.
"""

import os
import time
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import msgspec

T = TypeVar("T")
TAIL: Final = 4096
"""No line of any file here is longer."""


class What(Enum):
    """What is written down of a turn."""

    STARTED = "started"
    ASKED = "asked"
    DENIED = "denied"
    """The turn did not come in time."""
    FAILED = "failed"
    """No turn, for another reason."""
    GRANTED = "granted"
    ACTED = "acted"
    REFUSED = "refused"
    """The guard knew a larger fence."""
    SAVING = "saving"
    SAVED = "saved"
    RELEASING = "releasing"
    RELEASED = "released"
    UNSURE = "unsure"
    """A release, or a save, that may have been heard."""
    LOST = "lost"
    """The worker was told that the baton is no longer its own."""


HOLDING: Final = (What.GRANTED, What.ACTED, What.REFUSED, What.SAVING, What.SAVED)
"""Whose last line is one of these holds a baton, as far as it knows."""


class Line(msgspec.Struct, frozen=True, array_like=True):
    """One line of a journal."""

    at: int
    what: What
    baton: str = ""
    fence: int = 0
    made: int = 0
    value: str = ""
    """What was granted, or is to be left or saved; or why something failed."""
    checked: int = 0
    """Of an act: when the worker began to make sure that it still holds."""


class Journal:
    """A file that is only written at its end."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._encoder = msgspec.json.Encoder()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._file)

    def write(self, line: Line) -> None:
        """Writes a line, now."""
        os.write(self._file, self._encoder.encode(line) + b"\n")


def now() -> int:
    """Nanoseconds of the clock of all journals."""
    return time.monotonic_ns()


def read(path: Path, kind: type[T]) -> Iterator[T]:
    """All lines that were written as a whole; none when nobody came to write the first."""
    if not path.exists():
        return
    decoder = msgspec.json.Decoder(kind)
    with path.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                return
            yield decoder.decode(line)


def last(path: Path, kind: type[T]) -> T | None:
    """The last line that was written as a whole."""
    if not path.exists():
        return None
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
        whole = file.read().split(b"\n")[:-1]
    return msgspec.json.decode(whole[-1], type=kind) if whole else None
