"""RabbitMQ by aio-pika, which users of an event loop have: many tasks on one channel."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import aio_pika
from aio_pika.abc import (
    AbstractChannel,
    AbstractConnection,
    AbstractIncomingMessage,
    AbstractQueue,
    ConsumerTag,
)
from benchmarks.peers.comparison import WAIT_SECONDS

LASTING = aio_pika.DeliveryMode.PERSISTENT


async def connect_tasks(
    port: int,
    queue: str,
    tasks: int,
    arguments: Mapping[str, Any],
    priorities: Sequence[int | None] = (None,),
) -> "AioPikaTasks":
    """One after the other, items get these priorities."""
    connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{port}/?heartbeat=0")
    channel = await connection.channel()  # with confirms, which are its default
    await channel.set_qos(prefetch_count=tasks)
    declared = await channel.declare_queue(queue, durable=True, arguments=dict(arguments))
    return AioPikaTasks(connection, channel, declared, priorities)


class AioPikaTasks:
    """One connection and one channel for all tasks; each acknowledges its own."""

    def __init__(
        self,
        connection: AbstractConnection,
        channel: AbstractChannel,
        queue: AbstractQueue,
        priorities: Sequence[int | None],
    ) -> None:
        self.next = cycle(priorities)
        self.connection = connection
        self.exchange = channel.default_exchange
        self.queue = queue
        self.arrived: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        self.consumer: ConsumerTag | None = None
        self.starting = asyncio.Lock()

    async def put(self, body: bytes) -> None:
        message = aio_pika.Message(body, delivery_mode=LASTING, priority=next(self.next))
        await self.exchange.publish(message, routing_key=self.queue.name)

    async def take(self, task: int) -> None:
        del task
        if self.consumer is None:
            async with self.starting:
                if self.consumer is None:
                    self.consumer = await self.queue.consume(self.arrived.put)
        message = await asyncio.wait_for(self.arrived.get(), WAIT_SECONDS)
        await message.ack()

    async def settle(self, task: int) -> None:
        del task
        if self.consumer is not None:
            consumer, self.consumer = self.consumer, None
            await self.queue.cancel(consumer)

    async def close(self) -> None:
        await self.queue.delete(if_unused=False, if_empty=False)
        await self.connection.close()
