"""A node as a data node: it keeps bodies of queues whose leaders and followers may be others.

1. A body is there, and said to be, once it is flushed; with it a small record that tells of it, by
   which the next run of this node knows what it has.
2. What finds no room is not kept, and who sent it hears of that. One that can't be read any more is
   kept no longer, and its queue's leader hears of that.
3. From time to time it asks the leaders of its bodies which nobody needs, some each time; and all
   the time while it is to leave. It erases those that it is told, and no others.
4. Where flushes may linger, what is safe may be undone by a loss of power: there a body is erased
   when it is told twice, so long apart that all that was told before is on disks.
5. Who leads names it again for what it keeps, once it is to stay after all, or says that it has a
   body. What it was told before, since it was to leave, does not hold then: others may go next.
"""

from typing import Final

from snowmelt.core.instant import Instant, later, milliseconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Started
from snowmelt.core.record import Change, Write, erase
from snowmelt.protocols.queue.api.calls import Span
from snowmelt.protocols.queue.leader.spans import spread_batch
from snowmelt.protocols.queue.messages.words import (
    BodyStored,
    Key,
    Lacks,
    Mended,
    SendWhenFlushed,
    Spare,
    Spared,
    StoreBody,
)
from snowmelt.protocols.queue.metadata.metadata_cache import MetadataCache
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.state.batches import BODY_KEY_BYTES, StoredBatch, Within, parsed
from snowmelt.protocols.queue.store.copies import Copies
from snowmelt.protocols.queue.store.copy import body_key
from snowmelt.protocols.queue.streams import node_of

KEPT: Final = b"d"
"""How the records begin that tell of bodies (rule 1)."""
AGAIN_AFTER: Final = milliseconds(1000)
"""Where it is not known whom to ask."""
LEAVING_ASKS: Final = milliseconds(300)
ASKED_AT_ONCE: Final = 1_000
NAME_BYTES: Final = 12
"""Of a key: its place and term, which no other body of the queue has."""


class BodyStore:
    """Of all queues, at one node."""

    def __init__(self, outbox: Outbox, metadata: MetadataCache, copies: Copies) -> None:
        self.leaving = False
        self._outbox = outbox
        self._metadata = metadata
        self._disk = copies.disk
        self._number = 1
        """Of what it says (rule 5)."""
        self._held: dict[str, dict[bytes, Key]] = {}
        """By queues, and by what names each."""
        self._writing: dict[tuple[str, Key], BodyStored] = {}
        self._doubted: dict[tuple[str, Key], Instant] = {}
        """What is over if it is told again after this (rule 4)."""
        self._asks_at = Instant(0)
        self._behind: dict[str, bytes] = {}
        """By queue, behind which body it is asked next."""

    def begin(self, started: Started) -> None:
        """What the last run of this node had (rule 1)."""
        for record in (*[one.key for one in started.records], *started.damaged):
            if record[:1] == KEPT:
                queue, _, key = record[1:].partition(b"\0")
                self._held.setdefault(queue.decode(), {})[key[:NAME_BYTES]] = key
        if self._held:
            self._outbox.wake(self._outbox.now)

    @property
    def bodies(self) -> int:
        return sum(map(len, self._held.values()))

    # --- stored -----------------------------------------------------------------------------------

    def store(self, source: NodeId, word: StoreBody) -> None:
        """Somebody has one for this node (rule 1)."""
        queue, key, keeper = word.queue, word.body.key, self._outbox.keeper
        told = BodyStored(queue, word.term, word.leader, keeper, key)
        if (queue, key) in self._writing or len(key) != BODY_KEY_BYTES:  # the latter is of no put
            return
        if key[:NAME_BYTES] in self._held.get(queue, {}):
            self._number += 1
            self._tell(source, word.leader, told)
        elif self._disk.full:
            lacks = Lacks(queue, word.term, keeper, key, self._disk.full)
            self._tell(source, word.leader, lacks)
        else:
            self._writing[queue, key] = told
            changes: tuple[Change, ...] = (
                Write(body_key(queue, key), word.body.value),
                Write(_record(queue, key), b"1"),
            )
            self._disk.write(_name(queue, key), changes, SendWhenFlushed(source, told))

    def _tell(self, source: NodeId, leader: NodeId, word: BodyStored | Lacks) -> None:
        for node in dict.fromkeys((source, leader)):
            self._outbox.send(node, word)

    def flushed(self, source: NodeId, word: BodyStored) -> None:
        """It is there, unless it was given up meanwhile."""
        if self._writing.get((word.queue, word.key)) is not word:
            return
        self._tell(source, word.leader, word)
        del self._writing[word.queue, word.key]
        asks = any(self._held.values())
        held = self._held.setdefault(word.queue, {})
        held[word.key[:NAME_BYTES]] = word.key
        if not asks:
            self._asks_at = later(self._outbox.now, self._outbox.limits.spare_every)
            self._outbox.wake(self._asks_at)

    def no_room(self, source: NodeId, word: BodyStored, reason: str) -> None:
        """It can't be flushed (rule 2)."""
        queue, key = word.queue, word.key
        if self._writing.pop((queue, key), None) is None:
            return
        self._erase(queue, key)
        lacks = Lacks(queue, word.term, word.keeper, key, reason)
        self._tell(source, word.leader, lacks)

    def _erase(self, queue: str, key: Key) -> None:
        changes = erase(body_key(queue, key)), erase(_record(queue, key))
        self._disk.write(_name(queue, key), changes, Mended())

    # --- read -------------------------------------------------------------------------------------

    def key(self, queue: str, name: bytes) -> Key | None:
        """The whole key of one that it has."""
        return self._held.get(queue, {}).get(name[:NAME_BYTES])

    def within(self, queue: str, span: Span) -> list[Within]:
        """In which batch a span lies, if it is here."""
        _, place, term = span.stream.split("/")
        start = int(place, 16) % (1 << 64)
        name = StoredBatch(start, start, 0, int(term) % (1 << 32)).key[:NAME_BYTES]
        key = self.key(queue, name)
        batch = None if key is None else spread_batch(key, span)
        if batch is not None:
            return [(batch, span.start, min(span.stop, batch.stop))]
        if key is None:
            self.lost(queue, name)
        return []

    def lost(self, queue: str, name: bytes) -> None:
        """One can't be read here (rule 2)."""
        key = self.key(queue, name)
        if key is not None:
            del self._held[queue][key[:NAME_BYTES]]
            self._erase(queue, key)
        home = self._metadata.home(queue)
        self._metadata.refresh(queue)
        if home is not None:
            word = Lacks(queue, home.term, self._outbox.keeper, key or name, "")
            self._outbox.send(node_of(home.master), word)

    # --- what nobody needs ------------------------------------------------------------------------

    def spared(self, _: NodeId, word: Spared) -> None:
        """These are over, or never were (rules 3 to 5)."""
        if word.number not in (0, self._number):
            return  # it is asked again
        held, now = self._held.get(word.queue, {}), self._outbox.now
        for key in word.keys:
            sure = self._doubted.setdefault((word.queue, key), later(now, word.linger))
            if held.get(key[:NAME_BYTES]) == key and (not word.linger or sure < now):
                del held[key[:NAME_BYTES]]
                self._erase(word.queue, key)
            if not word.linger or sure < now:
                del self._doubted[word.queue, key]
        if not held:
            self._held.pop(word.queue, None)

    def deleted(self, queue: str, terms: range) -> None:
        """Those from these terms are of a queue that was deleted."""
        held, writing = self._held.get(queue, {}), self._writing
        coming = [key for name, key in writing if name == queue and parsed(key)[1] in terms]
        for key in coming:
            del writing[queue, key]
        for key in [*coming, *[one for one in held.values() if parsed(one)[1] in terms]]:
            held.pop(key[:NAME_BYTES], None)
            self._erase(queue, key)
        if not held:
            self._held.pop(queue, None)

    def tick(self) -> None:
        """Asks again for what is late (rule 3)."""
        if not self._held:
            return
        now = self._outbox.now
        if self._asks_at <= now:
            often = LEAVING_ASKS if self.leaving else self._outbox.limits.spare_every
            self._asks_at = later(now, often)
            for queue, held in self._held.items():
                self._ask(queue, held)
        self._outbox.wake(self._asks_at)

    def _ask(self, queue: str, held: dict[bytes, Key]) -> None:
        home = self._metadata.home(queue)
        self._metadata.refresh(queue)
        if home is None:
            self._asks_at = min(self._asks_at, later(self._outbox.now, AGAIN_AFTER))
            return
        behind = self._behind.get(queue, b"")
        names = sorted(name for name in held if name > behind)[:ASKED_AT_ONCE]
        self._behind[queue] = names[-1] if len(names) == ASKED_AT_ONCE else b""
        keys = tuple([held[name] for name in names])
        word = Spare(queue, home.term, self._outbox.keeper, keys, self.leaving, self._number)
        self._outbox.send(node_of(home.master), word)

    def leave(self, *, leaving: bool) -> None:
        """This node is to leave, or stays after all."""
        self._number += self.leaving and not leaving
        self.leaving = leaving
        self._asks_at = self._outbox.now
        self._outbox.wake(self._outbox.now)


def _name(queue: str, key: Key) -> str:
    """What stands for one body where the disk knows queues: what has no room waits for itself."""
    return f"@{queue}/{key.hex()}"


def _record(queue: str, key: Key) -> bytes:
    return KEPT + queue.encode() + b"\0" + key
