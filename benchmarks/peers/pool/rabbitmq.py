"""RabbitMQ: a classic queue whose messages are in the server's memory, each acknowledged.

pika's blocking connection: a put waits for the server's confirm, a get for what the server pushes,
and one acknowledgement covers a batch. The protocol has no answer to that. A queue that is full
refuses what is published, and the producer tries again.
"""

import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import pika
from benchmarks.peers.pool.cell import Cell
from benchmarks.peers.pool.clients import Body, Connect, PoolPeer
from benchmarks.peers.servers.rabbitmq import RabbitMQ
from pika.exceptions import NackError

LOOK_SECONDS: Final = 0.001
MEMORY: Final = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Transient)


def peer(name: str) -> PoolPeer:
    return PoolPeer(
        name=name,
        promise="at least once; a classic queue in a server's memory",
        service=RabbitMQ(),
        open=opened,
        remove=removed,
    )


def opened(service: RabbitMQ, queue: str, cell: Cell) -> Connect:
    return partial(RabbitPoolClient, service.address, queue, cell.bound, cell.batch)


def removed(service: RabbitMQ, queue: str) -> None:
    client = RabbitPoolClient(service.address, queue, 0, 1)
    client.channel.queue_delete(queue)
    client.close()


class RabbitPoolClient:
    """One connection, one channel."""

    def __init__(self, port: int, queue: str, bound: int, batch: int) -> None:
        self.queue = queue
        self.connection = pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", port, heartbeat=0)
        )
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        if bound:
            arguments = {"x-max-length": bound, "x-overflow": "reject-publish"}
            self.channel.queue_declare(queue, arguments=arguments)
        self.channel.basic_qos(prefetch_count=max(2, 2 * batch))
        self.came: deque[tuple[int, bytes]] = deque()
        self.consumes = False
        self.last = 0

    def put(self, bodies: list[bytes]) -> None:
        for body in bodies:
            while True:
                try:
                    self.channel.basic_publish("", self.queue, body, MEMORY)
                    break
                except NackError:
                    time.sleep(LOOK_SECONDS)

    def get(self, count: int, seconds: float) -> Sequence[Body]:
        if not self.consumes:
            self.channel.basic_consume(self.queue, self._came)
            self.consumes = True
        end = time.monotonic() + seconds
        while not self.came and time.monotonic() < end:
            self.connection.process_data_events(max(0.0, end - time.monotonic()))
        found = [self.came.popleft() for _ in range(min(count, len(self.came)))]
        if found:
            self.last = found[-1][0]
        return [body for _, body in found]

    def _came(self, _channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self.came.append((method.delivery_tag, body))

    def ack(self) -> None:
        self.channel.basic_ack(self.last, multiple=True)
        self.connection.process_data_events(0)  # it is sent, and not only kept

    def close(self) -> None:
        self.connection.close()
