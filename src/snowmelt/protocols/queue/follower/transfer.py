"""Bodies that are read from the disk: for what is owed, for another's copy, for one who lacks them.

1. A leader sends no copy without what it can't read itself: it asks the others for that first.
2. What is not there was perhaps flushed after it was looked for, though that is heard of first.
   So it is read once more where a write has ended meanwhile, before anybody takes it for lost.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Load, Scan
from snowmelt.core.record import Found, Missing, Record
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.follower.body_store import BodyStore
from snowmelt.protocols.queue.follower.follower_role import FollowerRole
from snowmelt.protocols.queue.leader.spans import SPREAD_STREAM, batches_of
from snowmelt.protocols.queue.leader.terms import Terms
from snowmelt.protocols.queue.messages import words
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.replication.sending import Sending
from snowmelt.protocols.queue.state.batches import StoredBatch, Within, parsed
from snowmelt.protocols.queue.state.segments import (
    Segment,
    joined,
    lacks,
    part_of,
    stored,
    thinned,
    unstored,
)
from snowmelt.protocols.queue.store.copies import Copies
from snowmelt.protocols.queue.store.copy import Copy, body_key
from snowmelt.protocols.queue.streams import node_of

FIRST_TICKET: Final = 1 << 41
"""Those of the outbox and of what is written are below."""
NEVER: Final = -1
"""It is not read once more."""


class ForPiece(msgspec.Struct, frozen=True):
    """A piece of a copy on its way to a keeper."""

    keeper: str
    term: int
    head: words.Head
    number: int
    records: words.Pairs
    last: bool


class ForOther(msgspec.Struct, frozen=True):
    """A leader that can't read them."""

    source: NodeId
    fetch: words.FetchBodies


class ForClient(msgspec.Struct, frozen=True):
    """A client with a span; no leader need be there."""

    operation: OperationId
    where: tuple[Within, ...]
    hand: dict[int, Segment]
    """Those that are at hand, by where they begin."""


class ForNode(msgspec.Struct, frozen=True):
    """A read for another data node, which lacks these bodies."""

    leader: NodeId
    word: words.CopyBody


Purpose = words.ReadBodies | words.Thin | words.Undo | ForPiece | ForOther | ForClient | ForNode


class PendingRead(msgspec.Struct, frozen=True):
    """What is being read, and what for."""

    queue: str
    batches: tuple[StoredBatch, ...]
    purpose: Purpose
    writes: int = NEVER
    """How many had ended when it was asked for (rule 2)."""


class Transfer:
    """Of all queues of a node."""

    def __init__(
        self,
        outbox: Outbox,
        copies: Copies,
        terms: Terms,
        following: FollowerRole,
        keeping: BodyStore,
    ) -> None:
        self._outbox = outbox
        self._keeping = keeping
        self._copies = copies
        self._terms = terms
        self._following = following
        self._sendings: dict[tuple[str, str], Sending] = {}
        """To those who take over, by queue and keeper."""
        self._reading: dict[int, PendingRead] = {}
        self._tickets = FIRST_TICKET

    # --- who wants some ---------------------------------------------------------------------------

    def wanted(self, _: NodeId, wants: words.ReadBodies) -> None:
        """A leader of this node owes them."""
        self._read(wants.queue, wants.batches, wants)

    def undo(self, _: NodeId, undo: words.Undo) -> None:
        """This node's copy is to be what is on the disk: some records at a time."""
        self._tickets += 1
        self._reading[self._tickets] = PendingRead(undo.queue, (), undo)
        stop = self._copies.of(undo.queue).where()[1]
        self._outbox.effect(Scan(self._tickets, undo.start, stop, words.PIECE_BYTES))

    def fetch(self, source: NodeId, fetch: words.FetchBodies) -> None:
        """The leader can't read some bodies."""
        if self._following.follows(source, fetch.queue, fetch.term) is not None:
            batches = tuple(StoredBatch(at.start, at.stop, 0, term) for at, term in fetch.batches)
            self._read(fetch.queue, batches, ForOther(source, fetch))

    def thin(self, source: NodeId, word: words.Thin) -> None:
        """Bodies are to be written anew with what lives of them (`thinning.py`)."""
        queue = word.queue
        if self._terms.leading(queue, word.term) is not None:
            copy: Copy | None = self._copies.of(queue)
        else:
            copy = self._following.follows(source, queue, word.term)
        if copy is None or not copy.whole or copy.head < word.head:
            return
        names = [(one.place, one.term) for one in word.bodies]
        batches = tuple([StoredBatch(place.start, place.stop, 0, term) for place, term in names])
        self._copies.disk.thins(queue, [body_key(queue, batch.key) for batch in batches])
        self._read(queue, batches, word)

    def fetch_span(self, operation: OperationId, ask: calls.Fetch) -> None:
        """A client's share, straight from this copy: as many batches as fit, and one at least."""
        copy, limits, span = self._copies.known(ask.queue), self._outbox.limits, ask.span
        where, hand = list[Within](), dict[int, Segment]()
        wanted, room = min(ask.bytes_max, limits.fetch_bytes), limits.answer_bytes
        found: Iterable[Within] = () if copy is None else batches_of(copy, span)
        if span.stream.startswith(SPREAD_STREAM):
            found = self._keeping.within(ask.queue, span)
        for batch, first, stop in found:
            if where and (wanted <= 0 or batch.size > room):
                break
            where.append((batch, first, stop))
            wanted -= batch.share(stop - first)
            room -= batch.size
            segment = self._copies.bodies.of(ask.queue, batch)
            if segment is not None:
                hand[batch.start] = segment
        if where:
            absent = tuple([one for one, _, _ in where if one.start not in hand])
            client = ForClient(operation, tuple(where), hand)
            if absent:
                self._read(ask.queue, absent, client)
            else:
                self._hand_over(PendingRead(ask.queue, (), client), client, ())
        elif any(one.node == self._outbox.me for one in span.keepers):
            self._outbox.reply(operation, calls.Fetched((), gone=span.stop - span.start))
        else:
            text = f"{self._outbox.me} does not keep what begins at position {span.start}"
            self._outbox.decline(operation, "Unavailable", text)

    def pass_on(self, leader: NodeId, word: words.CopyBody) -> None:
        """Another data node is to have one as well."""
        place, term, stop = parsed(word.key)
        if self._keeping.key(word.queue, word.key) == word.key:
            self._read(word.queue, (StoredBatch(place, stop, 0, term),), ForNode(leader, word))
        else:
            self._keeping.lost(word.queue, word.key)

    def bring(self, source: NodeId, bring: words.Bring) -> None:
        """Somebody wants a piece, or is to have the first: a follower, or who takes over."""
        queue, keeper = bring.queue, bring.keeper
        leader = self._terms.leaders.get(queue)
        if leader is not None:
            sending = leader.followers.bring(keeper, heard=source != self._outbox.me)
        else:
            copy = self._copies.of(queue)
            if not copy.whole or bring.term != copy.fence or copy.head != bring.head:
                return
            if bring.number == 0 or (queue, keeper) not in self._sendings:
                self._sendings[queue, keeper] = Sending(copy)
            sending = self._sendings[queue, keeper]
        if sending is None or bring.head > sending.head:
            return
        number = bring.number if bring.head == sending.head else 0  # it goes on as of a later step
        found = sending.piece(number)
        if found is not None:
            batches, records, last = found
            piece = ForPiece(keeper, bring.term, sending.head, number, records, last)
            self._read(queue, tuple(batches), piece)

    def _read(self, queue: str, batches: tuple[StoredBatch, ...], purpose: Purpose) -> None:
        self._load(PendingRead(queue, batches, purpose, self._copies.disk.writes))

    def _load(self, reading: PendingRead) -> None:
        self._tickets += 1
        self._reading[self._tickets] = reading
        keys = tuple([body_key(reading.queue, batch.key) for batch in reading.batches])
        self._outbox.effect(Load(self._tickets, keys, _client_of(reading.purpose)))

    # --- they were read ---------------------------------------------------------------------------

    def loaded(self, ticket: int, found: Sequence[Found]) -> None:
        """From the disk, in the order in which they were asked for."""
        reading = self._reading.pop(ticket)
        if unread := {one.key for one in found if type(one) is not Record}:
            there = self._copies.disk.waiting(unread)
            found = [Record(one.key, there[one.key]) if one.key in there else one for one in found]
            # Rule 2.
            if reading.writes not in (NEVER, self._copies.disk.writes) and any(
                isinstance(one, Missing) for one in found
            ):
                self._load(msgspec.structs.replace(reading, writes=NEVER))
                return
        match reading.purpose:
            case words.ReadBodies():
                self._deliver(reading, reading.purpose, found)
            case words.Thin():
                self._thin(reading, reading.purpose, found)
            case words.Undo():
                self._undo(reading.purpose, found)
            case ForPiece():
                self._send(reading, reading.purpose, found)
            case ForClient():
                self._hand_over(reading, reading.purpose, found)
            case ForNode():
                self._pass(reading.purpose, reading.batches[0], found[0])
            case ForOther(source, fetch):
                pairs = zip(reading.batches, found, strict=True)
                bodies = tuple(
                    words.Body(batch.key, one.value)
                    for batch, one in pairs
                    if isinstance(one, Record) and _unstored(one, batch) is not None
                )
                keeper = self._outbox.keeper
                told = words.FetchedBodies(fetch.queue, fetch.term, keeper, fetch.batches, bodies)
                self._outbox.send(source, told)

    def _undo(self, undo: words.Undo, found: Sequence[Found]) -> None:
        if found:
            more = msgspec.structs.replace(undo, start=found[-1].key + b"\0")
            undo.found.extend(found)
            self.undo(self._outbox.me, more)
        else:
            self._following.undone(undo.queue, undo.found)

    def _thin(self, reading: PendingRead, word: words.Thin, found: Sequence[Found]) -> None:
        for batch, one, thinner in zip(reading.batches, found, word.bodies, strict=True):
            segment, body = _unstored(one, batch), b""
            if segment is not None and segment.left != thinner.left:
                body = stored(thinned(segment, thinner.left))
            self._copies.disk.thin(one.key, body)

    def _hand_over(self, reading: PendingRead, client: ForClient, found: Sequence[Found]) -> None:
        """To a client: all up to the first that can't be read."""
        hand, unread = client.hand, dict[StoredBatch, bool]()
        for batch, one in zip(reading.batches, found, strict=True):
            segment = _unstored(one, batch)
            if segment is None:
                unread[batch] = isinstance(one, Missing)
            else:
                hand[batch.start] = segment
                self._copies.bodies.add(reading.queue, batch, segment)
        parts, damaged, gone = list[calls.ItemRun](), 0, 0
        for batch, first, stop in client.where:
            if batch in unread:
                damaged, gone = (0, stop - first) if unread[batch] else (stop - first, 0)
                break
            segment, edges = hand[batch.start], (first + batch.shift, stop + batch.shift)
            if lacks(segment, *edges):
                gone = stop - first
                break
            parts.append(part_of(segment, *edges, first))
        self._outbox.reply(client.operation, calls.Fetched(tuple(joined(parts)), damaged, gone))
        for batch in unread:
            if batch.spread:
                self._keeping.lost(reading.queue, batch.key)
        leader = self._terms.leaders.get(reading.queue)
        if leader is not None:
            lacking = [one for one in unread if not one.spread and leader.state.batches.lives(one)]
            if lacking:
                leader.delivery.lack(lacking)
                self._terms.touched[reading.queue] = None

    def _pass(self, purpose: ForNode, batch: StoredBatch, found: Found) -> None:
        word = purpose.word
        if not isinstance(found, Record) or _unstored(found, batch) is None:
            self._keeping.lost(word.queue, word.key)
            return
        body, name = words.Body(word.key, found.value), (word.queue, word.key)
        if self._copies.ways.goes(word.target, name, len(body.value), self._outbox.now):
            store = words.StoreBody(word.queue, word.term, purpose.leader, body)
            self._outbox.send(word.target, store)

    def _deliver(
        self, reading: PendingRead, wants: words.ReadBodies, found: Sequence[Found]
    ) -> None:
        unread: list[StoredBatch] = []
        for batch, one in zip(reading.batches, found, strict=True):
            segment = _unstored(one, batch)
            if segment is None:
                unread.append(batch)
            else:
                wants.hand[batch.start + batch.shift] = segment
                if not isinstance(wants.owed, words.SaveOwed):  # nobody will want these next
                    self._copies.bodies.add(reading.queue, batch, segment)
        leader = self._terms.leaders.get(reading.queue)
        if leader is not None:
            leader.delivery.read(wants, unread)
            self._terms.touched[reading.queue] = None

    def _send(self, reading: PendingRead, piece: ForPiece, found: Sequence[Found]) -> None:
        pairs = list(zip(reading.batches, found, strict=True))
        bodies = tuple(words.Body(a.key, one.value) for a, one in pairs if isinstance(one, Record))
        unread = [batch for batch, one in pairs if not isinstance(one, Record)]
        queue, leader = reading.queue, self._terms.leaders.get(reading.queue)
        follower = None if leader is None else leader.followers.all.get(piece.keeper)
        sending = self._sendings.get((queue, piece.keeper))
        if follower is not None:
            sending = follower.sending
        if sending is None or sending.head != piece.head:
            return
        if unread and leader is not None:
            leader.delivery.lack(unread)
            self._terms.touched[queue] = None
            return
        if follower is not None:
            follower.sent = self._outbox.now
            follower.heavy = sum([len(one.value) for one in bodies])
        elif piece.last:
            self._sendings.pop((queue, piece.keeper))
        told = piece.term, piece.head, piece.number, piece.last
        self._outbox.send(
            node_of(piece.keeper), words.SnapshotChunk(queue, *told, bodies, piece.records)
        )

    def fetched(self, _: NodeId, word: words.FetchedBodies) -> None:
        """What another has of those that can't be read here."""
        leader = self._terms.leading(word.queue, word.term)
        if leader is None:
            return
        there = {one.key: one.value for one in word.bodies}
        named = dict.fromkeys(word.batches)
        found: dict[StoredBatch, Segment | None] = {}
        for batch in leader.delivery.lacking:
            if (batch.place, batch.term) in named:
                value = there.get(batch.key)
                found[batch] = None if value is None else _unstored(Record(b"", value), batch)
        leader.delivery.fetched(word.keeper, found)


def _unstored(found: Found, batch: StoredBatch) -> Segment | None:
    """The bodies of a batch, as they were found; None for what can't be read."""
    if not isinstance(found, Record):
        return None
    try:
        return unstored(found.value, batch.stop + batch.shift)
    except ValueError:
        return None


def _client_of(purpose: Purpose) -> NodeId | None:
    """Whose call is answered with what is read."""
    match purpose:
        case words.ReadBodies(owed=owed):
            return owed.operation.client
        case ForClient(operation):
            return operation.client
        case _:
            return None
