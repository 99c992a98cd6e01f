"""Who uses queues in a script: what is called, and which steps concern a queue.

    queues n1 n2 n3        nodes as by `nodes`, each with queues
    open n1 q replicas=3   p makes queue q, or looks where it is
    put n1 q one two       p puts these under its next number
    again n2 q             p asks for its last put again, at another node
    get n1 q 1 5s          a get of so many, that waits so long
    every n1 q 5s go       a schedule puts this so often
    leave n1 q             whoever asked last waits no more
    ack n1 q / back n1 q   what the last answered get has is acknowledged / given back
    look n1 q              how the queue is

Nobody follows `Elsewhere` or asks again: a script says each call. Where there are queues the trace
has the steps that concern them, and none of membership's alone.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from snowmelt.core.batch import Batch
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Duration, milliseconds, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Expired, Note
from snowmelt.core.record import Write
from snowmelt.protocols.calling import AskAnother, Declined, Elsewhere
from snowmelt.protocols.queue import MESSAGES
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.schedules import Schedule, What
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt_world.trace import Step
from snowmelt_world.world import World

ASKER: Final = NodeId("c-1")
BYTES_MAX: Final = 1 << 20
PATIENCE: Final = seconds(60)
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s)")


class Users:
    """One producer, and consumers who each ask once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._calls = 0
        self._sequence = -1
        self._last: calls.Put | None = None

    def open(self, node: str, queue: str, *words: str) -> None:
        settings = {
            name: span_of(value) if value.endswith("s") else int(value)
            for name, value in (word.split("=") for word in words)
        }
        self._ask(node, calls.Open(queue, QueueSettings(**settings) if words else None))

    def put(self, node: str, queue: str, *bodies: str) -> None:
        self._sequence += 1
        batch = Batch.of([body.encode() for body in bodies])
        self._last = calls.Put(
            queue,
            "p",
            self._sequence,
            bytes(batch.offsets),
            bytes(batch.blob),
            patience=seconds(60),
        )
        self._ask(node, self._last)

    def again(self, node: str, queue: str) -> None:
        if self._last is None or self._last.queue != queue:
            raise BadOption("again", queue, "the queue of the last put")
        self._ask(node, self._last)

    def get(self, node: str, queue: str, count: str, span: str) -> None:
        self._ask(node, calls.Get(queue, int(count), BYTES_MAX, span_of(span)))

    def every(self, node: str, queue: str, span: str, body: str) -> None:
        what = What(body.encode(), span, interval=span_of(span))
        self._ask(node, Schedule(queue, "tick", what))

    def leave(self, node: str, queue: str) -> None:
        self._ask(node, calls.CancelGet(queue, self._calls))

    def ack(self, node: str, queue: str) -> None:
        lease, places = self._leased()
        self._ask(node, calls.Settle(queue, lease.token, done=places, secret=lease.secret))

    def back(self, node: str, queue: str) -> None:
        lease, places = self._leased()
        self._ask(node, calls.Settle(queue, lease.token, back=places, secret=lease.secret))

    def look(self, node: str, queue: str) -> None:
        self._ask(node, calls.Describe(queue))

    def _ask(self, node: str, message: Any) -> None:
        self._calls += 1
        self._world.request(NodeId(node), OperationId(ASKER, self._calls), message)

    def _leased(self) -> tuple[calls.Leased, tuple[Interval, ...]]:
        """What the last answered get has."""
        for step in reversed(self._world.trace.kept()):
            for lease in _parts(step.effects):
                if isinstance(lease, calls.Leased) and lease.token:
                    ends = [(part.start, len(part.offsets) // 4 - 1) for part in lease.parts]
                    return lease, tuple(Interval(at, at + count) for at, count in ends)
        raise BadOption("ack", "nothing", "what a get was given before")


def concerns_queues(step: Step) -> bool:
    """Whether any part of a step is of the queue's family."""
    return any(map(_is_queues, _parts((step.event, step.effects))))


def _is_queues(part: object) -> bool:
    match part:
        case Write(key=key):
            return b"fifo/" in key
        case Expired(timer=timer):
            return str(timer.value).startswith("queue.")
        case Note():
            return False
        case Declined() | AskAnother() | Elsewhere():
            return True
    return type(part) in MESSAGES


def _parts(word: object) -> Iterator[object]:
    yield word
    if isinstance(word, msgspec.Struct):
        for name in word.__struct_fields__:
            yield from _parts(getattr(word, name))
    elif isinstance(word, tuple | list):
        for one in word:
            yield from _parts(one)


def span_of(word: str) -> Duration:
    found = _SPAN.fullmatch(word)
    if not found:
        raise BadOption("time", word, "such as 3s or 250ms")
    count = float(found[1])
    return seconds(count) if found[2] == "s" else milliseconds(count)
