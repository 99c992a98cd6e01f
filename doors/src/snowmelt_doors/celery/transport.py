"""A connection of kombu: a client of the cluster, and what came for its channels."""

import os
from itertools import count
from typing import Any, Final

from kombu.transport import base, virtual

import snowmelt
from snowmelt.core.errors import MachineError, PeerError
from snowmelt_doors.celery.channel import Channel
from snowmelt_doors.celery.exchanges import Exchanges, exchanges_of
from snowmelt_doors.celery.inbox import Inbox
from snowmelt_doors.celery.listening import Listeners
from snowmelt_doors.celery.queues import StoredQueues

DEFAULT_PORT: Final = 4410
TIMEOUT: Final = 10.0
_GONE: Final = (
    snowmelt.Unreachable,
    snowmelt.Unavailable,
    snowmelt.NotGranted,
    MachineError,
    PeerError,
    OSError,
)


class SnowmeltTransport(virtual.Transport):
    """`snowmelt://HOST:PORT[,HOST:PORT…]`, as `snowmelt.connect` has it.

    Options are `transport_options` of kombu: `token` and `user`, `timeout` in seconds of each call,
    and `queue_options`, the settings with which queues are made (`lease`, `max_deliveries`, …).
    """

    Channel = Channel
    can_parse_url = True
    default_port = DEFAULT_PORT
    driver_type = "snowmelt"
    driver_name = "snowmelt"
    connection_errors = (
        *base.Transport.connection_errors,
        *_GONE,
        snowmelt.OutcomeUnknown,
        snowmelt.LeaseLost,
        snowmelt.BatonLost,
    )
    channel_errors = (
        *base.Transport.channel_errors,
        snowmelt.NoSuchQueue,
        snowmelt.QueueExists,
        snowmelt.Full,
        snowmelt.TooLarge,
    )
    recoverable_connection_errors = (*base.Transport.connection_errors, *_GONE)
    recoverable_channel_errors = (snowmelt.Full,)
    implements = virtual.Transport.implements.extend(
        asynchronous=True,
        exchange_type=frozenset(["direct", "topic", "fanout"]),
        heartbeats=False,
    )

    cluster: snowmelt.Cluster
    exchanges: Exchanges
    listeners: Listeners
    queues: StoredQueues
    inbox: Inbox

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        self.next_tag = count(1).__next__
        self._open_in = 0
        self._loop_reads: int | None = None

    def establish_connection(self) -> "SnowmeltTransport":
        """Connects, and says so when no node answers."""
        options = self.client.transport_options
        timeout = float(options.get("timeout", TIMEOUT))
        url = url_of(self.client)
        cluster = snowmelt.connect(url, token=options.get("token"), user=options.get("user"))
        try:
            cluster.ping(timeout=_reach_seconds(self.client, timeout))
        except BaseException:
            cluster.close()
            raise
        self.cluster = cluster
        self.inbox = Inbox()
        self.exchanges = exchanges_of(cluster, timeout)
        self.listeners = Listeners(cluster, self.inbox, self.next_tag)
        self.queues = StoredQueues(cluster, dict(options.get("queue_options") or {}), timeout)
        self._open_in = os.getpid()
        return self

    def close_connection(self, connection: "SnowmeltTransport") -> None:
        """Closes its channels, and what it has open; in a child it leaves its parent's alone."""
        if not connection.here:
            self.channels.clear()
            return
        self._open_in = 0
        try:
            for channel in list(self.channels):
                channel.close()
        finally:
            self.listeners.close()
            self.cluster.close()
            self.inbox.close()

    @property
    def here(self) -> bool:
        """Whether it is open, in this process."""
        return self._open_in == os.getpid()

    def verify_connection(self, connection: "SnowmeltTransport") -> bool:
        return connection.here

    def drain_events(self, connection: "SnowmeltTransport", timeout: float | None = None) -> None:
        """Hands out all that came, waiting for the first; raises `socket.timeout`."""
        came = self.inbox.take(timeout)
        if not came:
            raise TimeoutError("no message came in the time given")
        for at, one in enumerate(came):
            try:
                if not one.consumer.channel.closed:  # by the callback of one before
                    one.consumer.channel.hand_out(one)
            except BaseException:
                self.inbox.put_back(came[at + 1 :])
                raise

    def register_with_event_loop(self, connection: "SnowmeltTransport", loop: Any) -> None:
        """Has the loop of Celery drain what comes."""
        self._loop_reads = self.inbox.descriptor()
        loop.add_reader(self._loop_reads, self.on_readable, connection, loop)

    def unregister_from_event_loop(self, connection: "SnowmeltTransport", loop: Any) -> None:
        if self._loop_reads is not None:
            loop.remove_reader(self._loop_reads)
            self._loop_reads = None

    def on_readable(self, connection: "SnowmeltTransport", loop: Any) -> None:
        """Something came."""
        try:
            self.drain_events(connection, timeout=0)
        except TimeoutError:
            return

    def driver_version(self) -> str:
        return snowmelt.__version__

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        """The same URL: there is no secret in it."""
        return uri


def _reach_seconds(client: Any, timeout: float) -> float:
    """How long a node is waited for; of several URLs each has a part of it."""
    whole = float(client.connect_timeout or timeout)
    return whole / 4 if len(client.alt) > 1 else whole


def url_of(client: Any) -> str:
    """Where a connection of kombu goes; after a failover kombu has taken its URL apart."""
    host = client.hostname or "localhost"
    if "://" in host:
        return str(host)
    path = (client.virtual_host or "").strip("/")
    return f"snowmelt://{host}:{client.port or DEFAULT_PORT}" + (f"/{path}" if path else "")
