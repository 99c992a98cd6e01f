"""Where a queue's items lie: runs of positions that are runs of one stream, on the same keepers."""

from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from snowmelt.core.interval import Interval
from snowmelt.protocols.fifo.limits import LIMITS, Limits


class Run(msgspec.Struct):
    """Positions from `start` on, which are the stream's indexes from `first` on."""

    start: int
    count: int
    stream: str
    first: int
    bytes: int
    keepers: tuple[str, ...]
    dropped: int = 0
    """So many at the front are settled, and their keepers were told to drop them."""
    closed: bool = False
    """Whether it may not grow any more."""

    @property
    def interval(self) -> Interval:
        """Its positions."""
        return Interval(self.start, self.start + self.count)

    @property
    def stop(self) -> int:
        """Behind its last position."""
        return self.start + self.count

    def index(self, position: int) -> int:
        """Where in the stream a position lies."""
        return self.first + position - self.start

    def takes(self, other: "Run", limits: Limits) -> bool:
        """Whether another run goes on where this one ends, in position, stream and keepers."""
        return (
            not self.closed
            and self.stop == other.start
            and self.stream == other.stream
            and self.first + self.count == other.first
            and self.keepers == other.keepers
            and self.count + other.count <= limits.run_items
            and self.bytes + other.bytes <= limits.run_bytes
        )


class Runs:
    """Runs in the order of positions; none overlaps another."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._starts: list[int] = []
        self._runs: list[Run] = []

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._runs))

    def at(self, start: int) -> Run | None:
        """The run that begins at this position. O(log n)."""
        index = bisect_right(self._starts, start) - 1
        if index >= 0 and self._starts[index] == start:
            return self._runs[index]
        return None

    def holding(self, position: int) -> Run:
        """The run that a position lies in. O(log n)."""
        run = self._runs[bisect_right(self._starts, position) - 1]
        assert run.start <= position < run.stop, f"{position} lies nowhere"
        return run

    def add(self, run: Run, *, merge: bool) -> Run:
        """Takes a run at the end; returns the run that it is part of now."""
        if merge and self._runs and self._runs[-1].takes(run, self._limits):
            last = self._runs[-1]
            last.count += run.count
            last.bytes += run.bytes
            return last
        assert not self._runs or self._runs[-1].stop <= run.start, "positions only grow"
        self._starts.append(run.start)
        self._runs.append(run)
        return run

    def remove(self, run: Run) -> None:
        """Forgets a run. O(n moved)."""
        index = bisect_right(self._starts, run.start) - 1
        assert self._runs[index] is run
        del self._starts[index]
        del self._runs[index]

    def over(self, interval: Interval) -> list[Run]:
        """The runs that have a position in common with an interval. O(log n + answer)."""
        index = max(0, bisect_right(self._starts, interval.start) - 1)
        found: list[Run] = []
        while index < len(self._runs) and self._runs[index].start < interval.stop:
            if self._runs[index].stop > interval.start:
                found.append(self._runs[index])
            index += 1
        return found
