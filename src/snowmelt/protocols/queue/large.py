"""What is too large for one message with its step goes ahead of it, each body by itself.

1. A step's message has bodies up to a bound; it names those that go ahead of it.
2. To each node few large bodies are on their way at once: a connection with too much that is unsent
   is cut off. Who has one says so; the next goes then, or when it is as good as lost.
3. Who follows takes a step when all that is named has come. Of what never comes whole it keeps
   some, and the leader sends all of it again after a while.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.words import Ahead, Append, Body, Head, Key, Store

STEPS_MAX: Final = 8
WAY_BYTES: Final = 32 << 20
"""So much is on its way to a node, or one body."""
LOST_AFTER: Final = seconds(20)


class Ways:
    """What is on its way from this node to others (rule 2).

    >>> word = Ahead("q", 1, Head(1, 2), Body(b"a", bytes(WAY_BYTES)))
    >>> ways, now = Ways(), Instant(0)
    >>> ways.goes(NodeId("n2"), word, now), ways.goes(NodeId("n2"), word, now)
    (True, False)
    >>> ways.came(NodeId("n2"), "q", word.head, b"a"); ways.goes(NodeId("n2"), word, now)
    True
    """

    def __init__(self) -> None:
        self._flying: dict[NodeId, dict[tuple[str, Head, Key], tuple[int, Instant]]] = {}

    def goes(self, target: NodeId, word: Ahead | Store, now: Instant) -> bool:
        """Whether one more may go now; then it does."""
        flying = self._there(target, now)
        size = len(word.body.value)
        if flying and sum(other for other, _ in flying.values()) + size > WAY_BYTES:
            return False
        flying[word.queue, word.head, word.body.key] = size, now
        return True

    def came(self, target: NodeId, queue: str, head: Head, key: Key) -> None:
        """It is there."""
        self._flying.get(target, {}).pop((queue, head, key), None)

    def busy(self, target: NodeId, queue: str, now: Instant) -> bool:
        """Whether some of a queue is on its way there."""
        return any(name == queue for name, _, _ in self._there(target, now))

    def _there(
        self, target: NodeId, now: Instant
    ) -> dict[tuple[str, Head, Key], tuple[int, Instant]]:
        flying = self._flying.setdefault(target, {})
        for name, (_, at) in list(flying.items()):
            if later(at, LOST_AFTER) <= now:
                del flying[name]
        return flying


def parted(step: Append, bytes_max: int) -> Iterator[Ahead | Append]:
    """A step as it is sent (rule 1).

    >>> bodies = Body(b"a", b"12"), Body(b"b", b"3456"), Body(b"c", b"7")
    >>> step = Append("q", 1, Head(1, 2), Head(1, 1), (), bodies, ())
    >>> *ahead, told = parted(step, 3)
    >>> [one.body.key for one in ahead], [one.key for one in told.bodies], told.ahead
    ([b'b'], [b'a', b'c'], (b'b',))
    """
    room, within, named = bytes_max, list[Body](), list[Key]()
    for body in step.bodies:
        if len(body.value) <= room:
            room -= len(body.value)
            within.append(body)
        else:
            named.append(body.key)
            yield Ahead(step.queue, step.term, step.head, body)
    yield msgspec.structs.replace(step, bodies=tuple(within), ahead=tuple(named))


class _Waits(msgspec.Struct):
    """What came of one step."""

    bodies: dict[Key, Body] = {}
    step: Append | None = None


class Gathering:
    """The steps of one queue of which something is on its way.

    >>> bodies = (Body(b"a", b"1"),)
    >>> *ahead, told = parted(Append("q", 1, Head(1, 2), Head(1, 1), (), bodies, ()), 0)
    >>> gathering = Gathering()
    >>> gathering.step(told), gathering.body(ahead[0]).bodies
    (None, (Body(key=b'a', value=b'1'),))
    """

    def __init__(self) -> None:
        self._waits: dict[Head, _Waits] = {}

    def step(self, step: Append) -> Append | None:
        """One came; it, with all of its bodies, or None while some are on their way."""
        self._of(step.head).step = step
        return self._whole(step.head)

    def body(self, word: Ahead) -> Append | None:
        """The same for a body."""
        self._of(word.head).bodies[word.body.key] = word.body
        return self._whole(word.head)

    def _of(self, head: Head) -> _Waits:
        if head not in self._waits and len(self._waits) >= STEPS_MAX:
            del self._waits[max(self._waits)]  # the earliest is the first to be taken
        return self._waits.setdefault(head, _Waits())

    def _whole(self, head: Head) -> Append | None:
        waits = self._waits[head]
        step = waits.step
        if step is None or any(key not in waits.bodies for key in step.ahead):
            return None
        self._waits = {other: one for other, one in self._waits.items() if other > head}
        bodies = (*step.bodies, *(waits.bodies[key] for key in step.ahead))
        return msgspec.structs.replace(step, bodies=bodies, ahead=())
