"""RabbitMQ: a classic queue with `x-max-priority` and confirms, and a quorum queue beside it.

Quorum queues know priorities (two) since 4.0 only. An older one is measured all the same, without
any: it is what people would have who keep a queue for each priority, as its pages advise. Larger
numbers are more urgent here. The server pushes items ahead of the acknowledgements, as many as the
prefetch allows, and the protocol has no answer to an acknowledgement.
"""

from functools import partial

import pika
from benchmarks.fifo.peer import Connect, ConnectTasks
from benchmarks.fifo.rabbitmq_quorum import RabbitClient, RabbitPeer
from benchmarks.fifo.rabbitmq_tasks import connect_tasks
from benchmarks.priority_peers_parts.urgency import PRIORITIES, urgencies

CLASSIC = {"x-queue-type": "classic", "x-max-priority": PRIORITIES - 1}
URGENT = [
    pika.BasicProperties(
        delivery_mode=pika.DeliveryMode.Persistent, priority=PRIORITIES - 1 - priority
    )
    for priority in range(PRIORITIES)
]


class ClassicPeer(RabbitPeer):
    """One node."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.promise = "confirms when the disk has it; classic queue with priorities"

    def client(self, queue: str, batch: int) -> Connect:
        return partial(ClassicClient, self.port, queue, batch)

    def tasks(self, queue: str, tasks: int) -> ConnectTasks:
        return partial(connect_tasks, self.port, queue, tasks, CLASSIC, URGENT)


class QuorumPeer(RabbitPeer):
    """One node, or several, with a quorum queue."""

    def __init__(self, name: str, nodes: int) -> None:
        super().__init__(name, nodes)
        self.promise += "; quorum queue, which has no priorities before 4.0"


class ClassicClient(RabbitClient):
    """One connection without a thread of its own."""

    arguments = CLASSIC

    def __init__(self, port: int, queue: str, batch: int) -> None:
        super().__init__(port, queue, batch)
        self.next = urgencies()

    def properties(self) -> pika.BasicProperties:
        return URGENT[next(self.next)]
