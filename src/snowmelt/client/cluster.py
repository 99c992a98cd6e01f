# Made of cluster_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""A cluster as a program sees it; blocking."""

from typing import Unpack

import msgspec

from snowmelt.client.baton.renewer import HoldRenewer
from snowmelt.client.connection.clients import Clients
from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import run
from snowmelt.client.connection.url import read
from snowmelt.client.leases.steps import checked_flag
from snowmelt.client.pool.face import Pool
from snowmelt.client.pool.open_pools import OpenPools
from snowmelt.client.pool.options import PoolOptions
from snowmelt.client.pool.status import pools
from snowmelt.client.queue.codecs import codec_of
from snowmelt.client.queue.draining import drain
from snowmelt.client.queue.overviews import WhoIsHere, members
from snowmelt.client.queue.queues import Queues
from snowmelt.core.names import node_id
from snowmelt.protocols.echo import Echo, Echoed
from snowmelt.protocols.membership import Forget, GetStatus, Status
from snowmelt.protocols.pool.introductions import PoolStatus
from snowmelt.protocols.queue.api.drains import Drained
from snowmelt.runtime.statistics import NodeStatistics


class Cluster(Queues):
    """A connection to a cluster, made by `snowmelt.connect`.

    Close it, or use it in a `with`. Every call takes a `timeout` in seconds and never waits
    longer. Threads may share a cluster: any number of calls may wait at once.
    """

    __reduce__ = stays("send the URL, and connect there")

    def __init__(self, url: str, token: str | None = None, user: str | None = None) -> None:
        self._place = read(url, token, user)
        self._client = Clients(self._place)
        super().__init__(self._client, HoldRenewer(self._client))
        self._parts = OpenPools()

    def __repr__(self) -> str:
        return f"Cluster({', '.join(map(str, self._place.addresses))})"

    def close(self) -> None:
        """Ends the loops over queues, leaves the pools as `Pool.close` does, and disconnects.

        A baton that is held still is lost, and with it a value that was set and not saved.
        """
        try:
            self._parts.close()
        finally:
            self._renewer.lose()
            self._client.close()

    @property
    def identity(self) -> str:
        """Of which cluster its nodes are, once one was reached; another is refused from then on.

        `?cluster=` and this in a URL refuses another from the first call on.
        """
        return self._place.known.identity

    def pool(self, name: str, *, codec: str | None = None, **options: Unpack[PoolOptions]) -> Pool:
        """This process' part in a pool: objects in any order, that stay where they were made.

        For a process that puts: a put waits once `buffers` objects or `max_bytes` bytes are kept.
        `spill` keeps them in a folder as well (its path, or True for NAME.spill here), so that they
        survive this process. `producer` is its name, for others' `access` and statistics.

        For one that gets: a request asks up to `max_hops` producers before it waits in line, and
        after `wait` seconds all are asked. `access` is "adaptive" (as likely as a producer is
        fast), "uniform", or weights by producers' names. `fan_out` is how many producers it may
        know. `delivery` is "at_least_once", or "at_most_once".

        What was got is offered again when this process was not heard of for `lease` seconds, or for
        `grace` after the way to it has ended. `listen` and `advertise` (HOST:PORT) say where others
        reach it. `codec` is how values become bodies, as `fifo` has it.
        """
        written = codec_of(codec)
        return Pool(self._parts.join(name, self._place, **options), written)

    def _who_is_here(self) -> WhoIsHere:
        return members

    def pools(self, *, timeout: float = TIMEOUT) -> list[PoolStatus]:
        """All pools that somebody is in."""
        return run(self._client, pools(timeout))

    def ping(self, body: bytes = b"", *, timeout: float = TIMEOUT) -> bytes:
        """Sends bytes to a node and gets them back."""
        echoed: Echoed = self._client.call(Echo(body), timeout)
        return echoed.body

    def status(self, *, timeout: float = TIMEOUT) -> Status:
        """How the node that answers sees the cluster."""
        status: Status = self._client.call(GetStatus(), timeout)
        return status

    def forget(self, node: str, *, timeout: float = TIMEOUT) -> None:
        """Frees the id of an absent node, so that a node with an empty disk may take it."""
        self._client.call(Forget(node_id(node)), timeout)

    def drain(self, node: str, *, undo: bool = False, timeout: float = TIMEOUT) -> Drained:
        """Has a node hand over all its queues while it runs; returns at once how far it is.

        Others lead its queues from then on, and what only it has is copied. Ask again until it is
        `empty`: then it may be stopped, and its disk may go. It is given nothing more until it
        starts anew, or until this is undone. What needs as many nodes as there are stays there, and
        is counted as `stuck`, until another node joins.
        """
        steps = drain(node_id(node), checked_flag("undo", undo), timeout)
        return run(self._client, steps)

    def statistics(self, *, timeout: float = TIMEOUT) -> NodeStatistics:
        """How the process that answers is: connections, counts, what was closed and dropped."""
        told = self._client.inquire(timeout)
        return msgspec.json.decode(told, type=NodeStatistics)


def connect(url: str, *, token: str | None = None, user: str | None = None) -> Cluster:
    """Opens a cluster by its URL; a connection is made with the first call.

    >>> import snowmelt
    >>> snowmelt.connect("http://127.0.0.1")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: url is 'http://127.0.0.1'; allowed: snowmelt://HOST:PORT...
    """
    return Cluster(url, token, user)
