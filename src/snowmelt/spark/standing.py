"""How a stage stands while a pipeline runs, for programs that show it."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

WINDOW_SECONDS: Final = 5.0
"""Rates are of the last few seconds: a mean since the start hardly moves after a while."""


class State(Enum):
    """What a stage does just now."""

    STARTING = "starting"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    ELSEWHERE = "elsewhere"
    """It is not run by this process."""


@dataclass(frozen=True)
class Standing:
    """What one stage has done, and what waits for it."""

    stage: str
    state: State
    taken: int
    """Items it has finished with since this run began."""
    made: int | None
    """Items, or rows, that came of them; None where nobody here counts them."""
    seconds: float
    """How long it has run, up to the last item it finished with."""
    rate: float
    """Items a second, in the last few seconds."""
    backlog: int
    """Items that wait in its source."""
    held: int
    """Items it has been given and is not done with."""
    total: int | None
    """How many items it will have taken in the end, where that is known."""
    lost: int
    """Items that could not be read from any copy."""

    @property
    def lag(self) -> float | None:
        """Seconds until it has caught up, at the present rate; None when it stands still."""
        left = self.backlog + self.held
        if left == 0:
            return 0.0
        return left / self.rate if self.rate > 0 else None

    @property
    def mean_rate(self) -> float:
        """Items a second, over the whole time."""
        return self.taken / self.seconds if self.seconds > 0 else 0.0


Show = Callable[[Sequence[Standing]], None]


class ItemRate:
    """Items a second over the last few seconds.

    >>> rate = ItemRate()
    >>> [rate.at(now, items) for now, items in [(0.0, 0), (1.0, 100), (2.0, 300)]]
    [0.0, 100.0, 150.0]
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def at(self, now: float, items: int) -> float:
        """The rate, when so many items in all are done by now."""
        self._seen.append((now, items))
        while len(self._seen) > 2 and now - self._seen[1][0] >= WINDOW_SECONDS:
            self._seen.popleft()
        first, before = self._seen[0]
        return (items - before) / (now - first) if now > first else 0.0
