"""A message of a FIFO queue that is sent twice within five minutes is there once.

1. Who sends a message first puts a *claim* into a queue of ours beside it, under its deduplication
   id, unique for five minutes. Whoever sends under this id in that time finds the same claim.
2. The message is put under the claim's position as its number (`producer`), which puts it once.
   Who finds another's claim puts the message under that number, too: that door may have died in
   between.
3. A message's id is made of that number, so all who send it know it.
4. Claims are kept for less than five minutes: what is still in a queue stays unique for longer.
"""

import uuid
from hashlib import blake2b
from typing import Final

from snowmelt.aio import Cluster, EmbeddedCluster, Fifo
from snowmelt.core.errors import QueueExists

WINDOW: Final = 300.0
KEPT: Final = 60.0
_NAMES: Final = uuid.UUID("0a6dc1cb-7e9c-4e55-8a50-62d8a3a1f4cd")


class Deduplication:
    """The claims of all queues."""

    def __init__(self, cluster: Cluster | EmbeddedCluster) -> None:
        self._cluster = cluster
        self._claims: dict[str, Fifo] = {}

    async def number(self, uid: str, key: str) -> int:
        """Of a message that is sent under this id, in the queue with this name for itself."""
        claims = self._claims.get(uid)
        if claims is None:
            claims = self._claims[uid] = await self._made(log_of(uid))
        name = blake2b(key.encode(), digest_size=32).digest()
        return int(await claims.put(b"", unique=name, unique_for=WINDOW))

    async def _made(self, name: str) -> Fifo:
        try:
            await self._cluster.fifo(name, retention=KEPT).create()
        except QueueExists:
            await self._cluster.fifo(name).alter(retention=KEPT)
        return self._cluster.fifo(name)

    def forget(self, uid: str) -> None:
        self._claims.pop(uid, None)


def message_id(uid: str, number: int) -> str:
    """Of the message with this number in a FIFO queue.

    >>> message_id("5f", 7) == message_id("5f", 7) != message_id("5f", 8)
    True
    """
    return str(uuid.uuid5(_NAMES, f"{uid}/{number}"))


def log_of(uid: str) -> str:
    """The queue that has the claims.

    >>> log_of("5f")
    'sqs.claims.5f'
    """
    return f"sqs.claims.{uid}"
