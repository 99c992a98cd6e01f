"""RabbitMQ: a quorum queue of one member, or of one on each of several nodes; tasks use aio-pika.

pika's connection without a thread of its own: many publishes, then one wait for their confirms. The
server pushes items ahead of the acknowledgements, as many as the prefetch allows; one
acknowledgement covers a batch, and the protocol has no answer to it.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pika
from benchmarks.peers import cores
from benchmarks.peers.comparison import WAIT_SECONDS
from benchmarks.peers.fifo.clients import QueuePeer
from benchmarks.peers.fifo.rabbitmq_aio import connect_tasks
from benchmarks.peers.servers.rabbitmq import RabbitMQ
from pika.adapters.select_connection import SelectConnection
from pika.channel import Channel
from pika.frame import Method

QUORUM: Final = {"x-queue-type": "quorum"}
LASTING: Final = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)
GATHERING: Final = 0.05  # several clients may each have a part of what is left, and wait for more
PREFETCH_MAX: Final = 2000  # a quorum queue refuses more


def quorum(name: str, nodes: int = 1) -> QueuePeer:
    return QueuePeer(
        name=name,
        promise="flushes before it answers" + (f" on {nodes} nodes" if nodes > 1 else ""),
        service=RabbitMQ(cores.SERVER, nodes),
        client=RabbitClient,
        tasks=partial(connect_tasks, arguments=QUORUM),
    )


class RabbitClient:
    """Runs pika's loop until what it waits for has come."""

    arguments: Mapping[str, object] = QUORUM
    """Of the queue."""

    def __init__(self, port: int, queue: str, batch: int) -> None:
        self.queue = queue
        # The next batch is on its way while one is acknowledged; a single call waits for its own.
        self.prefetch = min(2 * batch, PREFETCH_MAX) if batch > 1 else 1
        self.published = 0
        self.waiting: set[int] = set()
        self.arrived: deque[int] = deque()
        self.consumer = ""
        self.opened: list[Channel] = []
        self.answers: list[Method] = []
        self.failure: object = None
        self.enough: Callable[[], bool] = lambda: False
        self.connection = SelectConnection(
            pika.ConnectionParameters("127.0.0.1", port, heartbeat=0),
            on_open_callback=lambda link: link.channel(on_open_callback=self._has_opened),
            on_open_error_callback=self._has_failed,
            on_close_callback=self._has_failed,
        )
        self._run_until(lambda: bool(self.opened))
        self.channel = self.opened[0]
        self.channel.add_on_close_callback(self._has_failed)
        self._ask(self.channel.confirm_delivery, self._is_confirmed)
        arguments = dict(self.arguments)
        self._ask(self.channel.queue_declare, queue, durable=True, arguments=arguments)
        self._ask(self.channel.basic_qos, prefetch_count=self.prefetch)

    def put(self, bodies: list[bytes]) -> None:
        if self.consumer:
            self._ask(self.channel.basic_cancel, self.consumer)
            self.consumer = ""
        self.waiting = set(range(self.published + 1, self.published + len(bodies) + 1))
        self.published += len(bodies)
        for body in bodies:
            self.channel.basic_publish("", self.queue, body, self.properties())
        self._run_until(lambda: not self.waiting)

    def properties(self) -> pika.BasicProperties:
        """Of the next item."""
        return LASTING

    def take(self, count: int) -> int:
        if not self.consumer:
            self.consumer = self.channel.basic_consume(self.queue, self._has_arrived)
        self._run_until(lambda: bool(self.arrived))
        self._run_for(GATHERING, lambda: len(self.arrived) >= count)
        count = min(count, len(self.arrived))
        last = [self.arrived.popleft() for _ in range(count)][-1]
        self.channel.basic_ack(last, multiple=True)
        return count

    def settle(self) -> None:
        """Every call has settled what it took; what came ahead goes back, for the other clients."""
        if self.consumer:
            self._ask(self.channel.basic_cancel, self.consumer)
            self.consumer = ""
        while self.arrived:
            self.channel.basic_nack(self.arrived.popleft(), requeue=True)
        self._ask(self.channel.basic_qos, prefetch_count=self.prefetch)  # its answer comes behind

    def close(self) -> None:
        self._ask(self.channel.queue_delete, self.queue)
        self.enough = lambda: self.connection.is_closed
        self.connection.close()
        self.connection.ioloop.start()

    def _ask(self, method: Callable[..., object], *values: object, **options: object) -> None:
        """Calls a method of the channel and waits for the server's answer."""
        self.answers.clear()
        method(*values, callback=self._has_answered, **options)
        self._run_until(lambda: bool(self.answers))

    def _run_until(self, enough: Callable[[], bool]) -> None:
        if enough():
            return
        loop = self.connection.ioloop
        self.enough = enough
        alarm = loop.call_later(WAIT_SECONDS, partial(self._has_failed, None, "no answer in time"))
        loop.start()
        loop.remove_timeout(alarm)
        self._check()

    def _run_for(self, seconds: float, enough: Callable[[], bool]) -> None:
        """Until it is enough, and no longer than so."""
        if enough():
            return
        loop = self.connection.ioloop
        self.enough = enough
        alarm = loop.call_later(seconds, loop.stop)
        loop.start()
        loop.remove_timeout(alarm)
        self._check()

    def _check(self) -> None:
        if self.failure is not None:
            raise RuntimeError(f"RabbitMQ: {self.failure}")

    def _stop_when_enough(self) -> None:
        if self.failure is not None or self.enough():
            self.connection.ioloop.stop()

    def _has_opened(self, channel: Channel) -> None:
        self.opened.append(channel)
        self._stop_when_enough()

    def _has_answered(self, answer: Method) -> None:
        self.answers.append(answer)
        self._stop_when_enough()

    def _is_confirmed(self, confirm: Method) -> None:
        if isinstance(confirm.method, pika.spec.Basic.Nack):
            self.failure = "a publish was refused"
        tag = confirm.method.delivery_tag
        if confirm.method.multiple:
            self.waiting = {one for one in self.waiting if one > tag}
        else:
            self.waiting.discard(tag)
        self._stop_when_enough()

    def _has_arrived(self, _: Channel, delivery: Any, *_what: object) -> None:
        self.arrived.append(delivery.delivery_tag)
        self._stop_when_enough()

    def _has_failed(self, _: object, why: object) -> None:
        self.failure = why
        self._stop_when_enough()
