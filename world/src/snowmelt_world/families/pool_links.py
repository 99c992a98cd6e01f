"""The links between the processes of a simulated pool, as `runtime/peer/links.py` has them.

1. A process knows the addresses that its machine names (`Acquaintances`), and dials those that it
   wants. A dial takes its time, and may fail: then the machine is told `Lost`.
2. A message to one without a link waits for a dial if its address is known. What can't wait, or
   whose dial fails, is told to the machine (`Unsent`): it has not left the process.
3. A link ends when one of its processes does, or for no reason. Each side notices at once, or late;
   what it sends before is lost without a word, and then it is told `Lost`. Both may dial again; who
   has not noticed yet is told `Lost`, and at once `Reachable`.
4. Two processes may be unable to reach each other though both reach everybody else.
"""

from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announce, Effect, Send
from snowmelt.protocols.calling import Gone, Lost
from snowmelt.protocols.pool import calls
from snowmelt_world.families.pool_load import Load
from snowmelt_world.families.pool_ways import Ways
from snowmelt_world.world import World

WAITING_MAX: Final = 6
"""So many messages wait for a dial."""
UNNOTICED: Final = seconds(8)
"""The longest that a side goes on with a link that has ended."""
PAUSE: Final = seconds(1)
"""The longest between a dial that failed and the next."""


class Link(msgspec.Struct, eq=False):
    """Between two lives."""

    lives: dict[NodeId, int]
    ended: bool = False
    used: Instant = Instant(0)
    """When something was sent by it last."""
    slept: Instant = Instant(0)
    """When one of the two was last seen asleep."""
    asker: NodeId | None = None
    """Who asks whether it may end (`pool_releasing.py`)."""
    agreed: bool = False
    """Whether it has ended so."""


class Side(msgspec.Struct, eq=False):
    link: Link | None = None
    releasing: Link | None = None
    """The same while it is not known whether it ends (`pool_releasing.py`)."""
    dialling: bool = False
    waiting: list[Any] = []
    not_before: Instant = Instant(0)


class Links(Ways):
    def __init__(
        self,
        world: World,
        peers: tuple[NodeId, ...],
        nodes: tuple[NodeId, ...],
        chance: Random,
        load: Load,
        end: Instant,
    ) -> None:
        super().__init__(world, peers, nodes, chance)
        self._load = load
        self._end = end
        self._sides: dict[tuple[NodeId, NodeId], Side] = {}
        self._known: dict[NodeId, calls.Acquaintances] = {}
        self._apart: dict[tuple[NodeId, NodeId], tuple[Instant, Instant]] = {}
        for number, one in enumerate(peers):
            for other in peers[number + 1 :]:
                if chance.random() < load.apart:
                    self._draw_apart(one, other)

    def _draw_apart(self, one: NodeId, other: NodeId) -> None:
        since = Instant(self._chance.choice((0, self._chance.randrange(self._end))))
        until = Instant(self._chance.randrange(since, self._end + 1))
        self._apart[one, other] = self._apart[other, one] = since, until
        self.world.at(since, self._break, one, other)

    # --- what a process sends ---------------------------------------------------------------------

    def leaves(self, me: NodeId, effects: list[Effect[Any]]) -> list[Effect[Any]]:
        """Those that go out now; what has to wait is sent later, or told to have been dropped."""
        out: list[Effect[Any]] = []
        for effect in effects:
            match effect:
                case Send(target, message) if target != me and target in self._peers:
                    if self._sends(me, target, message):
                        out.append(effect)
                case Announce(calls.Acquaintances() as told):
                    self._acquaint(me, told)
                case _:
                    out.append(effect)
        return out

    def _sends(self, me: NodeId, target: NodeId, message: Any) -> bool:
        side = self._side(me, target)
        if side.link is not None:
            if side.link.ended:
                self._soon(self._notices, me, target, side.link)
                self.broke(me, target)  # for what is sent now, however long ago it ended
                return False  # it is lost on its way
            return True
        known = self._known.get(me)
        if known is None or target not in known.addresses or len(side.waiting) >= WAITING_MAX:
            self._unsent(me, target, message)
            return False
        side.waiting.append(message)
        self._dial(me, target)
        return False

    def _acquaint(self, me: NodeId, told: calls.Acquaintances) -> None:
        self._known[me] = told
        for target in told.wanted:
            if self._side(me, target).link is None:
                self._dial(me, target)

    def _side(self, me: NodeId, target: NodeId) -> Side:
        return self._sides.setdefault((me, target), Side())

    def _unsent(self, me: NodeId, target: NodeId, message: Any) -> None:
        self._tell(me, calls.Unsent(target, message))

    # --- dialling ---------------------------------------------------------------------------------

    def _dial(self, me: NodeId, target: NodeId) -> None:
        side = self._side(me, target)
        if side.dialling:
            return
        side.dialling = True
        begin = max(self.world.now, side.not_before)
        wait = Duration(self._chance.randrange(1, self._load.dial))
        self.world.at(later(begin, wait), self._dialled, me, self._life(me), target)

    def _dialled(self, me: NodeId, life: int, target: NodeId) -> None:
        side = self._side(me, target)
        if not self._runs(me) or self._life(me) != life:
            return
        side.dialling = False
        if side.link is not None:
            return
        if self._reaches(me, target):
            self._open(me, target)
        else:
            self._failed(me, target, side)

    def _reaches(self, me: NodeId, target: NodeId) -> bool:
        world, now = self.world, self.world.now
        since, until = self._apart.get((me, target), (now, now))
        apart = since <= now < until
        heard = world.network.fate(me, target, now) and world.network.fate(target, me, now)
        failing = now < self._end and self._chance.random() < self._load.failing
        return self._runs(target) and bool(heard) and not apart and not failing

    def _failed(self, me: NodeId, target: NodeId, side: Side) -> None:
        waiting, side.waiting = side.waiting, []
        for message in waiting:
            self._unsent(me, target, message)
        self._tell(me, Lost(target))
        side.not_before = later(self.world.now, Duration(self._chance.randrange(1, PAUSE)))
        if self._wants(me, target):
            self._dial(me, target)

    def _open(self, me: NodeId, target: NodeId) -> None:
        link = Link({me: self._life(me), target: self._life(target)})
        for one, other in ((target, me), (me, target)):
            side = self._side(one, other)
            if side.link is not None:  # it ended, and nobody here has noticed
                side.link.ended = True
                self._tell(one, Lost(other))
            side.link = link
            self._tell(one, calls.Reachable(other))
            waiting, side.waiting = side.waiting, []
            for message in waiting:
                self.world.at(self.world.now, self.world.post, one, other, message)

    # --- links end --------------------------------------------------------------------------------

    def link(self, me: NodeId, source: NodeId) -> Link | None:
        side = self._side(me, source)
        return None if side.link is None or side.link.ended else side.link

    def ended(self, process: NodeId) -> None:
        self._known.pop(process, None)
        for peer in self._peers:
            if peer == process:
                continue
            self._sides.pop((process, peer), None)
            link = self._side(peer, process).link
            if link is not None:
                link.ended = True
                self._notices_soon(peer, process, link, self.told)
        for node in self._nodes:
            if self._chance.random() < self.told:
                self._soon(self._tell, node, Gone(process))

    def began(self, process: NodeId) -> None:
        """Others dial it when they hear of it."""

    def break_some(self) -> None:
        self._break(*self._chance.sample(self._peers, 2))

    def lose(self, peer: NodeId, process: NodeId) -> None:
        """It ends, and this side knows at once."""
        link = self.link(peer, process)
        if link is not None:
            link.ended = True
            self._notices(peer, process, link)
            self._notices_soon(process, peer, link, 0.8)

    def _break(self, one: NodeId, other: NodeId) -> None:
        link = self.link(one, other)
        if link is not None:
            link.ended = True
            self._notices_soon(one, other, link, 0.8)
            self._notices_soon(other, one, link, 0.8)

    def _notices_soon(self, me: NodeId, target: NodeId, link: Link, at_once: float) -> None:
        self.broke(me, target)
        if self._chance.random() < at_once:
            self._soon(self._notices, me, target, link)
        else:
            wait = Duration(self._chance.randrange(milliseconds(1), UNNOTICED))
            self.world.at(later(self.world.now, wait), self._notices, me, target, link)

    def _notices(self, me: NodeId, target: NodeId, link: Link) -> None:
        side = self._side(me, target)
        if side.link is not link or not self._runs(me):
            return
        side.link = None
        self._tell(me, Lost(target))
        if self._wants(me, target):
            self._dial(me, target)

    # --- who there is -----------------------------------------------------------------------------

    def _wants(self, me: NodeId, target: NodeId) -> bool:
        known = self._known.get(me)
        return known is not None and target in known.wanted

    def _runs(self, process: NodeId) -> bool:
        return self.world.slots[process].node is not None

    def _life(self, process: NodeId) -> int:
        return self.world.slots[process].life
