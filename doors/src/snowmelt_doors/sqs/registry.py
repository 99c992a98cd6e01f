"""What all doors know of queues: a map that lies in the cluster, as a log of changes.

1. A change is an item of the queue `REGISTRY`: a key, what is there from now on, and upon which
   version of the key it was made. Positions order all changes. Nobody takes these items.
2. A change counts if its key had that version when it came; each door finds the same, since all
   read the same log. So of two doors that change one key at once, one is told that it came late.
3. A version is the position of the change that made it, and one; 0 where there is nothing.
4. A door reads what is new before it changes something, where it does not know a name, and when
   what it knows is older than `FRESH`.
5. A *snapshot* is an item, too: all that was there up to a position. Who has it needs nothing from
   before that position, so those items are taken and acknowledged. A door that is behind a snapshot
   takes it, and then all changes from its position on.
6. Who takes those items may have some in hand for a moment that came later. So a door that finds a
   position absent reads no further for now; after `GAP_SECONDS` nobody has it, and there is none.
"""

import asyncio
from time import monotonic
from typing import Final

import msgspec

from snowmelt.aio import Cluster, EmbeddedCluster
from snowmelt.core.batch import Batch
from snowmelt.core.errors import Empty, NoSuchQueue, Unavailable

REGISTRY: Final = "sqs.registry"
FRESH: Final = 1.0
CHANGES_MAX: Final = 2_000
"""After so many changes a door puts a snapshot."""
GAP_SECONDS: Final = 45.0
"""Longer than a lease of the registry."""
_PAUSE: Final = 0.05
_COUNTS_MAX: Final = 10_000
_ENCODE: Final = msgspec.msgpack.Encoder().encode


class RegistryChange(msgspec.Struct, frozen=True, tag="change", array_like=True):
    key: str
    base: int
    """The version of the key that this was made upon."""
    value: bytes | None
    """None: nothing is there from now on."""


class RegistrySnapshot(msgspec.Struct, frozen=True, tag="snapshot", array_like=True):
    through: int
    """All changes below this position are in it."""
    rows: dict[str, tuple[int, bytes]]
    """By key: the version, and what is there."""


_DECODE: Final = msgspec.msgpack.Decoder(RegistryChange | RegistrySnapshot).decode


class Registry:
    """The map, as this door knows it."""

    def __init__(self, cluster: Cluster | EmbeddedCluster) -> None:
        self._log = cluster.fifo(REGISTRY)
        self._rows: dict[str, tuple[int, bytes]] = {}
        self._next = 0
        """All below this position was read."""
        self._since = 0
        """How many changes were read since the last snapshot."""
        self._read_at = float("-inf")
        self._turn = asyncio.Lock()
        self._made = False
        self._counts: dict[int, bool] = {}
        """Of the last changes by position, whether they count."""
        self._gap_since: float | None = None

    @property
    def rows(self) -> dict[str, tuple[int, bytes]]:
        """By key: the version, and what is there. To be looked at only."""
        return self._rows

    def find(self, key: str) -> tuple[int, bytes] | None:
        return self._rows.get(key)

    async def look(self, *, fresh: bool = False) -> None:
        """Reads what is new, if it is time to (rule 4)."""
        if not fresh and monotonic() - self._read_at < FRESH:
            return
        asked = monotonic()
        async with self._turn:
            if self._read_at >= asked:  # another did, after this was asked
                return
            await self._read()

    async def change(self, key: str, base: int, value: bytes | None) -> bool:
        """Makes a change upon a version; whether it counts (rule 2)."""
        if not self._made:
            await self._make()
        position = await self._log.put(_ENCODE(RegistryChange(key, base, value)))
        async with self._turn:
            while self._next <= position:
                await self._read()
                if self._next <= position:
                    await asyncio.sleep(_PAUSE)
        if self._since > CHANGES_MAX:
            await self._shorten()
        return self._counts.pop(position, False)

    async def _make(self) -> None:
        await self._log.create()
        self._made = True

    async def _read(self) -> None:
        rows: list[tuple[int, bytes]] = []
        behind, began = self._next, monotonic()
        while True:
            try:
                located = await self._log.survey(behind)
            except NoSuchQueue:
                await self._make()
                continue
            if not located.spans:
                break
            bodies = await self._log.read(located.spans)
            if bodies.unread:
                raise Unavailable("a part of the doors' registry can't be read now")
            for part in bodies.parts:
                some = enumerate(Batch(part.offsets, part.blob), part.start)
                rows += [(position, bytes(body)) for position, body in some]
            behind = max(behind, *[one.stop for one in located.spans])
        self._apply(sorted(rows), began)
        self._read_at = began

    def _apply(self, rows: list[tuple[int, bytes]], now: float) -> None:
        """Rows are positions and bodies."""
        told = [(position, _DECODE(body)) for position, body in rows]
        some = [
            one for _, one in told if isinstance(one, RegistrySnapshot) and one.through > self._next
        ]
        if some:
            last = max(some, key=lambda one: one.through)
            self._rows, self._next, self._since = dict(last.rows), last.through, 0
        for position, one in told:
            if position < self._next:
                continue
            if position > self._next and not self._waited(now):
                return
            if isinstance(one, RegistryChange):
                self._take(position, one)
            self._next, self._gap_since = position + 1, None

    def _waited(self, now: float) -> bool:
        """Whether it was waited for what is absent, as long as anybody may hold it (rule 6)."""
        if self._gap_since is None:
            self._gap_since = now
        return now - self._gap_since > GAP_SECONDS

    def _take(self, position: int, one: RegistryChange) -> None:
        self._since += 1
        version = self._rows.get(one.key, (0, b""))[0]
        counts = self._counts[position] = version == one.base
        if len(self._counts) > _COUNTS_MAX:
            del self._counts[next(iter(self._counts))]
        if not counts:
            return
        if one.value is None:
            self._rows.pop(one.key, None)
        else:
            self._rows[one.key] = position + 1, one.value

    async def _shorten(self) -> None:
        """Puts a snapshot, and takes what lies before it out of the queue (rule 5)."""
        through = self._next
        self._since = 0
        await self._log.put(_ENCODE(RegistrySnapshot(through, dict(self._rows))))
        while True:
            try:
                items = await self._log.get_many(1_000, timeout=0)
            except Empty:
                return
            late = False
            for item in items:
                if item.position < through:
                    await item.ack()
                else:
                    late = True
            if late:
                await items.release()
                return
