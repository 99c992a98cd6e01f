"""The arrows of all names at one node, and the edges under them: rules 2 to 5."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announce, Announced, Effect, Expired, Received, Send
from snowmelt.protocols.arrow import (
    ArrowNode,
    Branch,
    Find,
    Followed,
    Observer,
    OrderPlace,
    RequestPlace,
)
from snowmelt.protocols.arrow.node import EdgeAlarm
from snowmelt.protocols.baton.context import NEVER, NodeContext
from snowmelt.protocols.baton.messages import Along, Message, Unwatched

NUMBERS: Final = 2**60
AT_ONCE: Final = 500
"""So many names are looked at together."""
FEW: Final = 100
"""Of so many names each edge is observed as often as another (rule 4)."""
DOUBLINGS: Final = 2
DOUBLINGS_MAX: Final = 5
"""Of many names an edge is observed a quarter as often each time; the third time lasts a minute."""


class Went(NamedTuple):
    effects: list[Effect[Message]]
    followed: list[Followed]
    """Places of this node that have got somebody behind them."""


class NameArrow:
    """The arrow of one name, and which edge it watches."""

    __slots__ = ("arrow", "awake", "branch", "calm", "due", "look", "rests", "watched")

    def __init__(self, arrow: ArrowNode, branch: Branch, now: Instant) -> None:
        self.arrow = arrow
        self.branch = branch
        """Which part of the tree it stands on."""
        self.due: Instant | None = None
        """When edges to children are to be observed again."""
        self.awake = now
        """Until when its edges are watched."""
        self.watched = now
        """When the parent observed last."""
        self.calm = 0
        """How often it was observed, here or by the parent, since anything happened to the name."""
        self.rests = now
        """Until when its edges are not observed, where there are many names (rule 4)."""
        self.look = now
        """Before this there is nothing to do for it on a beat, where there are many names."""

    @property
    def doublings(self) -> int:
        """Of the time between two looks at its edges, where there are many names."""
        return min(DOUBLINGS * self.calm, DOUBLINGS_MAX)


class Arrows:
    def __init__(self, here: NodeContext) -> None:
        self._here = here
        self._ways: dict[str, NameArrow] = {}
        self._branch = Branch(None, ())
        self._branched = Instant(0)
        """When that came to be."""
        self._sent: dict[NodeId, int] = {}
        self._heard: dict[NodeId, tuple[int, int]] = {}
        self.late = 0
        """Words that came twice, out of order, or from an earlier life."""

    # --- from above -------------------------------------------------------------------------------

    def ask(self, name: str, now: Instant) -> tuple[OrderPlace, Went]:
        way = self._way(name, now)
        number = OperationId(self._here.me, self._here.chance.randrange(NUMBERS))
        went = self._step(name, way, way.arrow.handle(Announced(RequestPlace(number)), now))
        return way.arrow.arrow.tail, went

    def points_at(self, name: str) -> NodeId:
        way = self._known(name)
        return self._unturned if way is None else way.arrow.arrow.points_at

    def wake(self, name: str, now: Instant) -> None:
        """Something happens to this name: its edges are watched for a while."""
        self._way(name, now)

    def asleep(self, name: str, now: Instant) -> bool:
        """Whether nothing has happened to this name for long."""
        way = self._known(name)
        return way is None or way.awake < now

    def names(self) -> Iterable[str]:
        return self._ways.keys()

    def due(self, now: Instant) -> Iterable[str]:
        """Those that are to be looked at on a beat: of many names, few."""
        if len(self._ways) <= FEW:
            return self._ways.keys()
        branch = self._branch
        ways = self._ways.items()
        return [name for name, way in ways if way.look <= now or way.branch is not branch]

    def end(self, name: str, now: Instant) -> OrderPlace:
        return self._way(name, now, lasting=False).arrow.arrow.tail

    def leads_to(self, name: str, place: OrderPlace) -> bool:
        """Whether the arrow ends here, and at this place."""
        way = self._known(name)
        return way is not None and way.arrow.arrow.is_sink and way.arrow.arrow.tail == place

    def forgettable(self, name: str) -> bool:
        """Whether the arrow points where rule 2 would have it point."""
        return self.points_at(name) == self._unturned

    def fold(self, name: str) -> None:
        """Nobody uses this name: rule 2 says where its arrow points."""
        self._ways.pop(name, None)

    # --- from the tree ----------------------------------------------------------------------------

    def grow(self, branch: Branch, now: Instant) -> dict[str, Went]:
        """The tree has changed here; every arrow follows, and every edge is watched again.

        Where there are many names, each follows before anything else happens to it, and on the beat
        at the latest: all at once they would hold up a node for a third of a second.
        """
        self._branch, self._branched = branch, now
        if len(self._ways) > AT_ONCE:
            return {}
        return {
            name: self._step(
                name, way, self._regrown(way).arrow.handle(Expired(EdgeAlarm.OBSERVE), now)
            )
            for name, way in self._ways.items()
        }

    def _known(self, name: str) -> NameArrow | None:
        """The name's way, on the tree as it is."""
        way = self._ways.get(name)
        return way if way is None or way.branch is self._branch else self._regrown(way)

    def _regrown(self, way: NameArrow) -> NameArrow:
        """It stands on the newest branch; its new edges are due to be observed."""
        way.branch, way.watched = self._branch, self._branched
        way.calm, way.rests, way.look = 0, self._branched, self._branched
        way.awake = max(way.awake, later(self._branched, self._here.settings.awake))
        way.arrow.grow(self._branch, self._branched)
        way.due = min(way.arrow.due.values(), default=None)
        return way

    def wake_all(self, now: Instant) -> None:
        """A new view: who was beyond an edge may have forgotten what is here."""
        for way in self._ways.values():
            way.awake, way.look = later(now, self._here.settings.awake), now

    # --- from neighbours --------------------------------------------------------------------------

    def received(self, source: NodeId, along: Along, now: Instant) -> Went:
        """A word along an edge, in order or not at all (rule 3)."""
        life, last = self._heard.get(source, (0, 0))
        again = along.life == life and along.number <= last
        if along.life != self._here.life_of(source) or again:
            self.late += 1
            return Went([], [])
        self._heard[source] = along.life, along.number
        way = self._way(along.name, now, lasting=isinstance(along.message, Find | Unwatched))
        match along.message:
            case Unwatched():
                return Went([], [])  # the way is there now, and its edges are in the tree's hands
            case Observer() if source == self._branch.parent:
                way.watched = now
                way.calm += 1
            case _:
                pass
        return self._step(along.name, way, way.arrow.handle(Received(source, along.message), now))

    def beat(self, names: Iterable[str], now: Instant) -> dict[str, Went]:
        """Observes what is due of these names, and says where nobody does."""
        went: dict[str, Went] = {}
        timeout, many = self._here.settings.arrow.timeout, len(self._ways) > FEW
        for name in names:
            way = self._known(name)
            if way is None:
                continue
            if way.awake < now:
                way.look = NEVER
                continue
            step = Went([], [])
            if way.due is not None and way.due <= now and not (many and now < way.rests):
                step = self._step(name, way, way.arrow.handle(Expired(EdgeAlarm.OBSERVE), now))
                way.calm += 1
                way.rests = later(now, Duration(timeout << way.doublings))
            patience = timeout << (1 + way.doublings * many)
            way.look = NEVER if way.due is None else max(way.due, way.rests)
            if self._branch.parent is not None:
                if now - way.watched > patience:
                    way.watched = now
                    step.effects.append(self._word(name, self._branch.parent, Unwatched()))
                way.look = min(way.look, later(way.watched, Duration(patience)))
            if step.effects or step.followed:
                went[name] = step
        return went

    def check(self) -> None:
        for way in self._ways.values():
            way.arrow.check()

    # --- inside -----------------------------------------------------------------------------------

    @property
    def _unturned(self) -> NodeId:
        """Where the arrow of a name points that was never heard of (rule 2)."""
        return self._branch.parent or self._here.me

    def _way(self, name: str, now: Instant, *, lasting: bool = True) -> NameArrow:
        """The name's way; one that was not there points to the parent (rule 2)."""
        way = self._known(name)
        if way is None:
            here = self._here
            first = here.chance.randrange(NUMBERS)
            arrow = ArrowNode(here.me, here.settings.arrow, here.chance, fillers=first)
            way = self._ways[name] = NameArrow(arrow, self._branch, now)
            arrow.handle(Announced(self._branch), now)
            if self._branch.parent is not None:
                arrow.arrow.points_at = self._branch.parent
            way.due = min(arrow.due.values(), default=None)
            lasting = True
        if lasting:
            way.awake = later(now, self._here.settings.awake)
            way.calm, way.rests, way.look = 0, now, now
        return way

    def _step(self, name: str, way: NameArrow, effects: Sequence[Effect[object]]) -> Went:
        went = Went([], [])
        way.due = None if not way.arrow.due else min(way.arrow.due.values())
        for effect in effects:
            match effect:
                case Send(target, message):
                    went.effects.append(self._word(name, target, message))
                case Announce(Followed() as followed):
                    went.followed.append(followed)
                case _:
                    pass  # timers: `due` says the same
        return went

    def _word(self, name: str, to: NodeId, message: object) -> Send[Message]:
        number = self._sent[to] = self._sent.get(to, 0) + 1
        return Send(to, Along(name, self._here.life, number, message))  # type: ignore[arg-type]
