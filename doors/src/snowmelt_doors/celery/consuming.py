"""A consumer of kombu, and the thread that leases messages for it (rules 6, 9, 10 and 13)."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

import snowmelt
from snowmelt_doors.celery.inbox import UnheardMessage
from snowmelt_doors.celery.listening import PASSING, POLL_SECONDS
from snowmelt_doors.celery.messages import unpacked

_PAUSE: Final = 0.2
_LOG: Final = logging.getLogger(__name__)


class ChannelConsumer(msgspec.Struct, eq=False):
    """Who wants the messages of a queue, and on which channel."""

    channel: Any
    tag: str
    queue: str
    no_ack: bool
    callback: Callable[[Any], object]
    over: bool = False
    turn: threading.Lock = msgspec.field(default_factory=threading.Lock)
    """Of who leases for it, so that messages come in the order in which they were leased."""


class QueueReader:
    """Leases messages for one consumer, for as long as it wants them."""

    def __init__(self, consumer: ChannelConsumer, source: Any) -> None:
        self._consumer = consumer
        self._source = source
        self._waits = False
        threading.Thread(target=self._work, name="snowmelt-consumer", daemon=True).start()

    def _work(self) -> None:
        held, channel = self._consumer.channel.held, self._consumer.channel
        try:
            while not self._consumer.over:
                held.room(POLL_SECONDS)
                with self._consumer.turn:
                    room = held.room(0.0)  # there may be less by now
                    if room and not self._consumer.over:
                        self._lease(room)
        except snowmelt.Closed as error:
            if not channel.closed:
                channel.inbox.fail(error)
        except Exception as error:  # who drains hears of it
            channel.inbox.fail(error)

    def _lease(self, most: int) -> None:
        try:
            items = self._source.take(most, POLL_SECONDS)
        except snowmelt.Closed:
            raise
        except PASSING as error:
            if not self._waits:
                _LOG.warning("%s is waited for: %s", self._consumer.queue, error)
            self._waits = True
            time.sleep(_PAUSE)
            return
        except snowmelt.NoSuchQueue:
            self._source = self._consumer.channel.source(self._consumer.queue, anew=True)
            return
        if self._waits:
            _LOG.warning("%s is there again", self._consumer.queue)
            self._waits = False
        self._consumer.channel.arrived(self._consumer, items)


def delivery_of(consumer: ChannelConsumer | None, item: Any, tag: int) -> UnheardMessage | None:
    """What a consumer is to hear of an item; None for what nobody is to hear of."""
    try:
        message = unpacked(item.body)
    except (ValueError, RecursionError):  # the latter of what is nested too deep
        _LOG.warning("an item of %r is no message, and was set aside as dead", item.held[0])
        with suppress(snowmelt.SnowmeltError):
            item.nack(reason="no message of kombu", dead=True)
        return None
    if message.expired:
        with suppress(snowmelt.SnowmeltError):
            item.ack()
        return None
    return UnheardMessage(consumer, message, tag, redelivered=bool(item.failures))
