"""What each process writes down as it goes, and what is read of it when it is dead.

Every line is one write to the file's end, so a process that is killed has written all that it has
seen, but for a last line that may be torn. All times are of the machine's monotonic clock.
"""

import os
import time
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec


class What(Enum):
    """What is written down."""

    STARTED = "started"
    # a producer's
    INTENT = "intent"
    """A put begins."""
    KEPT = "kept"
    REFUSED = "refused"
    """The put ended, and these are not in the pool."""
    LEFT = "left"
    """It leaves; `ids` are how many objects it had then, and how many were on loan."""
    # a consumer's
    ASKED = "asked"
    """A get begins."""
    EMPTY = "empty"
    """It ended with nothing."""
    GOT = "got"
    DAMAGED = "damaged"
    BACK = "back"
    """These are given back."""
    ACKING = "acking"
    """An acknowledgement begins."""
    ACKED = "acked"
    LATE = "late"
    """It was refused: they were taken back before."""
    UNKNOWN = "unknown"
    """It may have been heard."""


class Line(msgspec.Struct, frozen=True, array_like=True):
    """One line of a journal."""

    at: int
    what: What
    ids: tuple[int, ...] = ()


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

    def write(self, what: What, ids: Iterable[int] = ()) -> None:
        """Writes a line, now."""
        line = Line(time.monotonic_ns(), what, tuple(ids))
        os.write(self._file, self._encoder.encode(line) + b"\n")


def read(path: Path) -> Iterator[Line]:
    """All lines that were written as a whole; none when it was killed before its first."""
    if not path.exists():
        return
    decoder = msgspec.json.Decoder(Line)
    with path.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                return
            yield decoder.decode(line)
