"""A channel of kombu: declares, publishes, consumes and acknowledges."""

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from amqp.protocol import queue_declare_ok_t
from kombu.exceptions import ChannelError, OperationalError
from kombu.transport import virtual
from kombu.transport.base import to_rabbitmq_queue_arguments
from kombu.utils.uuid import uuid

import snowmelt
from snowmelt_doors.celery.consuming import ChannelConsumer, QueueReader, delivery_of
from snowmelt_doors.celery.exchanges import Exchanges, missing
from snowmelt_doors.celery.held import HeldMessages
from snowmelt_doors.celery.inbox import Inbox, UnheardMessage
from snowmelt_doors.celery.listening import PASSING, Listeners
from snowmelt_doors.celery.messages import StoredMessage, TopicMessage, packed, stored
from snowmelt_doors.celery.naming import topic_of
from snowmelt_doors.celery.queues import StoredQueues

_EXPIRES: Final = "x-expires"
_AGAIN: Final = "an acknowledgement is said again until a node answers: %s"
_LOG: Final = logging.getLogger(__name__)


class Channel(virtual.Channel):
    """What kombu asks for goes to the cluster; what is leased here is this channel's."""

    supports_fanout = True

    def __init__(self, connection: Any, **options: Any) -> None:
        self.closed = False
        super().__init__(connection, **options)
        self.inbox: Inbox = connection.inbox
        self._exchanges: Exchanges = connection.exchanges
        self._listeners: Listeners = connection.listeners
        self._queues: StoredQueues = connection.queues
        self._cluster: snowmelt.Cluster = connection.cluster
        self._next_tag = connection.next_tag
        self._pid = os.getpid()
        self.held = HeldMessages()
        self._arriving = threading.Lock()  # of messages, or the end of their consumer
        self._sources: dict[str, Any] = {}
        self._by_tag: dict[str, ChannelConsumer] = {}
        self._passing: dict[str, bool] = {}
        """Queues that end with the program, as far as they were declared here; whether they
        have an expiry."""

    # --- exchanges and queues ---------------------------------------------------------------------

    def prepare_queue_arguments(self, arguments: Any, **options: Any) -> Any:
        return to_rabbitmq_queue_arguments(arguments, **options)

    def exchange_declare(
        self,
        exchange: str | None = None,
        type: str = "direct",
        durable: bool = False,
        auto_delete: bool = False,
        arguments: Any = None,
        nowait: bool = False,
        passive: bool = False,
    ) -> None:
        """Makes an exchange, or, with `passive`, asks whether it is there."""
        kind = type or "direct"
        name = exchange or f"amq.{kind}"
        if not passive:
            self._exchanges.declare(name, kind, durable)
        elif self._exchanges.find(name) is None:
            raise missing(name)

    def exchange_delete(self, exchange: str, if_unused: bool = False, nowait: bool = False) -> None:
        found = self._exchanges.find(exchange)
        if found is not None and not (if_unused and found.bindings):
            self._exchanges.delete(exchange)

    def queue_declare(
        self,
        queue: str | None = None,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Any = None,
        **options: Any,
    ) -> Any:
        """Makes a queue; says how many messages are ready in it."""
        name = queue or f"amq.gen-{uuid()}"
        listening = self._listeners.find(name)
        if listening is not None:
            return queue_declare_ok_t(name, len(listening), int(listening.consumer is not None))
        if passive:
            try:
                return queue_declare_ok_t(name, self._queues.size(name, made=False), 0)
            except snowmelt.NoSuchQueue:
                told = f"NOT_FOUND - no queue {name!r}"
                raise ChannelError(told, (50, 10), "Channel.queue_declare", "404") from None
        if not durable and (auto_delete or exclusive):
            self._passing[name] = exclusive or (arguments or {}).get(_EXPIRES) is not None
            return queue_declare_ok_t(name, 0, 0)  # rule 12: its bindings say what it is
        self._passing.pop(name, None)
        return queue_declare_ok_t(name, self._queues.size(name), 0)

    def queue_bind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,
        **options: Any,
    ) -> None:
        """Messages of the exchange with this key go to the queue from now on."""
        name = exchange or "amq.direct"
        found = self._exchanges.find(name)
        if found is None:
            raise missing(name)
        key, ends = routing_key or "", self._passing.get(queue)
        if ends is not None and (ends or found.type != "direct"):
            self._exchanges.hear(name)
            self._listeners.bind(queue, self, name, found.type, key)
        else:
            self._queues.take(queue)
            self._exchanges.bind(name, queue, key)

    def queue_unbind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,
        **options: Any,
    ) -> None:
        name, key = exchange or "amq.direct", routing_key or ""
        listening = self._listeners.find(queue)
        if listening is not None:
            there = listening.bindings
            listening.bindings = [one for one in there if (one[0], one[2]) != (name, key)]
        else:
            self._exchanges.unbind(queue, name, key)

    def list_bindings(self) -> Iterator[tuple[str, str, str]]:
        """Each queue, its exchange, and the key."""
        for name, there in self._exchanges.all().items():
            for one in there.bindings:
                yield one.queue, name, one.key

    def queue_delete(
        self, queue: str, if_unused: bool = False, if_empty: bool = False, **options: Any
    ) -> None:
        """Removes a queue, with what is in it and its bindings."""
        self._passing.pop(queue, None)
        if self._listeners.find(queue) is not None:
            self._listeners.drop(queue)
        elif self._queues.delete(queue, if_empty=if_empty):
            self._exchanges.unbind(queue)

    def queue_purge(self, queue: str, **options: Any) -> int:
        listening = self._listeners.find(queue)
        return self._queues.purge(queue) if listening is None else listening.clear()

    # --- publishing -------------------------------------------------------------------------------

    def basic_publish(
        self, message: dict[str, Any], exchange: str, routing_key: str, **options: Any
    ) -> None:
        """Returns when each queue has it that it goes to (rule 3)."""
        message["properties"].setdefault("delivery_info", {}).update(
            exchange=exchange, routing_key=routing_key
        )
        kept = stored(message)
        try:
            if exchange:
                self._route(kept, exchange, routing_key or "")
            else:
                self._queues.put(routing_key, kept)
        except snowmelt.OutcomeUnknown as error:
            raise OperationalError(f"the message may be in the queue, or not: {error}") from error

    def _route(self, message: StoredMessage, exchange: str, routing_key: str) -> None:
        found, queues = self._exchanges.route(exchange, routing_key)
        for queue in queues:
            self._queues.put(queue, message)
        if found.on_topic:
            body = packed(TopicMessage(routing_key, message))
            self._cluster.multicast(topic_of(exchange)).publish(body)

    # --- consuming --------------------------------------------------------------------------------

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Any, consumer_tag: str, **options: Any
    ) -> None:
        """Has the callback hear of each message of the queue."""
        consumer = ChannelConsumer(self, consumer_tag, queue, bool(no_ack), callback)
        self._by_tag[consumer_tag] = consumer
        self._consumers.add(consumer_tag)
        listening = self._listeners.find(queue)
        if listening is not None:
            self._listeners.consume(listening, consumer)
        else:
            QueueReader(consumer, self.source(queue))

    def basic_cancel(self, consumer_tag: str) -> None:
        """Nothing more comes for this consumer; what it heard of stays leased (rule 9)."""
        consumer = self._by_tag.pop(consumer_tag, None)
        self._consumers.discard(consumer_tag)
        if consumer is None:
            return
        with self._arriving:
            consumer.over = True
        self.held.wake()
        self._listeners.cancel(consumer)
        unheard = [one.tag for one in self.inbox.remove(lambda one: one.consumer is consumer)]
        for item in self.held.take_back(unheard):
            with suppress(snowmelt.SnowmeltError):  # then when the channel is closed
                item.release()

    def basic_get(self, queue: str, no_ack: bool = False, **options: Any) -> Any:
        """The next message; None when there is none."""
        listening = self._listeners.find(queue)
        if listening is not None:
            message = listening.pop()
            one = None if message is None else UnheardMessage(None, message, self._next_tag())
        else:
            one = self._got(queue, no_ack)
        return None if one is None else message_of(self, one)

    def _got(self, queue: str, no_ack: bool) -> UnheardMessage | None:
        while items := self.source(queue).take(1, 0.0):
            tag, item = self._next_tag(), items[0]
            one = delivery_of(None, item, tag)
            if one is None:
                continue
            if no_ack:
                acknowledge(item)
            else:
                self.held.add(tag, item)
            return one
        return None

    def basic_qos(
        self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False
    ) -> None:
        """No more messages than this are leased at a time; 0 is no limit (rule 10)."""
        self.held.limit(prefetch_count or 0)

    def arrived(self, consumer: ChannelConsumer, items: list[Any]) -> None:
        """These were leased for a consumer; what came too late goes back."""
        came = []
        for item in items:
            tag = self._next_tag()
            one = delivery_of(consumer, item, tag)
            if one is not None:
                came.append((one, item))
        with self._arriving:
            late = consumer.over or self.closed
            if not late:
                for one, item in came:
                    self.held.add(one.tag, item, consumer)
                self.inbox.put(one for one, _ in came)  # all at once, as they came
        if late:
            for _, item in came:
                with suppress(snowmelt.SnowmeltError):
                    item.release()

    def hand_out(self, delivery: UnheardMessage) -> None:
        """Has the consumer hear of a message."""
        consumer: ChannelConsumer = delivery.consumer
        if consumer.no_ack:
            self.basic_ack(delivery.tag)
        consumer.callback(message_of(self, delivery))

    # --- what became of it ------------------------------------------------------------------------

    def basic_ack(self, delivery_tag: int, multiple: bool = False) -> None:
        """It is done, and the cluster knows it (rule 7)."""
        if multiple:
            for item in self.held.settle(delivery_tag, multiple=True):
                acknowledge(item)
        elif (found := self.held.swap(delivery_tag)) is not None:
            try:
                self._swap(*found)
            finally:
                self.held.swapped()

    def _swap(self, item: Any, consumer: ChannelConsumer | None, room: int) -> None:
        """It is acknowledged; what is leased with the same call comes in its place (rule 10)."""
        others = len(self._by_tag) > 1  # which wait for the place, too
        if consumer is None or consumer.over or others or not room:
            acknowledge(item)
            return
        if not consumer.turn.acquire(blocking=False):
            acknowledge(item)
            return
        try:
            items = self.source(consumer.queue).swap(item, room)
            if items:
                self.arrived(consumer, items)
        except PASSING as error:
            _LOG.warning(_AGAIN, error)
        finally:
            consumer.turn.release()

    def basic_reject(self, delivery_tag: int, requeue: bool = False) -> None:
        """Back to its place, or dead (rule 8)."""
        for item in self.held.settle(delivery_tag):
            item.nack(reason="requeued" if requeue else "rejected", dead=not requeue)

    def basic_recover(self, requeue: bool = False) -> None:
        """All that is not acknowledged goes back, as if it had not been taken."""
        for item in self.held.take_all():
            item.release()

    # --- its end ----------------------------------------------------------------------------------

    def source(self, queue: str, *, anew: bool = False) -> Any:
        """What leases messages of a queue; anew when it was deleted since."""
        if anew:
            self._queues.forget(queue)
            self._sources.pop(queue, None)
        source = self._sources.get(queue)
        if source is None:
            source = self._sources[queue] = self._queues.take(queue).intake(1)
        return source

    def close(self) -> None:
        """Gives back what was not acknowledged, and ends what ends with it (rule 9)."""
        if self.closed:
            return
        if self._pid != os.getpid():  # it is its parent's (rule 14)
            self.closed = True
            return
        for tag in list(self._by_tag):
            self.basic_cancel(tag)
        self.closed = True
        self.held.close()
        for source in self._sources.values():
            source.close()
        self._sources.clear()
        self._listeners.drop_of(self)
        if self.connection is not None:
            self.connection.close_channel(self)
        self.exchange_types = None


def message_of(channel: Channel, delivery: UnheardMessage) -> Any:
    """What a program of kombu gets."""
    message = delivery.message
    told = dict(message.properties.get("delivery_info") or {})
    told["redelivered"] = delivery.redelivered
    properties = {**message.properties, "delivery_tag": delivery.tag, "delivery_info": told}
    raw = {
        "body": message.body,
        "content-type": message.content_type,
        "content-encoding": message.content_encoding,
        "headers": message.headers,
        "properties": properties,
    }
    return channel.Message(raw, channel=channel)


def acknowledge(item: Any) -> None:
    """It is done; when no node answers, that is said again until one does."""
    try:
        item.ack(wait=True)
    except PASSING as error:
        _LOG.warning(_AGAIN, error)
        item.ack()
