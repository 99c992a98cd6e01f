"""A node as the door of those who put what is to lie on data nodes: it has the bodies meanwhile.

1. It offers the put to whoever leads, again and again until it is told what became of it: leaders
   change.
2. Each time it is told who is to have the bodies and has not; it sends them there. To each node few
   large ones are on their way at once (`send_window.py`). Who has them says so, to the leader as
   well.
3. With its client goes what it put. A node that is cut off can't learn what becomes of it: its
   client asks another, which puts the same under the same number.
4. What is for a queue that was deleted does not come into another one of its name.
"""

from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import AskAnother, Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.asking import put_problem
from snowmelt.protocols.queue.api.labels import keys_of
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.leader.open_calls import PUT_COST, OpenCalls
from snowmelt.protocols.queue.messages.home_words import Nowhere
from snowmelt.protocols.queue.messages.words import (
    Admitted,
    Body,
    BodyStored,
    Goes,
    Lacks,
    Offer,
    Offered,
    PutReply,
    StoreBody,
)
from snowmelt.protocols.queue.metadata.finding import of_another
from snowmelt.protocols.queue.metadata.metadata_cache import MetadataCache
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.state.batches import StoredBatch
from snowmelt.protocols.queue.state.segments import Segment, stored
from snowmelt.protocols.queue.store.copies import Copies
from snowmelt.protocols.queue.store.send_window import LOST_AFTER
from snowmelt.protocols.queue.streams import node_of

AGAIN_AFTER: Final = milliseconds(1000)
LIGHT_BYTES: Final = 1 << 20
LOST_SOON: Final = seconds(2)
"""A light body that is not there by then is sent again."""


class InFlightPut(msgspec.Struct):
    """A put that this node carries: its bodies are on their way to replicas."""

    put: calls.Put
    offered: Instant = Instant(0)
    word: StoreBody | None = None
    """The bodies at the place that they have by now."""
    to: dict[NodeId, None] = {}
    """Where they are to be sent."""
    sent: dict[NodeId, Instant] = {}


class Carrying:
    """Of all queues, at one node."""

    def __init__(self, outbox: Outbox, metadata: MetadataCache, copies: Copies) -> None:
        self._outbox = outbox
        self._metadata = metadata
        self._ways = copies.ways
        self._open = OpenCalls(copies.bodies)
        self._carried: dict[OperationId, InFlightPut] = {}

    def carry(self, operation: OperationId, put: calls.Put, settings: QueueSettings) -> None:
        """A client of this node puts."""
        if operation in self._carried:
            return
        wrong = put_problem(put, self._outbox.limits.put_items, settings)
        self._open.add(operation, put, put.size + PUT_COST)
        if wrong is None:
            wrong = self._open.refusal(operation, self._outbox.limits.waiting_bytes)
        if wrong is not None:
            self._open.end(operation)
            self._outbox.decline(operation, *wrong)
            return
        carried = self._carried[operation] = InFlightPut(put)
        self._offer(operation, carried)

    def _offer(self, operation: OperationId, carried: InFlightPut) -> None:
        # Rule 1.
        put, now = carried.put, self._outbox.now
        carried.offered = now
        self._outbox.wake(later(now, AGAIN_AFTER))
        home = self._metadata.home(put.queue)
        if home is None:
            self._metadata.refresh(put.queue)
            return
        if put.since not in (0, home.since):  # rule 4
            self._end(operation, of_another(put.queue))
            return
        what = put.producer, put.sequence, put.count, put.size, put.due, put.patience, put.hold
        rank, names = put.runs[0].priority if put.runs else 0, keys_of(put.headers)
        rest = put.caller, put.turn, rank, names, put.home, put.unique, put.unique_for
        word = Offer(put.queue, home.term, operation, Offered(*what, *rest))
        self._outbox.send(node_of(home.master), word)

    def goes(self, leader: NodeId, word: Goes) -> None:
        """The leader says where to (rule 2)."""
        carried = self._carried.get(word.operation)
        if carried is None:
            return
        if carried.word is None or carried.word.body.key != _key(word):
            carried.word, carried.sent = _stored(carried.put, word, leader), {}
        carried.to = dict.fromkeys([node_of(one) for one in word.keepers])
        self._send()

    def _send(self) -> None:
        for carried in self._carried.values():
            if carried.word is None or not carried.to:
                continue
            now, size = self._outbox.now, len(carried.word.body.value)
            name, light = (carried.put.queue, carried.word.body.key), size <= LIGHT_BYTES
            lost = LOST_SOON if light else LOST_AFTER
            for node in list(carried.to):
                sent = carried.sent.get(node)
                if sent is not None and later(sent, lost) > now:
                    del carried.to[node]
                elif light or self._ways.goes(node, name, size, now):
                    del carried.to[node]
                    carried.sent[node] = now
                    self._outbox.send(node, carried.word)

    def stored(self, source: NodeId, word: BodyStored | Lacks) -> None:
        """One has it, or can't take it: the next may go."""
        self._ways.came(source, (word.queue, word.key))
        self._send()

    def told(self, _: NodeId, word: PutReply) -> None:
        answer: msgspec.Struct = word.answer
        if isinstance(word.answer, Admitted):
            where, *rest = msgspec.structs.astuple(word.answer)
            answer = calls.PutDone(where.start, where.stop, *rest)
        self._end(word.operation, answer)

    def _end(self, operation: OperationId, answer: msgspec.Struct) -> None:
        if self._carried.pop(operation, None) is not None:
            self._open.end(operation)
            self._outbox.reply(operation, answer)

    def nowhere(self, message: Nowhere) -> None:
        """The queue is there no more."""
        mine = [one for one, of in self._carried.items() if of.put.queue == message.queue]
        for operation in mine:
            self._end(operation, Declined(message.error, message.text))

    def cut_off(self) -> None:
        # Rule 3.
        for operation in list(self._carried):
            self._end(operation, AskAnother())

    def gone(self, client: NodeId) -> None:
        # Rule 3.
        for operation in self._open.gone(client):
            self._carried.pop(operation, None)

    def tick(self) -> None:
        for operation, carried in list(self._carried.items()):
            again = later(carried.offered, AGAIN_AFTER)
            if again > self._outbox.now:
                self._outbox.wake(again)
            else:
                self._metadata.refresh(carried.put.queue)
                self._offer(operation, carried)
        self._send()


def _key(word: Goes) -> bytes:
    return StoredBatch(word.place.start, word.place.stop, 0, word.term).key


def _stored(put: calls.Put, word: Goes, leader: NodeId) -> StoreBody:
    segment = Segment(word.place.start, put.offsets, put.blob, put.headers, word.wall)
    return StoreBody(put.queue, word.term, leader, Body(_key(word), stored(segment)))
