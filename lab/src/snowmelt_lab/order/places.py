"""Where an item goes back to: a queue that never runs dry, in two kinds. Items are their ranks."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Final, Protocol


class Line(Protocol):
    """A queue that never runs dry, of ranks."""

    def take(self) -> int: ...

    def give_back(self, rank: int) -> None: ...


class OwnPlace:
    """Items go back to their own positions.

    >>> line = OwnPlace(waiting=10)
    >>> [line.take(), line.take(), line.give_back(0), line.take(), line.take()]
    [0, 1, None, 0, 2]
    """

    def __init__(self, waiting: int) -> None:
        del waiting  # how many wait behind makes no difference
        self._back: list[int] = []
        self._fresh = count()

    def take(self) -> int:
        """The oldest: all that came back is older than what is fresh."""
        return heappop(self._back) if self._back else next(self._fresh)

    def give_back(self, rank: int) -> None:
        heappush(self._back, rank)


class Tail:
    """Items go back behind all that wait; producers keep that many waiting.

    >>> line = Tail(waiting=2)
    >>> [line.take(), line.take(), line.give_back(0), line.take(), line.take(), line.take()]
    [0, 1, None, 2, 3, 0]
    """

    def __init__(self, waiting: int) -> None:
        self._fresh = count()
        self._line = deque(next(self._fresh) for _ in range(waiting))
        self._waiting = waiting

    def take(self) -> int:
        """The head; a producer puts a fresh item at the tail for it."""
        rank = self._line.popleft()
        if len(self._line) < self._waiting:
            self._line.append(next(self._fresh))
        return rank

    def give_back(self, rank: int) -> None:
        self._line.append(rank)


PLACES: Final[dict[str, Callable[[int], Line]]] = {"own place": OwnPlace, "tail": Tail}
