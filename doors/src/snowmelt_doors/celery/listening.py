"""Queues that end with their program: they hear topics, and are not stored (rule 12)."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

import snowmelt
from snowmelt_doors.celery.exchanges import matches
from snowmelt_doors.celery.inbox import Inbox, UnheardMessage
from snowmelt_doors.celery.messages import StoredMessage, heard, priority_of
from snowmelt_doors.celery.naming import topic_of

KEPT: Final = 10_000
"""So many messages wait in one queue for a consumer; the next are dropped, and that is logged."""
POLL_SECONDS: Final = 1.0
PASSING: Final = (snowmelt.OutcomeUnknown, snowmelt.Unavailable, snowmelt.Unreachable)
_PAUSE: Final = 0.2
_LOG: Final = logging.getLogger(__name__)


class ListeningQueue:
    """What came for one queue, the most urgent first, and who consumes it."""

    def __init__(self, name: str, channel: Any) -> None:
        self.name = name
        self.channel = channel
        self.bindings: list[tuple[str, str, str]] = []
        """The exchange, its type, and the key of each."""
        self.consumer: Any = None
        self._waiting: list[tuple[int, int, StoredMessage]] = []
        self._order = count()
        self._dropped = False

    def takes(self, exchange: str, routing_key: str) -> bool:
        """Whether a message of this exchange is for it."""
        return any(
            there == exchange and matches(kind, key, routing_key)
            for there, kind, key in self.bindings
        )

    def push(self, message: StoredMessage) -> None:
        if len(self._waiting) < KEPT:
            heappush(self._waiting, (-priority_of(message), next(self._order), message))
            self._dropped = False
        elif not self._dropped:
            self._dropped = True
            _LOG.warning("%d messages wait in %r; more are dropped", KEPT, self.name)

    def pop(self) -> StoredMessage | None:
        """The next that is not expired; None when there is none."""
        while self._waiting:
            message = heappop(self._waiting)[2]
            if not message.expired:
                return message
        return None

    def clear(self) -> int:
        """Drops what waits; how many there were."""
        waiting, self._waiting = self._waiting, []
        return len(waiting)

    def __len__(self) -> int:
        return len(self._waiting)


class Listeners:
    """The queues of a connection that are not stored; a thread hears the topic of each exchange."""

    def __init__(self, cluster: snowmelt.Cluster, inbox: Inbox, tags: Callable[[], int]) -> None:
        self._cluster = cluster
        self._inbox = inbox
        self._tags = tags
        self._queues: dict[str, ListeningQueue] = {}
        self._heard: set[str] = set()
        self._lock = threading.RLock()
        self._over = False

    def bind(self, name: str, channel: Any, exchange: str, kind: str, key: str) -> None:
        """What is published from now on comes into the queue."""
        with self._lock:
            queue = self._queues.setdefault(name, ListeningQueue(name, channel))
            if (exchange, kind, key) in queue.bindings:
                return
            queue.bindings.append((exchange, kind, key))
            if exchange in self._heard:
                return
            self._heard.add(exchange)
        try:
            topic = self._cluster.multicast(topic_of(exchange))
            subscription = topic.subscribe(timeout=POLL_SECONDS)
        except BaseException:
            with self._lock:
                self._heard.discard(exchange)
                queue.bindings.remove((exchange, kind, key))
            raise
        threading.Thread(
            target=self._hear, args=(exchange, subscription), name="snowmelt-topic", daemon=True
        ).start()

    def find(self, name: str) -> ListeningQueue | None:
        """The queue of this name, if it is one of these."""
        return self._queues.get(name)

    def consume(self, queue: ListeningQueue, consumer: Any) -> None:
        """Has one consumer hear of what waits, and of all that comes."""
        with self._lock:
            queue.consumer = consumer
            while (message := queue.pop()) is not None:
                self._inbox.put([UnheardMessage(consumer, message, self._tags())])

    def cancel(self, consumer: Any) -> None:
        """What it has not heard of waits again."""
        with self._lock:
            for queue in self._queues.values():
                if queue.consumer is consumer:
                    queue.consumer = None
                    for one in self._inbox.remove(lambda one: one.consumer is consumer):
                        queue.push(one.message)

    def drop(self, name: str) -> None:
        with self._lock:
            self._queues.pop(name, None)

    def drop_of(self, channel: Any) -> None:
        """A channel is closed; its queues end."""
        with self._lock:
            left = {name: one for name, one in self._queues.items() if one.channel is not channel}
            self._queues = left

    def close(self) -> None:
        self._over = True
        with self._lock:
            self._queues.clear()

    # --- in a thread ------------------------------------------------------------------------------

    def _hear(self, exchange: str, subscription: Any) -> None:
        while not self._ended(exchange):
            try:
                for message in subscription:
                    self._spread(exchange, message.body)
            except snowmelt.Closed:
                return
            except PASSING:
                time.sleep(_PAUSE)
            except snowmelt.SnowmeltError as error:
                self._inbox.fail(error)
                return

    def _ended(self, exchange: str) -> bool:
        """Whether nobody hears this exchange any more."""
        with self._lock:
            queues = self._queues.values()
            bound = any(there == exchange for one in queues for there, _, _ in one.bindings)
            if self._over or not bound:
                self._heard.discard(exchange)
                return True
            return False

    def _spread(self, exchange: str, body: bytes) -> None:
        with suppress(ValueError, RecursionError):  # what is no message is nobody's here
            came = heard(body)
            with self._lock:
                for queue in self._queues.values():
                    if not queue.takes(exchange, came.routing_key):
                        continue
                    if queue.consumer is None:
                        queue.push(came.message)
                    elif not came.message.expired:
                        one = UnheardMessage(queue.consumer, came.message, self._tags())
                        self._inbox.put([one])
