"""Links of a simulated pool that end when neither side needs them, as in `runtime/peer/ways.py`.

1. When nothing has passed on a link for a while, one side asks its machine, and if that does not
   need it the other side: which ends it, or needs it. Until it is heard which, what the first one
   says waits. Neither is told that anything is lost.
2. No link on which nothing passes, and that nobody wants, lasts for `FORGOTTEN` in which both are
   awake.
"""

from random import Random
from typing import Any, Final

from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds, spelled
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announce, Effect
from snowmelt.protocols.calling import Lost
from snowmelt.protocols.pool import calls
from snowmelt_world.families.pool_links import WAITING_MAX, Link, Links
from snowmelt_world.families.pool_load import LEAVING, Load
from snowmelt_world.world import Broken, World

ON_ITS_WAY: Final = milliseconds(200)
"""The longest that the word takes."""
FORGOTTEN: Final = Duration(LEAVING + seconds(5))
"""Who leaves needs all its links; a loan lasts no longer than that."""


class Releasing(Links):
    """All links of a life, and how those end that nobody needs."""

    def __init__(
        self,
        world: World,
        peers: tuple[NodeId, ...],
        nodes: tuple[NodeId, ...],
        chance: Random,
        load: Load,
        end: Instant,
        unused: Duration,
    ) -> None:
        super().__init__(world, peers, nodes, chance, load, end)
        self._unused = unused
        self.released = 0
        """How many have ended so."""

    # --- nothing passes ---------------------------------------------------------------------------

    def _look(self, link: Link) -> None:
        if link.ended:
            return
        now = self.world.now
        quiet = Duration(now - link.used)
        self.world.at(later(now, self._unused), self._look, link)
        if quiet < self._unused or not self._stands(link):
            return
        one, other = self._chance.sample(tuple(link.lives), 2)
        if max(self.world.slots[each].paused_until for each in link.lives) > now:
            link.slept = now
        forgotten = min(quiet, now - link.slept) > FORGOTTEN
        if forgotten and not (self._wants(one, other) or self._wants(other, one)):
            text = f"the link of {one} and {other} is open, and nothing has passed on it for"
            raise Broken(f"{text} {spelled(quiet)}", one)
        if link.asker is None:
            link.asker = one
            self._tell(one, calls.Unused(other))

    def _stands(self, link: Link) -> bool:
        one, other = link.lives
        return self._side(one, other).link is link and self._side(other, one).link is link

    def leaves(self, me: NodeId, effects: list[Effect[Any]]) -> list[Effect[Any]]:
        """Those that go out now; whether a link is needed is not for others."""
        out: list[Effect[Any]] = []
        for effect in effects:
            match effect:
                case Announce(calls.Need(target, needed)):
                    self._told(me, target, needed=needed)
                case _:
                    out.append(effect)
        return super().leaves(me, out)

    def _told(self, me: NodeId, target: NodeId, *, needed: bool) -> None:
        side = self._side(me, target)
        link = side.link
        if link is None or link.ended or link.asker is None:
            return
        if link.asker == me and needed:
            link.asker = None
        elif link.asker == me:
            side.link, side.releasing = None, link
            self._word(self._hears, me, target, link)
        elif needed:
            self._word(self._kept, target, me, link)
        else:
            side.link = None
            link.agreed = link.ended = True
            self.released += 1
            self._word(self._ended, target, me, link)

    def _word(self, then: Any, asker: NodeId, other: NodeId, link: Link) -> None:
        wait = Duration(self._chance.randrange(1, ON_ITS_WAY))
        self.world.at(later(self.world.now, wait), then, asker, other, link)

    def _hears(self, asker: NodeId, other: NodeId, link: Link) -> None:
        if self._side(other, asker).link is link and not link.ended:
            self._tell(other, calls.Unused(asker))

    def _kept(self, asker: NodeId, other: NodeId, link: Link) -> None:
        side = self._side(asker, other)
        if side.releasing is not link or link.ended:
            return
        side.link, side.releasing, link.asker = link, None, None
        link.used = self.world.now
        waiting, side.waiting = side.waiting, []
        for message in waiting:
            self.world.post(asker, other, message)

    def _ended(self, asker: NodeId, other: NodeId, link: Link) -> None:
        side = self._side(asker, other)
        if side.releasing is not link:
            return
        side.releasing = None
        known = self._known.get(asker)
        if known is None or other not in known.addresses:
            self._refuse(asker, other)
        elif side.waiting or self._wants(asker, other):
            self._dial(asker, other)

    def _refuse(self, me: NodeId, target: NodeId) -> None:
        side = self._side(me, target)
        waiting, side.waiting = side.waiting, []
        for message in waiting:
            self._unsent(me, target, message)

    # --- what else happens to links ---------------------------------------------------------------

    def _sends(self, me: NodeId, target: NodeId, message: Any) -> bool:
        side = self._side(me, target)
        if side.releasing is None:
            if side.link is not None:
                side.link.used = self.world.now
            return super()._sends(me, target, message)
        if len(side.waiting) < WAITING_MAX:
            side.waiting.append(message)
        else:
            self._unsent(me, target, message)
        return False

    def _dial(self, me: NodeId, target: NodeId) -> None:
        if self._side(me, target).releasing is None:
            super()._dial(me, target)

    def _dialled(self, me: NodeId, life: int, target: NodeId) -> None:
        side = self._side(me, target)
        if side.releasing is not None and self._life(me) == life:
            side.dialling = False
            return
        super()._dialled(me, life, target)

    def _open(self, me: NodeId, target: NodeId) -> None:
        for one, other in ((target, me), (me, target)):
            self._lose_released(one, other)
        super()._open(me, target)
        link = self._side(me, target).link
        assert link is not None
        link.used = self.world.now
        self.world.at(later(link.used, self._unused), self._look, link)

    def _lose_released(self, me: NodeId, target: NodeId) -> None:
        """Whatever becomes of the link, it is no more; it was lost unless that was agreed."""
        side = self._side(me, target)
        link, side.releasing = side.releasing, None
        if link is not None and not link.agreed:
            link.ended = True
            self._refuse(me, target)
            self._tell(me, Lost(target))

    def ended(self, process: NodeId) -> None:
        for peer in self._peers:
            link = self._side(peer, process).releasing
            if link is not None and not link.agreed:
                link.ended = True
                self._notices_soon(peer, process, link, self.told)
        super().ended(process)

    def link(self, me: NodeId, source: NodeId) -> Link | None:
        side = self._side(me, source)
        if side.releasing is None:
            return super().link(me, source)
        return None if side.releasing.ended else side.releasing

    def _notices(self, me: NodeId, target: NodeId, link: Link) -> None:
        if self._side(me, target).releasing is not link or not self._runs(me):
            super()._notices(me, target, link)
            return
        self._lose_released(me, target)
        if self._wants(me, target):
            self._dial(me, target)
