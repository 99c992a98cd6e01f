"""A message of a FIFO queue that is sent twice within five minutes is there once.

1. Who sends a message first puts a *claim* into a queue of ours beside it: the deduplication id,
   and the message's id. All doors read these claims as a log.
2. Of claims with one id the first is the *owner*, and so is one that came five minutes or more
   after its owner, by the clock of the queue's leader. So each door finds the same owner.
3. The message is put under the owner's position as its number (`producer`), which puts it once. Who
   finds that another's claim is the owner puts the message under that number, too: the other door
   may have died in between.
4. Claims that are over are taken out of the log from time to time. Who takes them may have later
   ones in hand for a moment, so a door that finds a position absent waits for it.
"""

import asyncio
import time
from time import monotonic
from typing import Final

import msgspec

from snowmelt.aio import Cluster, EmbeddedCluster, Fifo
from snowmelt.core import times
from snowmelt.core.batch import Batch
from snowmelt.core.errors import Empty, NoSuchQueue, Unavailable

WINDOW: Final = 300 * 10**9
MARGIN: Final = 10 * 10**9
"""So much a door's clock may be wrong: then it asks by a claim of its own."""
CLAIMS_MAX: Final = 20_000
"""With more in the log, those that are over are taken out."""
GAP_SECONDS: Final = 45.0
_PAUSE: Final = 0.05
_ENCODE: Final = msgspec.msgpack.Encoder().encode


class SentClaim(msgspec.Struct, frozen=True, array_like=True):
    key: str
    """The deduplication id, with the group where that is its scope."""
    message: str


class ClaimOwner(msgspec.Struct, frozen=True):
    """The claim that counts."""

    position: int
    at: int
    """When it came (ns since 1970), by the clock of the log's leader."""
    message: str


_DECODE: Final = msgspec.msgpack.Decoder(SentClaim).decode


class SentClaims:
    """The claims of one queue, as this door knows them."""

    def __init__(self, cluster: Cluster | EmbeddedCluster, name: str) -> None:
        self._log: Fifo = cluster.fifo(name)
        self._owners: dict[str, ClaimOwner] = {}
        """By key, those that came first before the others."""
        self._of: dict[int, ClaimOwner] = {}
        """Of claims of this door that wait for it: which owner each has."""
        self._next = -1
        """All below this position was read; -1: nothing was."""
        self._live = 0
        self._gap_since: float | None = None
        self._turn = asyncio.Lock()

    async def owner(self, key: str, message: str) -> ClaimOwner:
        """Which claim counts for a message that is to be sent (rule 2)."""
        known = self._owners.get(key)
        if known is not None and time.time_ns() - known.at < WINDOW - MARGIN:
            return known
        if self._next < 0:
            await self._log.create()
        position = int(await self._log.put(_ENCODE(SentClaim(key, message))))
        async with self._turn:
            while position not in self._of:
                await self._read()
                if position not in self._of:
                    await asyncio.sleep(_PAUSE)
        found = self._of.pop(position)
        if self._live > CLAIMS_MAX:
            await self._shorten()
        return found

    async def _read(self) -> None:
        try:
            begins = self._next < 0
            given = await self._given() if begins else 0
            located = await self._log.survey(max(self._next, 0))
            if begins and (given < 0 or given != await self._given()):
                return  # somebody may have had the first ones in hand meanwhile
        except NoSuchQueue:
            await self._log.create()
            return
        bodies = await self._log.read(located.spans)
        if bodies.unread:
            raise Unavailable("a part of the claims of a queue can't be read now")
        now = monotonic()
        for part in sorted(bodies.parts, key=lambda one: one.start):
            for at, body in enumerate(Batch(part.offsets, part.blob)):
                position = part.start + at
                if position < self._next:
                    continue
                if self._next >= 0 and position > self._next and not self._waited(now):
                    return
                self._take(position, times.at(part.times, at), _DECODE(bytes(body)))
                self._next, self._gap_since = position + 1, None

    async def _given(self) -> int:
        """How often claims were given out; -1 while somebody has one."""
        status = await self._log.stats()
        return -1 if status.leased else status.delivered

    def _waited(self, now: float) -> bool:
        if self._gap_since is None:
            self._gap_since = now
        return now - self._gap_since > GAP_SECONDS

    def _take(self, position: int, at: int, claim: SentClaim) -> None:
        self._live += 1
        known = self._owners.get(claim.key)
        if known is None or at - known.at >= WINDOW:
            self._owners.pop(claim.key, None)  # the newest last
            known = self._owners[claim.key] = ClaimOwner(position, at, claim.message)
        self._of[position] = known
        while len(self._of) > CLAIMS_MAX:
            del self._of[next(iter(self._of))]
        oldest = next(iter(self._owners))
        if at - self._owners[oldest].at > 2 * WINDOW:
            del self._owners[oldest]

    async def _shorten(self) -> None:
        """Takes out what is over (rule 4)."""
        self._live = 0
        before = time.time_ns() - 2 * WINDOW
        while True:
            try:
                items = await self._log.get_many(1_000, timeout=0)
            except Empty:
                return
            for item in items:
                put_at = item.put_at
                if put_at is None or put_at.timestamp() * 1e9 >= before:
                    await items.release()
                    return
                await item.ack()


class Deduplication:
    """The claims of all queues."""

    def __init__(self, cluster: Cluster | EmbeddedCluster) -> None:
        self._cluster = cluster
        self._claims: dict[str, SentClaims] = {}

    def of(self, uid: str) -> SentClaims:
        """Of the queue that was made with this name for itself."""
        found = self._claims.get(uid)
        if found is None:
            found = self._claims[uid] = SentClaims(self._cluster, log_of(uid))
        return found

    def forget(self, uid: str) -> None:
        self._claims.pop(uid, None)


def log_of(uid: str) -> str:
    """The queue that has the claims.

    >>> log_of("5f")
    'sqs.claims.5f'
    """
    return f"sqs.claims.{uid}"
