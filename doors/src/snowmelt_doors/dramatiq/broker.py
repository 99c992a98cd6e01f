"""The broker that a program of Dramatiq's sets."""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import dramatiq
from dramatiq.common import q_name
from dramatiq.errors import ConnectionClosed, QueueJoinTimeout, QueueNotFound

from snowmelt.core.errors import BadOption, NoSuchQueue
from snowmelt_doors.dramatiq.consumer import SnowmeltConsumer
from snowmelt_doors.places import AWAY, Place, closed, opened, ranked

T = TypeVar("T")

PRIORITY_MAX: Final = 255
_LOOK: Final = 0.05


class SnowmeltBroker(dramatiq.Broker):
    """A broker for Dramatiq.

    `where` is the URL of a cluster, `snowmelt://HOST:PORT`, or the path of a folder for a program
    of one process. `cluster` takes one that you have opened. With `max_priority` (up to 255)
    queues have priorities; all programs say the same. Queues are named after `namespace`.

    >>> import dramatiq, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     broker = SnowmeltBroker(folder, middleware=[])
    ...     @dramatiq.actor(broker=broker)
    ...     def count(words):
    ...         print(len(words.split()))
    ...     _ = count.send("to be or not to be")
    ...     worker = dramatiq.Worker(broker, worker_threads=1, worker_timeout=10)
    ...     worker.start()
    ...     broker.join("default")
    ...     worker.stop()
    ...     broker.close()
    6
    """

    def __init__(
        self,
        where: str | os.PathLike[str] | None = None,
        *,
        cluster: Place | None = None,
        token: str | None = None,
        user: str | None = None,
        namespace: str = "dramatiq",
        max_priority: int | None = None,
        middleware: list[dramatiq.Middleware] | None = None,
    ) -> None:
        super().__init__(middleware=middleware)
        if (where is None) is (cluster is None):
            raise BadOption("where", where, "snowmelt://HOST:PORT or a folder, or cluster= instead")
        if max_priority is not None and not (
            type(max_priority) is int and 0 < max_priority <= PRIORITY_MAX
        ):
            raise BadOption("max_priority", max_priority, f"1 to {PRIORITY_MAX}, or None")
        self.queues: set[str] = set()
        self.actor_options |= {"broker_priority"}
        self.namespace = namespace
        self.max_priority = max_priority
        self._ranked: dict[str, Any] = {}
        self._own = cluster is None
        self.cluster: Place = cluster or opened(where or "", token=token, user=user)

    def close(self) -> None:
        """Disconnects, or gives the folder back; a cluster that was given stays open."""
        if self._own:
            closed(self.cluster)

    def get_declared_queues(self) -> set[str]:
        """The names of the queues that were declared here."""
        return set(self.queues)

    def declare_queue(self, queue_name: str) -> None:
        """Makes a queue known here; the cluster makes it with its first message."""
        name = q_name(queue_name)
        if name not in self.queues:
            self.emit_before("declare_queue", name)
            self.queues.add(name)
            self.emit_after("declare_queue", name)

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> SnowmeltConsumer:
        """Messages of a queue for a worker; `timeout` is in milliseconds."""
        return SnowmeltConsumer(self.queue_of(queue_name), queue_name, prefetch, timeout)

    def enqueue(
        self, message: dramatiq.Message[Any], *, delay: int | None = None
    ) -> dramatiq.Message[Any]:
        """Puts a message safely into its queue; it may be worked on after `delay` milliseconds."""
        queue = self.queue_of(message.queue_name)
        self.logger.debug("Enqueueing %r on %r.", message.message_id, message.queue_name)
        self.emit_before("enqueue", message, delay)
        options: dict[str, Any] = {"delay": max(0, delay or 0) / 1000}
        if self.max_priority is not None:
            options["priority"] = self._priority(message)
        self._asked(lambda: queue.put(message.encode(), **options))
        self.emit_after("enqueue", message, delay)
        return message

    def flush(self, queue_name: str) -> None:
        """Removes all messages that wait, are delayed or dead; what is in hand stays."""
        queue = self.queue_of(queue_name)
        for dead in (False, True):
            self._asked(partial(queue.purge, dead=dead), 0)

    def flush_all(self) -> None:
        """Does so with all queues that were declared."""
        for queue_name in self.queues:
            self.flush(queue_name)

    def get_queue_message_counts(self, queue_name: str) -> tuple[int, int, int]:
        """How many messages wait or are in hand, are delayed, and are dead."""
        queue = self.queue_of(queue_name)
        status = self._asked(queue.stats, None)
        if status is None:
            return 0, 0, 0
        return status.ready + status.leased, status.delayed, status.dead

    def join(self, queue_name: str, *, timeout: int | None = None) -> None:
        """Waits until a queue has no message that waits, is delayed or in hand; for tests."""
        end = None if timeout is None else time.monotonic() + timeout / 1000
        while any(self.get_queue_message_counts(queue_name)[:2]):
            if end is not None and time.monotonic() >= end:
                raise QueueJoinTimeout(queue_name)
            time.sleep(_LOOK)

    def queue_of(self, queue_name: str) -> Any:
        """The queue of the cluster behind one of Dramatiq's."""
        name = q_name(queue_name)
        if name not in self.queues:
            raise QueueNotFound(name)
        name = f"{self.namespace}.{name}" if self.namespace else name
        if self.max_priority is None:
            return self.cluster.fifo(name)
        if name not in self._ranked:
            make = partial(ranked, self.cluster, name, self.max_priority + 1)
            self._ranked[name] = self._asked(make)
        return self._ranked[name]

    def _priority(self, message: dramatiq.Message[Any]) -> int:
        """RabbitMQ takes what is out of its range as the nearest within it; so does this."""
        given = message.options.get("broker_priority")
        if given is None and message.actor_name in self.actors:
            given = self.actors[message.actor_name].options.get("broker_priority")
        return max(0, min(int(given or 0), self.max_priority or 0))

    def _asked(self, ask: Callable[[], T], missing: T | None = None) -> T | None:
        """What the cluster answers, or `missing` of no queue; raises Dramatiq's error."""
        try:
            return ask()
        except NoSuchQueue:
            return missing
        except AWAY as error:
            raise ConnectionClosed(error) from error
