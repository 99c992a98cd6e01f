"""RabbitMQ: a classic queue with `x-max-priority` and confirms, and a quorum queue beside it.

Quorum queues know priorities (two) since 4.0 only. An older one is measured all the same, without
any: it is what people would have who keep a queue for each priority, as its pages advise. Larger
numbers are more urgent here. The server pushes items ahead of the acknowledgements, as many as the
prefetch allows, and the protocol has no answer to an acknowledgement.
"""

import asyncio
from functools import partial
from typing import Any

import pika
from benchmarks.fifo.peer import WAIT_SECONDS, Connect
from benchmarks.fifo.rabbitmq_quorum import LASTING, QUORUM, RabbitClient, RabbitPeer
from benchmarks.priority_peers_parts.peer import PRIORITIES, ConnectTasks, urgencies
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel
from pika.frame import Method

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

    def tasks(self, queue: str, tasks: int) -> ConnectTasks:
        plain = [LASTING] * PRIORITIES
        return partial(connect_tasks, self.port, queue, tasks, QUORUM, plain)


class ClassicClient(RabbitClient):
    """One connection without a thread of its own."""

    arguments = CLASSIC

    def __init__(self, port: int, queue: str, batch: int) -> None:
        super().__init__(port, queue, batch)
        self.next = urgencies()

    def properties(self) -> pika.BasicProperties:
        return URGENT[next(self.next)]


async def connect_tasks(
    port: int, queue: str, tasks: int, arguments: dict[str, Any], kinds: list[Any]
) -> "RabbitTasks":
    found = RabbitTasks(port, queue, kinds)
    await asyncio.wait_for(found.open(tasks, arguments), WAIT_SECONDS)
    return found


class RabbitTasks:
    """One connection and one channel for all tasks: each waits for its own confirm."""

    def __init__(self, port: int, queue: str, kinds: list[Any]) -> None:
        self.queue = queue
        self.kinds = kinds
        self.published = 0
        self.waiting: dict[int, asyncio.Future[None]] = {}
        self.arrived: asyncio.Queue[int] = asyncio.Queue()
        self.consumes = False
        self.opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.connection = AsyncioConnection(
            pika.ConnectionParameters("127.0.0.1", port, heartbeat=0),
            on_open_callback=self.opened.set_result,
            on_open_error_callback=lambda _, why: self.opened.set_exception(RuntimeError(str(why))),
        )

    async def open(self, tasks: int, arguments: dict[str, Any]) -> None:
        await self.opened
        ready: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()
        self.connection.channel(on_open_callback=ready.set_result)
        self.channel = await ready
        await self._ask(self.channel.confirm_delivery, self._is_confirmed)
        await self._ask(self.channel.queue_declare, self.queue, durable=True, arguments=arguments)
        await self._ask(self.channel.basic_qos, prefetch_count=tasks)

    async def put(self, body: bytes, priority: int) -> None:
        self.published += 1
        confirmed = self.waiting[self.published] = asyncio.get_running_loop().create_future()
        self.channel.basic_publish("", self.queue, body, self.kinds[priority])
        await confirmed

    async def take(self, task: int) -> None:
        del task
        if not self.consumes:
            self.consumes = True
            self.consumer = self.channel.basic_consume(self.queue, self._has_arrived)
        self.channel.basic_ack(await asyncio.wait_for(self.arrived.get(), WAIT_SECONDS))

    async def settle(self, task: int) -> None:
        del task
        if self.consumes:
            self.consumes = False
            await self._ask(self.channel.basic_cancel, self.consumer)

    async def close(self) -> None:
        await self._ask(self.channel.queue_delete, self.queue)
        self.connection.close()

    async def _ask(self, method: Any, *values: object, **options: object) -> Method:
        answer: asyncio.Future[Method] = asyncio.get_running_loop().create_future()
        method(*values, callback=answer.set_result, **options)
        return await asyncio.wait_for(answer, WAIT_SECONDS)

    def _is_confirmed(self, confirm: Method) -> None:
        if isinstance(confirm.method, pika.spec.Basic.Nack):
            raise TypeError("RabbitMQ refused a publish")
        tag = confirm.method.delivery_tag
        tags = [one for one in self.waiting if one <= tag] if confirm.method.multiple else [tag]
        for one in tags:
            self.waiting.pop(one).set_result(None)

    def _has_arrived(self, _: Channel, delivery: Any, *_what: object) -> None:
        self.arrived.put_nowait(delivery.delivery_tag)
