# Made of face_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""A topic: all subscribers get the same messages in the same order; blocking."""

from collections.abc import Iterable
from typing import Any, Self

from snowmelt.client.connection.forking import Own
from snowmelt.client.connection.session import TIMEOUT, checked
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import Port, run
from snowmelt.client.multicast.steps import ListenerState, Message, TopicSteps
from snowmelt.client.queue.codecs import PLAIN, ValueCodec
from snowmelt.core.instant import later, seconds
from snowmelt.protocols.multicast.calls import Position
from snowmelt.runtime.clock import steady_now


class Subscription:
    """What comes from now on, one message after the other. `Multicast.subscribe` gives it.

    Everybody sees the messages in the same order. When something may be missing in what you see,
    since a node was lost or you were too slow, `missed` is one larger.
    """

    __reduce__ = stays("subscribe there")

    def __init__(
        self, port: Port, steps: TopicSteps, listener: ListenerState, timeout: float | None
    ) -> None:
        self._port = port
        self._steps = steps
        self._listener = listener
        self._timeout = timeout
        self._closed = False

    def __repr__(self) -> str:
        return f"Subscription({self._steps.name!r}, missed={self.missed})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        if not self._listener.came and not self._closed:
            end = None
            if self._timeout is not None:
                end = later(steady_now(), seconds(self._timeout))
            run(self._port, self._steps.more(self._listener, end))
        if not self._listener.came or self._closed:
            raise StopIteration
        return self._listener.next()

    @property
    def missed(self) -> int:
        """How often something may have been missed, as far as is known.

        It comes with the messages behind the gap, and messages come together. So the gap lies
        before the next message, or before one of those behind it.
        """
        return self._listener.following.missed

    def close(self) -> None:
        """Ends it: a loop over it ends, too."""
        self._closed = True


class Multicast:
    """A topic, made when it is first used. `cluster.multicast(name)` gives it.

    Threads may share it; each that listens needs a subscription of its own.
    """

    __reduce__ = stays("send its name and the URL, and connect there")

    def __init__(self, port: Port, steps: TopicSteps, codec: ValueCodec = PLAIN) -> None:
        self._port = port
        self._steps = steps
        self._codec = codec

    def __repr__(self) -> str:
        return f"Multicast({self.name!r})"

    @property
    def name(self) -> str:
        """The name that the topic was asked for by."""
        return self._steps.name

    def publish(self, body: Any, *, timeout: float = TIMEOUT) -> Position:
        """Lets everybody hear it; returns its position once every node has it.

        Raises `OutcomeUnknown` when that was not so in time: it may yet be heard.
        """
        return run(self._port, self._steps.publish(self._codec.body(body), timeout))

    def publish_many(self, bodies: Iterable[Any], *, timeout: float = TIMEOUT) -> list[Position]:
        """Lets everybody hear these, in order; returns their positions.

        Up to 4,096 of together 8 MiB are one call, and stand side by side; more are several calls,
        each with its own `timeout`, and others' messages may stand between.
        """
        rows = self._codec.bodies(bodies)
        return run(self._port, self._steps.publish_many(rows, timeout))

    def subscribe(self, timeout: float | None = None) -> Subscription:
        """Listens from now on, and no later: what is published when this has returned will come.

        Iterating goes on for ever, or until none came for `timeout` seconds; it raises
        `Unreachable` when no node has answered for 30 s, or not within the timeout.
        """
        if timeout is not None:
            timeout = max(0.0, checked(timeout))
        own = Own(self._port, f"this subscription to {self.name}", "subscribe in this one")
        listener = ListenerState(self._codec)
        run(own, self._steps.begin(listener, TIMEOUT))
        return Subscription(own, self._steps, listener, timeout)
