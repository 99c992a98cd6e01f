"""What is large and on its way from this node to others.

To each node little of that goes at once: a connection with too much that is unsent is cut off. Who
has one says so; the next goes then, or when it is as good as lost.
"""

from typing import Final

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import NodeId

LOST_AFTER: Final = seconds(20)
Name = tuple[str, int | bytes]
"""A queue, and the number of a step or the key of a body."""


class SendWindow:
    """Of one node. So many bytes go to another, or one thing.

    >>> ways, n2, now = SendWindow(10), NodeId("n2"), Instant(0)
    >>> [ways.goes(n2, ("q", step), 7, now) for step in (1, 2)], ways.flies(n2, ("q", 1), now)
    ([True, False], True)
    >>> ways.came(n2, ("q", 1)); ways.goes(n2, ("q", 2), 99, now)
    True
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._flying: dict[NodeId, dict[Name, tuple[int, Instant]]] = {}

    def goes(self, target: NodeId, name: Name, size: int, now: Instant) -> bool:
        """Whether one more may go now; then it does."""
        flying = self._there(target, now)
        if flying and sum(other for other, _ in flying.values()) + size > self._bytes_max:
            return False
        flying[name] = size, now
        return True

    def came(self, target: NodeId, name: Name) -> None:
        self._flying.get(target, {}).pop(name, None)

    def flies(self, target: NodeId, name: Name, now: Instant) -> bool:
        """Whether this is on its way there still."""
        return name in self._there(target, now)

    def _there(self, target: NodeId, now: Instant) -> dict[Name, tuple[int, Instant]]:
        flying = self._flying.setdefault(target, {})
        for name, (_, at) in list(flying.items()):
            if later(at, LOST_AFTER) <= now:
                del flying[name]
        return flying
