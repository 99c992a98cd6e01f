"""What processes that may be killed write down: lines that are whole, or not there.

Each line is written at once at the end of its file, so it is there when the next step begins, but
for a last one that may be torn. All times are of the machine's monotonic clock.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self, TypeVar

import msgspec

T = TypeVar("T")
TAIL: Final = 4096
"""No line of any file that is read from its end is longer."""


class Journal:
    """A file that is only written at its end."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._encoder = msgspec.json.Encoder()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._file)

    def add(self, line: msgspec.Struct) -> None:
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
