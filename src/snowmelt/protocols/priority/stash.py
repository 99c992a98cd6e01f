"""What others say of a view that this node has not heard of yet: heard when it has.

They say it again until it is answered, so what there is no room for is late and not lost.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.limits import Limits

_ENCODE: Final = msgspec.msgpack.Encoder().encode


class Stash:
    """So many messages, and so many bytes of them, at most: the last ones.

    >>> stash = Stash(Limits(stash=2))
    >>> for at in range(3):
    ...     stash.add(NodeId("n1"), at)
    >>> list(stash.taken()), list(stash.taken())
    ([('n1', 1), ('n1', 2)], [])
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._messages: deque[tuple[NodeId, Any, int]] = deque()
        self._bytes = 0

    def add(self, source: NodeId, message: Any) -> None:
        size = len(_ENCODE(message))
        self._messages.append((source, message, size))
        self._bytes += size
        limits = self._limits
        while len(self._messages) > limits.stash or self._bytes > limits.stash_bytes:
            self._bytes -= self._messages.popleft()[2]

    def taken(self) -> Iterator[tuple[NodeId, Any]]:
        """All there are, in their order; there are none then."""
        messages, self._messages, self._bytes = self._messages, deque(), 0
        for source, message, _ in messages:
            yield source, message
