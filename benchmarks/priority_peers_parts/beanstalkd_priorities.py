"""beanstalkd with its log: a tube, each job with its priority.

The protocol puts, reserves and deletes one job a command, and greenstalk waits for each answer, so
a batch here is a loop.
"""

from functools import partial

import greenstalk
from benchmarks.fifo.beanstalkd import (
    LEASE_SECONDS,
    BeanstalkdClient,
    BeanstalkdPeer,
    connect_tasks,
)
from benchmarks.fifo.peer import Connect, ConnectTasks
from benchmarks.priority_peers_parts.urgency import PRIORITIES, urgencies


class PrioritiesPeer(BeanstalkdPeer):
    """The server that flushes its log before it answers."""

    def client(self, queue: str, batch: int) -> Connect:
        del batch
        return partial(PrioritiesClient, self.port, queue)

    def tasks(self, queue: str, tasks: int) -> ConnectTasks:
        return partial(connect_tasks, self.port, queue, range(PRIORITIES), tasks)


class PrioritiesClient(BeanstalkdClient):
    """One connection."""

    def __init__(self, port: int, tube: str) -> None:
        super().__init__(port, tube)
        self.next = urgencies()

    def put(self, bodies: list[bytes]) -> None:
        for body in bodies:
            self.base.put(body, priority=next(self.next), ttr=LEASE_SECONDS)

    def take(self, count: int) -> int:
        for taken in range(count):
            try:
                job = self.base.reserve(timeout=0)
            except greenstalk.TimedOutError:
                return taken
            self.base.delete(job)
        return count
