"""The queues that one client has asked for: all its handles of one queue share what is here.

So a client is one producer of a queue, though it makes a handle for each put, and looks once for
the node to ask. A producer that is named has one who counts: it is never shared.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, Final, TypeVar

from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.protocols.queue.api.partition_names import known_name
from snowmelt.protocols.queue.api.settings import QueueSettings

S = TypeVar("S", bound=FifoSteps)
T = TypeVar("T")

KNOWN_MOST: Final = 10_000
"""The queues that were asked for the longest time ago are forgotten; who has a handle keeps it."""


class HandleCache:
    """By what was asked for; any threads may ask, and handlers of signals: each step is whole.

    >>> known = HandleCache()
    >>> known.once(("orders", 1), list) is known.once(("orders", 1), list)
    True
    """

    def __init__(self, most: int = KNOWN_MOST) -> None:
        self._made: OrderedDict[Hashable, Any] = OrderedDict()
        self._most = most

    def __len__(self) -> int:
        return len(self._made)

    def forget(self, name: str) -> None:
        """What was made for this queue, or for the one producer of it. O(all)."""
        for key in list(self._made):
            if key == name or (isinstance(key, tuple) and key[0] == name):
                self._made.pop(key, None)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made for this before, or is made now."""
        found: T | None = self._made.get(key)
        if found is None:
            found = self._made.setdefault(key, make())  # another may have made it meanwhile
        with suppress(KeyError):  # it was forgotten just now
            self._made.move_to_end(key)
            if len(self._made) > self._most:
                self._made.popitem(last=False)
        return found

    def steps(
        self,
        kind: type[S],
        name: str,
        settings: QueueSettings | None,
        producer: str | None,
        sequence: int | None,
    ) -> S:
        """Of a queue that a node leads: its handles share them, but where a producer is named."""
        if producer is not None or sequence is not None:
            return kind(name, settings, ProducerSequence(producer, sequence))
        key = known_name(name), settings, kind
        while True:
            steps = self.once(key, lambda: kind(name, settings, self._own(name)))
            if not steps.over:
                return steps
            self.forget(name)

    def _own(self, name: str) -> ProducerSequence:
        """This client as the producer of a queue: one, with whatever settings it is asked for."""
        return self.once(name, ProducerSequence)
