"""Exchanges and their bindings, kept in the cluster as the value of one baton: rule 11.

All programs change them in turn, each holding the baton for a moment. Each keeps a copy, which it
reads anew when it is a second old, or when a message has no way.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
from kombu.exceptions import ChannelError
from kombu.transport.virtual.exchange import TopicExchange

import snowmelt
from snowmelt.client.connection.forking import watch

BATON: Final = "kombu.exchanges"
FRESH_SECONDS: Final = 1.0
_TYPES: Final = ("direct", "topic", "fanout")
_TOPIC: Final = TopicExchange(None)


class Binding(msgspec.Struct, frozen=True, array_like=True):
    queue: str
    key: str


class ExchangeRecord(msgspec.Struct, frozen=True, array_like=True):
    """One exchange, as all programs see it."""

    type: str = "direct"
    durable: bool = True
    heard: bool = False
    """Whether a queue that is not stored was ever bound to it: it has a topic (rule 12)."""
    bindings: tuple[Binding, ...] = ()

    @property
    def on_topic(self) -> bool:
        """Whether its messages go on a topic, too."""
        return self.heard or not self.durable

    def queues(self, routing_key: str) -> list[str]:
        """Each stored queue that a message with this key goes to, once."""
        found = (one.queue for one in self.bindings if matches(self.type, one.key, routing_key))
        return list(dict.fromkeys(found))


Table = dict[str, ExchangeRecord]
_ENCODE: Final = msgspec.msgpack.encode
_DECODER: Final = msgspec.msgpack.Decoder(dict[str, ExchangeRecord])


def matches(kind: str, key: str, routing_key: str) -> bool:
    """Whether a binding with `key` takes a message with `routing_key`.

    >>> matches("topic", "task.*", "task.sent"), matches("fanout", "", "b")
    (True, True)
    """
    if kind == "fanout":
        return True
    if kind == "topic":
        return bool(_TOPIC._match(_TOPIC.key_to_pattern(key), routing_key))  # noqa: SLF001
    return key == routing_key


class Exchanges:
    """This program's view of them, and how it changes them; threads may share it."""

    def __init__(self, baton: Any, timeout: float) -> None:
        self._baton = baton
        self._timeout = timeout
        self._table: Table = {}
        self._read = -FRESH_SECONDS
        self.forked()
        watch(self)

    def forked(self) -> None:
        """A thread of the parent may have held it."""
        self._lock = threading.Lock()

    def all(self) -> Table:
        """All of them, as they were a second ago or later."""
        if time.monotonic() - self._read > FRESH_SECONDS:
            self.reload()
        return self._table

    def find(self, exchange: str) -> ExchangeRecord | None:
        """One of them, where it was declared by anyone."""
        found = self.all().get(exchange)
        if found is None:
            self.reload()
            found = self._table.get(exchange)
        return found

    def route(self, exchange: str, routing_key: str) -> tuple[ExchangeRecord, list[str]]:
        """Which way a message goes. Raises `ChannelError` when there is no such exchange."""
        found = self.find(exchange)
        if found is None:
            raise missing(exchange)
        queues = found.queues(routing_key)
        if not (queues or found.on_topic):
            self.reload()
            found = self._table.get(exchange, found)
            queues = found.queues(routing_key)
        return found, queues

    def declare(self, exchange: str, kind: str, durable: bool) -> None:
        """Makes it, if it is not there. Raises `ChannelError` when it is there as another type."""
        if kind not in _TYPES:
            told = f"NOT_IMPLEMENTED - exchange type {kind!r}; there are {', '.join(_TYPES)}"
            raise ChannelError(told, (40, 10), "Channel.exchange_declare", "540")

        def change(table: Table) -> None:
            there = table.setdefault(exchange, ExchangeRecord(kind, durable))
            if there.type != kind:
                told = f"PRECONDITION_FAILED - exchange {exchange!r} is of type {there.type!r}"
                raise ChannelError(told, (40, 10), "Channel.exchange_declare", "406")

        there = self.all().get(exchange)
        if there is None or there.type != kind:
            self._change(change)

    def delete(self, exchange: str) -> None:
        self._change(lambda table: table.pop(exchange, None))

    def bind(self, exchange: str, queue: str, key: str) -> None:
        """Messages of this exchange with this key go to this stored queue."""
        one = Binding(queue, key)

        def change(table: Table) -> None:
            there = table.get(exchange)
            if there is None:
                raise missing(exchange)
            if one not in there.bindings:
                bindings = (*there.bindings, one)
                table[exchange] = msgspec.structs.replace(there, bindings=bindings)

        there = self.all().get(exchange)
        if there is None or one not in there.bindings:
            self._change(change)

    def hear(self, exchange: str) -> None:
        """Its messages go on its topic from now on."""

        def change(table: Table) -> None:
            there = table.get(exchange)
            if there is None:
                raise missing(exchange)
            table[exchange] = msgspec.structs.replace(there, heard=True)

        there = self.all().get(exchange)
        if there is None or not there.heard:
            self._change(change)

    def unbind(self, queue: str, exchange: str | None = None, key: str | None = None) -> None:
        """Removes the bindings of a queue: one, those to an exchange, or all."""

        def stays(name: str, one: Binding) -> bool:
            other = exchange is not None and name != exchange
            return one.queue != queue or other or (key is not None and one.key != key)

        def change(table: Table) -> None:
            for name, there in table.items():
                left = tuple(one for one in there.bindings if stays(name, one))
                if left != there.bindings:
                    table[name] = msgspec.structs.replace(there, bindings=left)

        table = self.all().items()
        if not all(stays(name, one) for name, there in table for one in there.bindings):
            self._change(change)

    def reload(self) -> None:
        """Reads them anew."""
        self._change(len)

    def _change(self, change: Callable[[Table], object]) -> None:
        with self._baton.acquire(self._timeout) as held:
            table = _DECODER.decode(held.value) if held.value else {}
            before = dict(table)
            change(table)
            if table != before:
                held.save(_ENCODE(table), timeout=self._timeout)
        with self._lock:
            self._table, self._read = table, time.monotonic()


def missing(exchange: str) -> Exception:
    told = f"NOT_FOUND - no exchange {exchange!r}"
    error: Exception = ChannelError(told, (50, 10), "Channel.exchange_declare", "404")
    return error


def exchanges_of(cluster: snowmelt.Cluster, timeout: float) -> Exchanges:
    return Exchanges(cluster.baton(BATON, timeout), timeout)
