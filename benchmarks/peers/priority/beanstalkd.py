"""beanstalkd with its log: a tube, each job with its priority.

The protocol puts, reserves and deletes one job a command, and greenstalk waits for each answer, so
a batch here is a loop.
"""

from functools import partial

from benchmarks.peers import cores
from benchmarks.peers.comparison import Peer
from benchmarks.peers.fifo.beanstalkd import LEASE_SECONDS, BeanstalkdClient, connect_tasks
from benchmarks.peers.fifo.clients import QueuePeer
from benchmarks.peers.priority.urgency import PRIORITIES, urgencies
from benchmarks.peers.servers.beanstalkd import Beanstalkd


def tube(name: str) -> Peer:
    return QueuePeer(
        name=name,
        promise="flushes before it answers",
        service=Beanstalkd(0, cores.SERVER),
        client=PrioritiesClient,
        tasks=partial(connect_tasks, priorities=range(PRIORITIES)),
    )


class PrioritiesClient(BeanstalkdClient):
    """One connection."""

    def __init__(self, port: int, tube: str, batch: int) -> None:
        super().__init__(port, tube, batch)
        self.next = urgencies()

    def put(self, bodies: list[bytes]) -> None:
        for body in bodies:
            self.base.put(body, priority=next(self.next), ttr=LEASE_SECONDS)
