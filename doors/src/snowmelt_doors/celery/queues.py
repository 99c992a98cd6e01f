"""The queues of a cluster, by the names that kombu has for them (rules 1 to 4)."""

import threading
from typing import Any

import snowmelt
from snowmelt.client.connection.forking import watch
from snowmelt_doors.celery.messages import (
    PRIORITIES,
    StoredMessage,
    delay_of,
    packed,
    priority_of,
)
from snowmelt_doors.celery.naming import queue_of


class StoredQueues:
    """Takes queues once; threads may share it."""

    def __init__(self, cluster: snowmelt.Cluster, options: dict[str, Any], timeout: float) -> None:
        self._cluster = cluster
        self._options = options
        self._timeout = timeout
        self._open: dict[str, snowmelt.Fifo | snowmelt.PriorityQueue] = {}
        self.forked()
        watch(self)

    def forked(self) -> None:
        """A thread of the parent may have held it."""
        self._lock = threading.Lock()

    def take(self, name: str) -> snowmelt.Fifo | snowmelt.PriorityQueue:
        """The queue of this name, made if it is not there."""
        queue = self._open.get(name)
        if queue is None:
            queue = self._made(queue_of(name))
            with self._lock:
                queue = self._open.setdefault(name, queue)
        return queue

    def forget(self, name: str) -> None:
        """It was deleted: it is made anew when it is taken next."""
        with self._lock:
            self._open.pop(name, None)

    def put(self, name: str, message: StoredMessage) -> None:
        """Returns when it is safe."""
        try:
            self._put(self.take(name), message)
        except snowmelt.QueueDeleted:
            self.forget(name)
            self._put(self.take(name), message)

    def size(self, name: str, *, made: bool = True) -> int:
        """How many messages are ready; raises `NoSuchQueue` for one that is not `made`."""
        try:
            queue = self.take(name) if made else self._cluster.queue(queue_of(name))
            return queue.stats(timeout=self._timeout).ready
        except snowmelt.NoSuchQueue:
            self.forget(name)
            if not made:
                raise
            self.take(name)
            return 0

    def purge(self, name: str) -> int:
        """How many were removed."""
        try:
            return self._cluster.queue(queue_of(name)).purge(timeout=self._timeout)
        except snowmelt.NoSuchQueue:
            return 0

    def delete(self, name: str, *, if_empty: bool) -> bool:
        """Whether it is gone."""
        try:
            self._cluster.delete(queue_of(name), if_empty=if_empty, timeout=self._timeout)
        except snowmelt.NotEmpty:
            return False
        except snowmelt.NoSuchQueue:
            pass
        self.forget(name)
        return True

    def _made(self, name: str) -> snowmelt.Fifo | snowmelt.PriorityQueue:
        settings: Any = {"priorities": PRIORITIES, "largest_first": True, **self._options}
        queue = self._cluster.priority(name, **settings)
        try:
            queue.create(timeout=self._timeout)
        except snowmelt.QueueExists:
            return self._cluster.queue(name)
        return queue

    def _put(self, queue: snowmelt.Fifo | snowmelt.PriorityQueue, message: StoredMessage) -> None:
        body, delay = packed(message), delay_of(message)
        if isinstance(queue, snowmelt.PriorityQueue):
            priority = priority_of(message)
            queue.put(body, priority=priority, delay=delay, timeout=self._timeout)
        else:
            queue.put(body, delay=delay, timeout=self._timeout)
