"""Making one more copy of an extent: the new keeper pulls it from an old one, piece by piece."""

import msgspec

from snowmelt.core.instant import Duration
from snowmelt.core.names import NodeId
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.keeper import Keeper
from snowmelt.protocols.fifo.messages import Extent, Pull, Pulled, Replicate, Replicated
from snowmelt.protocols.fifo.segments import unstored


class Order(msgspec.Struct):
    """A copy that this node is making."""

    master: NodeId
    message: Replicate
    at: int
    missing: list[Extent]
    flushing: int = 0
    refused: bool = False

    @property
    def source(self) -> NodeId:
        """Whom to ask; another one each time the master asks again."""
        sources = self.message.sources
        return sources[self.message.number % len(sources)]


class Copying:
    """The copies that this node is making."""

    def __init__(self, desk: Desk, keeper: Keeper) -> None:
        self._desk = desk
        self._keeper = keeper
        self._orders: dict[tuple[str, Extent], Order] = {}

    def replicate(self, source: NodeId, message: Replicate) -> None:
        """The master wants a copy here; asking again begins again, at another source."""
        order = Order(source, message, message.extent.first, [])
        self._orders[message.queue, message.extent] = order
        self._pull(order)

    def pulled(self, message: Pulled) -> None:
        """A piece has come."""
        for order in self._orders.values():
            extent = order.message.extent
            rest = Extent(extent.stream, order.at, extent.stop)
            if (order.message.queue, rest) == (message.queue, message.extent):
                self._take(order, message)
                return

    def _pull(self, order: Order) -> None:
        extent = order.message.extent
        rest = Extent(extent.stream, order.at, extent.stop)
        self._desk.send(order.source, Pull(order.message.queue, rest))

    def _take(self, order: Order, message: Pulled) -> None:
        extent = order.message.extent

        def flushed() -> None:
            order.flushing -= 1
            self._end(order)

        def refused(_: str) -> None:
            order.refused = True
            flushed()

        for stop, body in message.segments:
            try:
                segment = unstored(body, stop)
            except ValueError:
                break
            if segment.first > order.at:
                break
            order.at = stop
            order.flushing += 1
            self._keeper.store(
                message.queue, extent.stream, segment, body, flushed, refused, Duration(0)
            )
        if order.at < message.bad_until:  # the master knows whether anybody needs it
            order.missing.append(Extent(extent.stream, order.at, message.bad_until))
            order.at = message.bad_until
        if order.at >= extent.stop:
            self._end(order)
        elif message.segments or message.bad_until:
            self._pull(order)

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
        )
        self._desk.send(order.master, done)
