"""The rival: a directory with a home. One node, known to all, knows the last place in the queue."""

from typing import Final

import msgspec

from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announce, Announced, Effect, Event, Received, Send
from snowmelt.protocols.arrow import Followed, Place, Wanted


class Enlist(msgspec.Struct, frozen=True):
    """To the home: this place is the last one from now on."""

    place: Place


class Precede(msgspec.Struct, frozen=True):
    """To the node of the place that was the last one: who follows it."""

    followed: Followed


HomeMessage = Enlist | Precede
Effects = list[Effect[HomeMessage]]


class HomeNode:
    """One node's part, the home's or another's; the same facts in and out as an `ArrowNode`.

    >>> a, b = NodeId("a"), NodeId("b")
    >>> home = HomeNode(a, home=a)
    >>> place = Place(b, OperationId(b, 1))
    >>> home.handle(Received(b, Enlist(place)), Instant(0))[0].fact.by is place
    True
    """

    def __init__(self, me: NodeId, home: NodeId) -> None:
        self.me: Final = me
        self.home: Final = home
        self.tail = Place(me, OperationId(me, 1), filler=True)
        """The last place; only the home's means something."""

    def handle(self, event: Event[HomeMessage], _now: Instant) -> Effects:
        match event:
            case Announced(Wanted(name)):
                place = Place(self.me, name)
                if self.me == self.home:
                    return self._enlist(place)
                return [Send(self.home, Enlist(place))]
            case Received(_, Enlist(place)):
                return self._enlist(place)
            case Received(_, Precede(followed)):
                return [Announce(followed)]
            case _:
                return []

    def _enlist(self, place: Place) -> Effects:
        followed = Followed(self.tail, place)
        self.tail = place
        if followed.place.node == self.me:
            return [Announce(followed)]
        return [Send(followed.place.node, Precede(followed))]
