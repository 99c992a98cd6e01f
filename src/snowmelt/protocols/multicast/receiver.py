"""What one node hears of one topic, and how it finds what it did not hear: rules 6 to 9."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from snowmelt.core.instant import Instant, since
from snowmelt.core.names import NodeId
from snowmelt.core.node import Effect, Send
from snowmelt.protocols.multicast.calls import Position, Publication
from snowmelt.protocols.multicast.circle import Circle
from snowmelt.protocols.multicast.messages import (
    Acknowledge,
    Broadcast,
    FetchPublications,
    FindFirst,
    Have,
)
from snowmelt.protocols.multicast.settings import MulticastSettings
from snowmelt.protocols.multicast.topic_log import ZERO, Arrival, TopicLog


class Search:
    """One node asks all members what is the first that each has from here on (rule 7).

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


Effects = list[Effect[Any]]

FETCH_BYTES: Final = 4 << 20


class TopicReceiver:
    """One topic's line at one node, and the search for what is missing in it."""

    def __init__(self, name: str, circle: Circle, settings: MulticastSettings) -> None:
        self.line: Final = TopicLog(settings.kept_messages, settings.kept_bytes)
        self._name = name
        self._circle = circle
        self._settings = settings
        self._search: Search | None = None
        self._goal: Position | None = None  # the furthest end told of; None before any search
        self._held_up_at: Position | None = None

    @property
    def abreast(self) -> bool:
        """Whether this node knows of nothing that it has not handed on."""
        return self._circle.current and self._goal is not None and self.line.next >= self._goal

    @property
    def unbegun(self) -> bool:
        """Whether no member knows anything of this topic."""
        return self.abreast and self.line.next == ZERO

    # --- what is said -----------------------------------------------------------------------------

    def said(self, source: NodeId, publications: Sequence[Publication], now: Instant) -> Effects:
        arrived = [(one.first, self.line.take(one)) for one in publications]
        here = tuple(first for first, arrival in arrived if arrival is Arrival.HERE)
        beyond = tuple(first for first, arrival in arrived if arrival is Arrival.BEYOND)
        heard = Acknowledge(self._name, self._circle.life, here, beyond)
        return [Send(source, heard), *self.moved(now)]

    def moved(self, now: Instant) -> Effects:
        """Something came: it may be what was sought, or make this node know that it is behind."""
        search, early = self._search, self.line.early
        if search is not None and search.start != self.line.next:
            search = self._search = None
        elif search is not None and search.brought(early):
            return self._skip(now)
        if self._goal is not None:
            self._goal = max(self._goal, self.line.furthest)
        if search is None and early is not None and early.era != self.line.next.era:
            return self._begin(now)
        return []

    def upto(self, end: Position) -> None:
        """Another node has come so far (rule 9)."""
        if self._goal is not None:
            self._goal = max(self._goal, end)

    def ends(self, end: Position, now: Instant) -> Effects:
        """So says the baton (rule 11)."""
        self.upto(end)
        return [] if self.abreast or self._search is not None else self._begin(now)

    # --- what other nodes seek --------------------------------------------------------------------

    def asked(self, source: NodeId, start: Position) -> Effects:
        first = self.line.first_from(start)
        return [Send(source, Have(self._name, start, first, self.line.furthest))]

    def fetched(self, source: NodeId, start: Position) -> Effects:
        kept = self.line.kept_from(start, FETCH_BYTES)
        return [Send(source, Broadcast(self._name, kept))] if kept else []

    # --- what this one seeks ----------------------------------------------------------------------

    def begin(self, now: Instant) -> Effects:
        unknown = self._goal is None and self._search is None
        return self._begin(now) if unknown else self._look(now)

    def stop(self) -> None:
        self._search = None

    def have(self, source: NodeId, have: Have, now: Instant) -> Effects:
        if self._search is None:
            return []
        self._search.hear(source, have)
        return self._look(now)

    def beat(self, now: Instant) -> Effects:
        """Seeks on; or begins to, when this node has been held up for a beat."""
        search = self._search
        if search is None:
            before, self._held_up_at = self._held_up_at, self.line.next
            held_up = not self.abreast and before == self.line.next
            return self._begin(now) if held_up else []
        if search.fetching is None:
            ask = FindFirst(self._name, search.start)
            again: Effects = [Send(node, ask) for node in search.silent(self._circle.others)]
            return again + self._look(now)
        if since(search.begun, now) >= self._settings.patience:
            return self._begin(now)  # whoever had it is gone, or has forgotten it
        node, first = search.fetching
        return [Send(node, FetchPublications(self._name, first))]

    def _begin(self, now: Instant) -> Effects:
        if not self._circle.current:
            return []
        self._search = Search(self.line.next, now)
        ask = FindFirst(self._name, self.line.next)
        asked: Effects = [Send(node, ask) for node in self._circle.others]
        return asked + self._look(now)

    def _look(self, now: Instant) -> Effects:
        """Whether all have answered, or have had the time to."""
        search = self._search
        if search is None or search.fetching is not None:
            return []
        early, found = self.line.early, search.first
        late = since(search.begun, now) >= self._settings.patience
        smallest = found is not None and found[1] == search.start  # nobody can have a smaller one
        if search.silent(self._circle.others) and not (late or smallest):
            return []
        if found is None and early is None:
            self.line.begin(max(self._goal or ZERO, search.end))
            self._search, self._goal = None, self.line.next
            return []
        self._goal = max(self._goal or ZERO, search.end, self.line.furthest)
        if found is None or (early is not None and early <= found[1]):
            return self._skip(now)
        search.fetching = found
        return [Send(found[0], FetchPublications(self._name, found[1]))]

    def _skip(self, now: Instant) -> Effects:
        """Rule 8: what lies between is not to be had."""
        self._search = None
        self.line.skip()
        effects = self.moved(now)
        if not self.abreast and self._search is None:
            effects += self._begin(now)
        return effects
