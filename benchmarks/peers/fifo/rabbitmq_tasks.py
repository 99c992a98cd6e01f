"""RabbitMQ with an event loop: many tasks on one connection and one channel."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import pika
from benchmarks.peers.comparison import WAIT_SECONDS
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel
from pika.frame import Method


async def connect_tasks(
    port: int, queue: str, tasks: int, arguments: Mapping[str, object], kinds: Sequence[Any]
) -> "RabbitTasks":
    found = RabbitTasks(port, queue, kinds)
    await asyncio.wait_for(found.open(tasks, arguments), WAIT_SECONDS)
    return found


class RabbitTasks:
    """One connection and one channel for all tasks: each waits for its own confirm."""

    def __init__(self, port: int, queue: str, kinds: Sequence[Any]) -> None:
        self.queue = queue
        self.next = cycle(kinds)
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

    async def open(self, tasks: int, arguments: Mapping[str, object]) -> None:
        await self.opened
        ready: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()
        self.connection.channel(on_open_callback=ready.set_result)
        self.channel = await ready
        await self._ask(self.channel.confirm_delivery, self._is_confirmed)
        await self._ask(
            self.channel.queue_declare, self.queue, durable=True, arguments=dict(arguments)
        )
        await self._ask(self.channel.basic_qos, prefetch_count=tasks)

    async def put(self, body: bytes) -> None:
        self.published += 1
        confirmed = self.waiting[self.published] = asyncio.get_running_loop().create_future()
        self.channel.basic_publish("", self.queue, body, next(self.next))
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
