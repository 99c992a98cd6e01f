"""The places of one name at one node: who wants each, and who comes before and behind: rule 6."""

from collections.abc import Collection, Iterable, Iterator

import msgspec

from snowmelt.core.instant import Duration, Instant
from snowmelt.core.names import NodeId
from snowmelt.protocols.arrow import OrderPlace
from snowmelt.protocols.baton.context import NodeContext


class TrackedPlace(msgspec.Struct):
    """A place in the order, from when this node hears of it until the baton has passed it."""

    place: OrderPlace
    since: Instant
    ticket: int | None = None
    """Whose it is; None when nobody's any more, or a filler: then the baton is passed on."""
    before: OrderPlace | None = None
    """The place that passes the baton to this one."""
    behind: OrderPlace | None = None
    """The place to which this one passes it."""
    taken: bool = False
    """Whether that one was somebody's when this place came behind it."""
    cut: bool = False
    """Whether there was one before it, which is gone, or apart."""
    doubted: Instant = Instant(0)
    """When the one before it was last asked."""

    def orphan(self, now: Instant, patience: Duration) -> bool:
        """Whether somebody waits for this turn, and nobody is known to bring the baton."""
        if self.before is not None or (self.ticket is None and self.behind is None):
            return False
        return self.cut or (self.ticket is None and now - self.since >= patience)


class TrackedPlaces:
    """All turns of one name at one node.

    >>> from snowmelt.core.names import OperationId
    >>> a, b = (OrderPlace(NodeId(node), OperationId(NodeId(node), 1)) for node in "ab")
    >>> turns = TrackedPlaces()
    >>> turns.follow(a, b, Instant(0)).behind.node
    'b'
    >>> turns.follow(a, a, Instant(0)) is None
    True
    >>> turns.prune([NodeId("b")])
    []
    >>> turns.at(a, Instant(0)).behind is None
    True
    """

    def __init__(self) -> None:
        self._turns: dict[OrderPlace, TrackedPlace] = {}

    def __len__(self) -> int:
        return len(self._turns)

    def __iter__(self) -> Iterator[TrackedPlace]:
        return iter(list(self._turns.values()))

    def wanted(self, place: OrderPlace) -> int | None:
        """The ticket for which this place was asked, as long as it is wanted."""
        turn = self._turns.get(place)
        return None if turn is None else turn.ticket

    def taken(self, places: Iterable[OrderPlace]) -> bool:
        """Whether one of these came behind a place that was somebody's."""
        return any(self._turns[place].taken for place in places if place in self._turns)

    def at(self, place: OrderPlace, now: Instant) -> TrackedPlace:
        """The turn of a place; one that this node has forgotten, or healing made, is nobody's."""
        turn = self._turns.get(place)
        if turn is None:
            turn = self._turns[place] = TrackedPlace(place, now)
        return turn

    def follow(self, place: OrderPlace, by: OrderPlace, now: Instant) -> TrackedPlace | None:
        """Somebody is behind this place now; None when another was before."""
        turn = self.at(place, now)
        if turn.behind is not None and turn.behind != by:
            return None
        turn.behind = by
        return turn

    def put_behind(
        self, place: OrderPlace, before: OrderPlace, now: Instant, *, taken: bool
    ) -> None:
        """This place has one before it. The first word counts; a second would tie a knot."""
        turn = self.at(place, now)
        if turn.before is None:
            turn.before, turn.taken, turn.cut = before, taken, False

    def onward(self, place: OrderPlace, now: Instant, here: NodeContext) -> OrderPlace | None:
        """To which place the token goes on from here; None when this one is wanted, or the last."""
        turn = self.at(place, now)
        if turn.ticket is not None:
            return None
        turn.before, turn.cut = None, False
        if turn.behind is None or not here.has(turn.behind.node):
            return None
        self.drop(turn)
        return turn.behind

    def drop(self, turn: TrackedPlace) -> None:
        self._turns.pop(turn.place, None)

    def prune(self, gone: Collection[NodeId]) -> list[TrackedPlace]:
        """These nodes are gone, or know nothing any more; returns which turns are cut by that."""
        cut = []
        for turn in self._turns.values():
            if turn.behind is not None and turn.behind.node in gone:
                turn.behind = None
            if turn.before is not None and turn.before.node in gone:
                turn.before, turn.cut = None, True
                cut.append(turn)
        return cut

    def part(self, place: OrderPlace, before: OrderPlace) -> TrackedPlace | None:
        """These two do not belong together any more; the turn that is cut by that, if they did."""
        turn = self._turns.get(place)
        if turn is None or turn.before != before:
            return None
        turn.before, turn.cut = None, True
        return turn

    def joined(self, before: OrderPlace, place: OrderPlace) -> bool:
        turn = self._turns.get(before)
        return turn is not None and turn.behind == place

    def forget(self, now: Instant, age: Duration, kept: OrderPlace | None) -> None:
        """Drops what nobody waits for and nothing ever came to."""
        for turn in self:
            idle = turn.ticket is None and turn.behind is None
            if idle and turn.place != kept and now - turn.since > age:
                self.drop(turn)
