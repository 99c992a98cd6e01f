"""Who is reached, by which link; who must be dialled; what waits for that, and what can't leave.

1. There is one link between two processes. When both have dialled at once (neither knew of the
   other's link when it began), the one that was dialled by the lesser name stands, on both sides.
   The other is used for nothing new, and is closed when all that it had to bring has come. When
   the other side has dialled because it has seen the old link's end, the new one stands, and the
   old one is closed at once.
2. A process is `Lost` whenever the link to it has ended, and `Reachable` when one is open: where
   another takes its place both are told, for what was on its way is gone. Nobody waits for half an
   object of a link that is no more.
3. A message to one without a link waits for a dial, if its address is known. What can't leave, and
   what of a link's end had not left, is told the machine, message by message: `Unsent`.
4. To whoever is wanted there is always a link, or a dial, or a pause before the next dial.
5. A link on which nothing has passed for `unused` is ended in agreement, so that hands that change
   leave no links behind. A side whose machine does not need it says `RELEASE`; what it has to say
   from then on waits. The other does as much, and both end the link; or it needs the link, and says
   `KEEP`: then what waited is sent, and the other it is who asks next. Both have said and heard all
   by the end, so nobody is told `Lost`; whatever waited, and whoever is wanted, is dialled. A link
   of which no such word comes ends as any other, and what waited is `Unsent`.
6. The cluster's nodes are called by their addresses, as clients call them; nothing but a call goes
   to a name that is an address, for what else names one was said by another process.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

from snowmelt.core.errors import BadOption, Unavailable
from snowmelt.core.instant import SECOND, Duration, Instant
from snowmelt.core.names import Address, NodeId, address_of
from snowmelt.core.node import Announced, Event
from snowmelt.protocols.calling import Call, Lost
from snowmelt.protocols.pool.calls import Acquaintances, Need, Reachable, Unsent, Unused
from snowmelt.runtime.clock import real_now
from snowmelt.runtime.logs import tell
from snowmelt.runtime.peer.dialling import Dialler
from snowmelt.runtime.peer.limits import PeerLimits
from snowmelt.runtime.peer.link import Link
from snowmelt.runtime.statistics import Counts
from snowmelt.wire.framing import Kind
from snowmelt.wire.greeting import Role

SPARE: Final = Duration(SECOND)
"""So long a link that another stands for is kept, for what the other side has sent by it."""
ENDED_MAX: Final = 10_000
"""So many others' last links are remembered."""


class Way:
    """The way to one other: a link, or a dial with what waits for it."""

    __slots__ = ("dialling", "failures", "link", "not_before", "releasing", "waiting")

    def __init__(self) -> None:
        self.link: Link | None = None
        self.releasing: Link | None = None
        """The same while the other side is asked whether it ends (rule 5)."""
        self.waiting: deque[Any] = deque()
        self.dialling = False
        self.failures = 0
        self.not_before = Instant(0)


class Ways:
    """All ways of one process, under its engine's lock."""

    def __init__(
        self,
        me: NodeId,
        limits: PeerLimits,
        dialler: Dialler,
        dropped: Counts,
        report: Callable[[Event[Any]], None],
    ) -> None:
        self.next_dial = Instant(0)
        """When a dial is due next."""
        self.over = False
        """Whether nobody is dialled any more."""
        self.last_failure: Exception | None = None
        self._report = report
        self._me = me
        self._limits = limits
        self._dialler = dialler
        self._dropped = dropped
        self._chance = Random()
        self._ways: dict[NodeId, Way] = {}
        self._spare: dict[Link, Instant] = {}
        """Links that others stand for, and until when they are kept at least."""
        self._ended: OrderedDict[NodeId, bytes] = OrderedDict()
        """The greetings of the last links that have ended here."""
        self._addresses: dict[NodeId, Address] = {}
        self._wanted: tuple[NodeId, ...] = ()

    # --- sending ----------------------------------------------------------------------------------

    def link(self, target: NodeId) -> Link | None:
        """The one by which a message goes there now."""
        way = self._ways.get(target)
        return None if way is None else way.link

    def wait(self, target: NodeId, message: Any) -> None:
        """There is no link: the message waits for a dial, or can't leave (rule 3)."""
        stranger = ":" in target and type(message) is not Call  # another process said this address
        asked = self._releasing(target) is not None
        if not asked and (self.over or stranger or self._address(target) is None):
            self.refuse(target, message, "no route")
            return
        way = self._ways.setdefault(target, Way())
        if len(way.waiting) >= self._limits.waiting:
            self.refuse(target, message, "too many wait for a dial")
            return
        way.waiting.append(message)
        self._dial(target, way)

    def refuse(self, target: NodeId, message: Any, reason: str) -> None:
        """A message does not leave, and never will."""
        self._dropped.add(reason)
        self._report(Announced(Unsent(target, message)))

    def acquaint(self, told: Acquaintances) -> None:
        """Whom the machine knows, and to whom it wants a link now."""
        self._addresses = told.addresses
        self._wanted = told.wanted
        for target in told.wanted:
            way = self._ways.setdefault(target, Way())
            if way.link is None:
                self._dial(target, way)

    def stop(self) -> None:
        self.over = True
        self._wanted = ()
        self._dialler.stop()

    def _address(self, target: NodeId) -> Address | None:
        try:
            return self._addresses.get(target) or address_of(target)
        except BadOption:  # another process said this address
            return None

    # --- dialling ---------------------------------------------------------------------------------

    def _dial(self, target: NodeId, way: Way) -> None:
        if way.dialling or way.releasing is not None or self.over:
            return
        if way.not_before > real_now():
            self.next_dial = min(self.next_dial, way.not_before)
            return
        address = self._address(target)
        if address is None:
            self._failed(target, way, Unavailable(f"{target} has no address any more"))
            return
        way.dialling = True
        role = Role.CLIENT if ":" in target else Role.PEER
        self._dialler.dial(target, address, role, self._ended.get(target, b""))

    def dialled(self, target: NodeId) -> None:
        self._ways.setdefault(target, Way()).dialling = False

    def missed(self, target: NodeId, error: Exception) -> None:
        self._failed(target, self._ways.setdefault(target, Way()), error)

    def _failed(self, target: NodeId, way: Way, error: Exception) -> None:
        self.last_failure = error
        self._dropped.add(f"dial failed: {type(error).__name__}")
        limits = self._limits
        pause = min(limits.first_pause << min(way.failures, 10), limits.longest_pause)
        way.failures += 1
        way.not_before = Instant(real_now() + round(pause * self._chance.uniform(0.5, 1)))
        self.next_dial = min(self.next_dial, way.not_before)
        if way.link is not None or way.releasing is not None:
            return
        self._refuse_waiting(target, way, "its dial failed")
        self._report(Announced(Lost(target)))

    def _refuse_waiting(self, target: NodeId, way: Way, reason: str) -> None:
        waiting, way.waiting = way.waiting, deque()
        for message in waiting:
            self.refuse(target, message, reason)

    def look(self, now: Instant) -> None:
        """Dials that are due, and spare links that are of no more use."""
        self.next_dial = Instant(now + SECOND)
        for link, until in list(self._spare.items()):
            if now >= until and link.idle:
                link.close()
        for target in dict.fromkeys((*self._wanted, *self._ways)):
            way = self._ways.setdefault(target, Way())
            if way.link is not None or way.releasing is not None or way.dialling:
                continue
            if way.waiting or target in self._wanted:
                self._dial(target, way)
            elif way.not_before < now:
                del self._ways[target]

    # --- links that nobody needs (rule 5) --------------------------------------------------------

    @property
    def held(self) -> bool:
        """Whether anything waits for a link of which it is not known whether it ends."""
        return any(way.releasing is not None and way.waiting for way in self._ways.values())

    def _releasing(self, target: NodeId) -> Link | None:
        way = self._ways.get(target)
        return None if way is None else way.releasing

    def unused(self, link: Link) -> None:
        """Nothing has passed on it for long: the machine knows whether it is needed."""
        if self.link(link.target) is link:
            self._report(Announced(Unused(link.target)))

    def needed(self, told: Need) -> None:
        way = self._ways.get(told.target)
        link = None if way is None else way.link
        if way is None or link is None:
            return
        if told.needed or not link.quiet:
            if link.use.heard:
                self._keep(link)
            return
        way.link, way.releasing = None, link
        self._release(link)

    def agrees(self, link: Link, kind: Kind) -> None:
        use = link.use
        if kind is Kind.RELEASE:
            use.heard = True
            if use.said:
                link.end("released")
            elif self.link(link.target) is link:
                self._report(Announced(Unused(link.target)))
            else:
                self._keep(link)
        elif use.said:
            use.said = use.asks = False
            way = self._ways[link.target]
            if way.releasing is link:
                way.link, way.releasing = link, None
                self._send_waiting(link, way)

    def _keep(self, link: Link) -> None:
        link.use.heard = False
        link.use.asks = True
        link.say(Kind.KEEP)

    def _release(self, link: Link) -> None:
        use = link.use
        use.said = True
        use.since = real_now()
        link.say(Kind.RELEASE)
        if use.over and not link.outgoing.waits:
            link.end("released")

    # --- links begin and end ----------------------------------------------------------------------

    def opened(self, link: Link, after: bytes) -> None:
        """A link is open; `after` is what its dialler had seen the end of (rule 1)."""
        target = link.target
        way = self._ways.setdefault(target, Way())
        asked = way.releasing
        if asked is not None:
            asked.read()  # the word that it ends may have come, and not be heard yet
            asked.close(Unavailable("another link was made in its place"))
        old = way.link
        replaced = old is not None and (old.nonce == after or old.dialled is link.dialled)
        if old is not None and not replaced and not self._prevails(link):
            self._spare[link] = Instant(real_now() + SPARE)
            return
        way.link = link
        way.failures = 0
        way.not_before = Instant(0)
        if old is None:
            if ":" in target:  # a node: introductions come
                self.last_failure = None
            else:
                self._report(Announced(Reachable(target)))
        elif replaced:
            old.close(Unavailable("another link was made in its place"))  # rule 2 follows
        else:
            self._spare[old] = Instant(real_now() + SPARE)
        self._send_waiting(link, way)

    def _send_waiting(self, link: Link, way: Way) -> None:
        """What has waited for a link that is open now."""
        waiting, way.waiting = way.waiting, deque()
        for message in waiting:
            reason = link.send(message)
            if reason:
                self.refuse(link.target, message, reason)
        link.flush()

    def _prevails(self, link: Link) -> bool:
        """Whether a link stands when the other side has dialled too."""
        dialler = self._me if link.dialled else link.name
        return dialler == min(self._me, link.name)

    def closed(self, link: Link, reason: str) -> None:
        """A link is gone, and perhaps the way that it was."""
        target = link.target
        way = self._ways.get(target)
        spare = self._spare.pop(link, None) is not None
        if way is None:
            return
        asked = way.releasing is link
        if asked:
            way.releasing = None
        elif way.link is None and not spare and not link.use.over:
            return
        if link.nonce:
            self._ended[target] = link.nonce
            self._ended.move_to_end(target)
            if len(self._ended) > ENDED_MAX:
                self._ended.popitem(last=False)
        if spare and link.complete:
            return  # it had brought all, and nobody counts on it
        if way.link is link or asked:
            way.link = None if way.link is link else way.link
            self.next_dial = Instant(0)  # if it is wanted it is dialled anew
        if link.use.over and not self.over:
            return  # what has waited is dialled
        if asked:
            self._refuse_waiting(target, way, "its link ended")
        if link.use.over:
            return
        tell("a way ended", 10, peer=target, reason=reason)
        for message in link.outgoing.unfinished():
            self.refuse(target, message, "its link ended")
        self._report(Announced(Lost(target)))
        if way.link is not None:
            self._report(Announced(Reachable(target)))
