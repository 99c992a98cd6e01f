"""One node's question to all members: what is the first that you have from here on? Rule 7."""

from collections.abc import Iterable

from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.protocols.multicast.calls import Position
from snowmelt.protocols.multicast.messages import Have


class Search:
    """The answers so far, and what came of them.

    >>> search = Search(Position(1, 5), Instant(0))
    >>> n2, n3 = NodeId("n2"), NodeId("n3")
    >>> search.hear(n2, Have("a", Position(1, 5), Position(1, 9), Position(1, 12)))
    >>> search.silent([n2, n3])
    ['n3']
    """

    def __init__(self, start: Position, now: Instant) -> None:
        self.start = start
        self.begun = now
        self.fetching: tuple[NodeId, Position] | None = None
        """What is being fetched, and from whom; None until everybody has answered."""
        self._answers: dict[NodeId, Have] = {}

    def hear(self, source: NodeId, have: Have) -> None:
        """An answer; one to another question is passed over."""
        if have.start == self.start:
            self._answers[source] = have

    def silent(self, members: Iterable[NodeId]) -> list[NodeId]:
        """Who of these has not answered."""
        return [one for one in members if one not in self._answers]

    def brought(self, early: Position | None) -> bool:
        """Whether what was fetched has come: the first that is here and too early tells."""
        return self.fetching is not None and early is not None and early <= self.fetching[1]

    @property
    def first(self) -> tuple[NodeId, Position] | None:
        """The smallest position that somebody has, and who."""
        found = [(one.first, node) for node, one in self._answers.items() if one.first is not None]
        if not found:
            return None
        first, node = min(found)
        return node, first

    @property
    def end(self) -> Position:
        """How far the furthest has come."""
        return max((one.end for one in self._answers.values()), default=self.start)
