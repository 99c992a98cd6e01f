"""The disk alone: what no server that flushes before it answers can beat, one call at a time."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.peers import cores
from benchmarks.peers.comparison import Figures, NoService, Peer
from benchmarks.peers.fifo.phase import phase

BLOCK: Final = 4096
SECONDS: Final = 0.3


@dataclass(kw_only=True)
class Disk(Peer):
    """Appends 4 kB to a growing file and flushes it, again and again."""

    path: Path = field(default_factory=Path)

    def start(self, folder: Path) -> None:
        self.path = folder / "file"

    def flushes(self) -> Figures:
        """A second, where servers would make them."""
        block, times = os.urandom(BLOCK), []
        with cores.on(cores.SERVER), self.path.open("wb", buffering=0) as file:
            begin = last = time.perf_counter()
            while last < begin + SECONDS:
                file.write(block)
                os.fdatasync(file.fileno())
                now = time.perf_counter()
                times.append(now - last)
                last = now
        return phase("put", times, sum(times), 1)


def disk(name: str) -> Peer:
    promise = "no queue: a block written and flushed"
    return Disk(name=name, promise=promise, service=NoService(""))
