"""What one attacker counts: a line each second, so that nothing is lost when it is killed."""

import time
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from snowmelt.core.errors import SnowmeltError
from snowmelt.wire.greeting import Goodbye

EACH_SECONDS: Final = 1.0
REASON_LETTERS: Final = 60


class Tally:
    """Counts by name; the file has the newest sums in its last line."""

    def __init__(self, file: Path) -> None:
        self.counts: Counter[str] = Counter()
        self._file = file.open("ab", buffering=0)
        self._next = 0.0

    def add(self, name: str, count: int = 1) -> None:
        self.counts[name] += count
        now = time.monotonic()
        if now >= self._next:
            self.write()
            self._next = now + EACH_SECONDS

    def refused(self, error: OSError | SnowmeltError) -> None:
        """A connection did not come to be."""
        self.add(f"refused: {type(error).__name__}")

    def said(self, goodbye: bytes) -> None:
        """A node has said why it ends a connection."""
        try:
            why = msgspec.msgpack.decode(goodbye, type=Goodbye)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.add("goodbye: unreadable")
            return
        self.add(
            f"goodbye: {why.error}: {why.text[:REASON_LETTERS]}"
            if len(self.counts) < 60
            else f"goodbye: {why.error}"
        )

    def write(self) -> None:
        self._file.write(msgspec.json.encode(self.counts) + b"\n")

    def close(self) -> None:
        self.write()
        self._file.close()


def summed(folder: Path, kind: str) -> dict[str, int]:
    """What all attackers of a kind have counted so far."""
    total: Counter[str] = Counter()
    for file in sorted(folder.glob(f"{kind}-*.tally")):
        lines = file.read_bytes().splitlines()
        if lines:
            total.update(msgspec.json.decode(lines[-1], type=dict[str, int]))
    return dict(sorted(total.items()))
