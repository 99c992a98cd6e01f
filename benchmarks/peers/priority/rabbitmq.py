"""RabbitMQ: a classic queue with `x-max-priority` and confirms, and a quorum queue beside it.

Quorum queues know priorities (two) since 4.0 only. An older one is measured all the same, without
any: it is what people would have who keep a queue for each priority, as its pages advise. Larger
numbers are more urgent here. The server pushes items ahead of the acknowledgements, as many as the
prefetch allows, and the protocol has no answer to an acknowledgement.
"""

from functools import partial

import pika
from benchmarks.peers import cores
from benchmarks.peers.comparison import Peer
from benchmarks.peers.fifo.clients import QueuePeer
from benchmarks.peers.fifo.rabbitmq import RabbitClient
from benchmarks.peers.fifo.rabbitmq import quorum as plain_quorum
from benchmarks.peers.fifo.rabbitmq_aio import connect_tasks
from benchmarks.peers.priority.urgency import PRIORITIES, urgencies
from benchmarks.peers.servers.rabbitmq import RabbitMQ

CLASSIC = {"x-queue-type": "classic", "x-max-priority": PRIORITIES - 1}
URGENT = [
    pika.BasicProperties(
        delivery_mode=pika.DeliveryMode.Persistent, priority=PRIORITIES - 1 - priority
    )
    for priority in range(PRIORITIES)
]


def classic(name: str) -> Peer:
    return QueuePeer(
        name=name,
        promise="confirms when the disk has it; classic queue with priorities",
        service=RabbitMQ(cores.SERVER),
        client=ClassicClient,
        tasks=partial(connect_tasks, arguments=CLASSIC, priorities=range(PRIORITIES)),
    )


def quorum(name: str, nodes: int) -> Peer:
    peer = plain_quorum(name, nodes)
    peer.promise += "; quorum queue, which has no priorities before 4.0"
    return peer


class ClassicClient(RabbitClient):
    """One connection without a thread of its own."""

    arguments = CLASSIC

    def __init__(self, port: int, queue: str, batch: int) -> None:
        super().__init__(port, queue, batch)
        self.next = urgencies()

    def properties(self) -> pika.BasicProperties:
        return URGENT[next(self.next)]
