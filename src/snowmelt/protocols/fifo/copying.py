"""Making one more copy of an extent: the new keeper pulls it from the old ones, piece by piece.

1. What one source can't read is asked of the next; missing is what all of them said they can't.
   Told with it is who has nothing there: whoever has something that can't be read had it once.
2. Whoever asks again asks for the same copy, under a new number: it goes on where it stands, at
   another source when the last is silent. It begins anew when it was refused, lacks something, or
   may be asked of others now.
"""

from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, milliseconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.keeper import Keeper
from snowmelt.protocols.fifo.messages import Extent, Missing, Pull, Pulled, Replicate, Replicated
from snowmelt.protocols.fifo.segments import unstored

SILENT: Final = milliseconds(1000)


class Order(msgspec.Struct):
    master: NodeId
    message: Replicate
    at: int
    missing: list[Missing]
    heard: Instant
    """When it was begun, or a source last answered."""
    turn: int = 0
    """Which source is asked."""
    bad: dict[NodeId, int] = {}
    """Which sources can't read what comes next, and up to where."""
    absent: dict[str, None] = {}
    """Which keepers of these have nothing there."""
    flushing: int = 0
    refused: bool = False

    @property
    def source(self) -> NodeId:
        sources = self.message.sources
        return sources[self.turn % len(sources)]

    @property
    def rest(self) -> Extent:
        extent = self.message.extent
        return Extent(extent.stream, self.at, extent.stop)

    def is_for(self, master: NodeId, message: Replicate) -> bool:
        """Whether another word asks for this very copy (rule 2)."""
        same = (master, message.term) == (self.master, self.message.term)
        sources = sorted(message.sources) == sorted(self.message.sources)
        return same and sources and not self.refused and not self.missing

    def failed(self, source: NodeId, message: Pulled) -> None:
        """A source can't read what comes next (rule 1): another is asked, or it is missing."""
        self.bad[source] = message.bad_until
        if message.absent:
            self.absent[message.absent] = None
        if all(one in self.bad for one in self.message.sources):
            until = min(self.bad.values())  # the master knows whether anybody needs it
            extent = Extent(self.rest.stream, self.at, until)
            self.missing.append(Missing(extent, tuple(self.absent)))
            self.go_on(until)
        while self.source in self.bad:
            self.turn += 1

    def go_on(self, at: int) -> None:
        self.at, self.bad, self.absent = at, {}, {}


class Copying:
    def __init__(self, desk: Desk, keeper: Keeper) -> None:
        self._desk = desk
        self._keeper = keeper
        self._orders: dict[tuple[str, Extent], Order] = {}

    def replicate(self, source: NodeId, message: Replicate) -> None:
        """The master wants a copy here (rule 2)."""
        if not message.sources:
            return
        place = message.queue, message.extent
        order = self._orders.get(place)
        if order is not None and order.is_for(source, message):
            order.message = message
            if later(order.heard, SILENT) > self._desk.now:
                return
            order.turn += 1
        else:
            order = Order(source, message, message.extent.first, [], self._desk.now)
            self._orders[place] = order
        self._pull(order)

    def pulled(self, source: NodeId, message: Pulled) -> None:
        for order in self._orders.values():
            if (order.message.queue, order.rest) == (message.queue, message.extent):
                self._take(order, source, message)
                return

    def _pull(self, order: Order) -> None:
        self._desk.send(order.source, Pull(order.message.queue, order.rest))

    def _take(self, order: Order, source: NodeId, message: Pulled) -> None:
        order.heard = self._desk.now
        for stop, body in message.segments:
            if not self._keep(order, stop, body):
                break
        if order.at < message.bad_until:
            order.failed(source, message)
        if order.at >= order.message.extent.stop:
            self._end(order)
        elif message.segments or message.bad_until:
            self._pull(order)

    def _keep(self, order: Order, stop: int, body: bytes) -> bool:
        def flushed() -> None:
            order.flushing -= 1
            self._end(order)

        def refused(_: str) -> None:
            order.refused = True
            flushed()

        try:
            segment = unstored(body, stop)
        except ValueError:
            return False
        if segment.first > order.at:
            return False
        order.go_on(stop)
        order.flushing += 1
        queue, stream = order.message.queue, order.message.extent.stream
        self._keeper.store(queue, stream, segment, body, flushed, refused, Duration(0))
        return True

    def _end(self, order: Order) -> None:
        message = order.message
        place = message.queue, message.extent
        over = order.at >= message.extent.stop and not order.flushing
        if not over or self._orders.get(place) is not order:
            return
        del self._orders[place]
        done = Replicated(
            message.queue,
            message.term,
            message.number,
            self._desk.keeper,
            not order.refused,
            tuple(order.missing),
            message.extent,
            self._desk.stream,
        )
        self._desk.send(order.master, done)
