"""When things end, or are due: any number of moments, each under a name."""

from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from snowmelt.core.instant import Instant
from snowmelt.core.names import OperationId

SPARE: Final = 64
"""So many moments more may be kept than twice those that count."""
K = TypeVar("K", int, str, tuple[str, int], OperationId)


class Ends(Generic[K]):
    """By names: no call looks at all of them.

    >>> ends = Ends[str]()
    >>> ends.put("a", Instant(9)); ends.put("b", Instant(3)); ends.put("a", Instant(5))
    >>> ends.next, ends.over(Instant(5)), ends.next
    (3, ['b', 'a'], None)
    """

    def __init__(self) -> None:
        self._ends: dict[K, Instant] = {}
        self._heap: list[tuple[Instant, K]] = []

    def __contains__(self, name: K) -> bool:
        return name in self._ends

    def put(self, name: K, end: Instant) -> None:
        """It ends then, whatever was said before."""
        self._ends[name] = end
        heappush(self._heap, (end, name))
        many = len(self._heap) > SPARE
        if many and len(self._heap) > 2 * len(self._ends) + SPARE:  # one was prolonged many times
            self._heap = [(end, name) for name, end in self._ends.items()]
            heapify(self._heap)

    def forget(self, name: K) -> None:
        """It ended before its time."""
        self._ends.pop(name, None)

    def over(self, now: Instant) -> list[K]:
        """Those whose time has come to its end."""
        ended: list[K] = []
        while self._heap and self._heap[0][0] <= now:
            end, name = heappop(self._heap)
            if self._ends.get(name) == end:
                del self._ends[name]
                ended.append(name)
        return ended

    @property
    def next(self) -> Instant | None:
        """When the next one may end."""
        while self._heap and self._ends.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None
