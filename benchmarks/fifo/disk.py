"""The disk alone: what no server that flushes before it answers can beat, one call at a time."""

import os
import time
from pathlib import Path

from benchmarks.fifo.load import Phase, phase

BLOCK = 4096


def flushes(folder: Path, seconds: float) -> Phase:
    """Appends 4 kB to a growing file and flushes it, again and again."""
    block = os.urandom(BLOCK)
    path = folder / "disk"
    times = []
    with path.open("wb", buffering=0) as file:
        begin = last = time.perf_counter()
        while last < begin + seconds:
            file.write(block)
            os.fdatasync(file.fileno())
            now = time.perf_counter()
            times.append(now - last)
            last = now
    path.unlink()
    return phase(times, sum(times))
