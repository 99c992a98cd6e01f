"""The calls of `snowmelt`, with `await`; `statistics` is on the blocking cluster alone."""

import asyncio
from types import TracebackType
from typing import Self, Unpack

from snowmelt.client.baton.face_async import Baton, Held, Keeper
from snowmelt.client.baton.steps import TURN_SECONDS
from snowmelt.client.connection.asynchronous import AsyncClient
from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import run_async
from snowmelt.client.connection.url import read
from snowmelt.client.counter.face_async import Counter
from snowmelt.client.counter.tally import counter_baton
from snowmelt.client.embedded.face_async import EmbeddedCluster, open  # noqa: A004
from snowmelt.client.fifo.face_async import Fifo
from snowmelt.client.leases.items_async import Item, Items
from snowmelt.client.leases.steps import Seen
from snowmelt.client.multicast.face_async import Multicast, Subscription
from snowmelt.client.multicast.steps import TopicSteps
from snowmelt.client.pool.face_async import Pool
from snowmelt.client.pool.objects_async import Object, Objects
from snowmelt.client.pool.options import PoolOptions
from snowmelt.client.pool.parts import Parts
from snowmelt.client.pool.status import pools
from snowmelt.client.priority.face_async import PriorityQueue
from snowmelt.client.queue.codecs import codec_of
from snowmelt.client.queue.queues_async import Queues
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.names import node_id
from snowmelt.protocols.echo import Echo
from snowmelt.protocols.membership import Forget, GetStatus, Status
from snowmelt.protocols.pool.introductions import PoolStatus

__all__ = [
    "Baton",
    "Cluster",
    "Counter",
    "EmbeddedCluster",
    "Fifo",
    "Held",
    "Item",
    "Items",
    "Multicast",
    "Object",
    "Objects",
    "Pool",
    "PriorityQueue",
    "Seen",
    "Subscription",
    "connect",
    "open",
]


class Cluster(Queues):
    """A connection to a cluster, for one event loop. Close it, or use it in an `async with`.

    Any number of calls may wait at once.
    """

    __reduce__ = stays("send the URL, and connect there")

    def __init__(self, url: str, token: str | None = None) -> None:
        self._place = read(url, token)
        self._queues = self._client = AsyncClient(self._place)
        self._parts = Parts()
        self._keeper = Keeper(self._client)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except SnowmeltError as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # what went wrong first is what is to be told

    async def close(self) -> None:
        """Leaves the pools in order, and ends the connections."""
        try:
            await asyncio.to_thread(self._parts.close)
        finally:
            self._keeper.lose()
            await self._client.close()

    def pool(self, name: str, *, codec: str | None = None, **options: Unpack[PoolOptions]) -> Pool:
        """This process' part in a pool; as `snowmelt.Cluster.pool`."""
        written = codec_of(codec)
        return Pool(self._parts.join(name, self._place, **options), written)

    def baton(self, name: str, timeout: float = TURN_SECONDS) -> Baton:
        """A lock that heals, whose holder carries a value; as `snowmelt.Cluster.baton`."""
        return Baton(self._client, self._keeper, name, timeout)

    def counter(self, name: str, timeout: float = TURN_SECONDS) -> Counter:
        """Numbers that no two programs get; `timeout` is how long a turn is waited for."""
        return Counter(self.baton(counter_baton(name), timeout))

    def multicast(self, name: str) -> Multicast:
        """A topic: all who listen hear the same in one order; as `snowmelt.Cluster.multicast`."""
        return Multicast(self._client, TopicSteps(self._keeper.home, name))

    async def pools(self, *, timeout: float = TIMEOUT) -> list[PoolStatus]:
        """All pools that somebody is in."""
        return await run_async(self._client, pools(timeout))

    async def ping(self, body: bytes = b"", *, timeout: float = TIMEOUT) -> bytes:
        """Sends bytes to a node and gets them back."""
        answer: bytes = (await self._client.call(Echo(body), timeout)).body
        return answer

    async def status(self, *, timeout: float = TIMEOUT) -> Status:
        """How the node that answers sees the cluster."""
        status: Status = await self._client.call(GetStatus(), timeout)
        return status

    async def forget(self, node: str, *, timeout: float = TIMEOUT) -> None:
        """Frees the id of an absent node, so that a node with an empty disk may take it."""
        await self._client.call(Forget(node_id(node)), timeout)


def connect(url: str, *, token: str | None = None) -> Cluster:
    """Opens a cluster by its URL; the connection itself is made with the first call.

    >>> import asyncio, snowmelt.aio
    >>> async def nobody_there():
    ...     async with snowmelt.aio.connect("snowmelt://127.0.0.1:1") as cluster:
    ...         await cluster.ping(timeout=0.2)
    >>> asyncio.run(nobody_there())
    Traceback (most recent call last):
    snowmelt.core.errors.Unreachable: no node could be reached in the time given...
    """
    return Cluster(url, token)
