"""All connections of a process in a pool: who is reached, who must be dialled, what is dropped.

1. Two processes may have several links between them, since both may dial. Whoever sends takes the
   newest; a process is `Lost` when its last link has ended, and `Reached` when its first is open.
2. A message to one without a link waits for a dial, if its address is known; else it is dropped.
   When the dial fails so does what waits for it, and the machine is told `Lost`, each time.
3. To whoever is wanted there is always a link, or a dial, or a pause before the next dial.
4. The cluster's nodes are called by their addresses, as clients call them.
5. A handshake of TLS costs the lock a signature; a few in each turn, the others wait for the next.
"""

import contextlib
import socket
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.errors import BadOption, HandshakeError, SnowmeltError, TooLarge, Unavailable
from snowmelt.core.instant import SECOND, Instant, later
from snowmelt.core.names import Address, NodeId, address_of
from snowmelt.core.node import Announced, Event
from snowmelt.protocols.calling import Lost
from snowmelt.protocols.pool.calls import Acquaintances, Coming, Reached
from snowmelt.protocols.pool.messages import Found
from snowmelt.runtime.clock import steady_now
from snowmelt.runtime.logs import tell
from snowmelt.runtime.peer import dialling
from snowmelt.runtime.peer.carriers import Carrier, Knocking, Plain, carrier
from snowmelt.runtime.peer.dialling import Caller, Dialler, Missed, set_options
from snowmelt.runtime.peer.incoming import Stores
from snowmelt.runtime.peer.limits import FRAME_BYTES_MAX, PeerLimits
from snowmelt.runtime.peer.link import Buffers, Link, Stage
from snowmelt.runtime.peer.listener import Listener
from snowmelt.runtime.peer.poller import READ, WRITE, new_poller
from snowmelt.runtime.statistics import Counts
from snowmelt.wire.codec import Codec
from snowmelt.wire.framing import Kind
from snowmelt.wire.greeting import Hello, Proof, Role, goodbye, heard, said

FOR_EVER: Final = Instant(1 << 62)
HANDSHAKES_A_TURN: Final = 8


class LinkStatistics(msgspec.Struct, frozen=True):
    """The links of one process, since it began; `closed` and `dropped` count by reason."""

    links: int
    links_total: int
    frames_in: int
    frames_out: int
    bytes_in: int
    bytes_out: int
    closed: dict[str, int]
    dropped: dict[str, int]


class Way:
    """The way to one other: links, or a dial with what waits for it."""

    __slots__ = ("dialling", "failures", "links", "not_before", "waiting")

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.waiting: deque[Any] = deque()
        self.dialling = False
        self.failures = 0
        self.not_before = Instant(0)


class Links:
    """The links of one process, under its engine's lock."""

    def __init__(
        self,
        caller: Caller,
        limits: PeerLimits,
        wake: Callable[[], None],
    ) -> None:
        self.limits = limits
        self.stores = Stores(limits.incoming_bytes)
        self.buffers = Buffers()
        self.poller = new_poller()
        self.last_failure: Exception | None = None
        self.over = False
        self.eager = False
        """Whether a message leaves at once, and not with others at the end of the turn."""
        self.report: Callable[[Event[Any]], None] = lambda _: None
        """Whom to tell what came."""
        self.next_look = Instant(0)
        """When `look` has something to do next."""
        self._caller = caller
        self._wake = wake
        self._chance = Random()
        self._dialler = Dialler(caller, limits, self._dialled)
        self._outcomes: deque[dialling.Reached | Missed] = deque()
        self._ways: dict[NodeId, Way] = {}
        self._links: dict[Link, None] = {}
        self._dirty: dict[Link, None] = {}
        self._addresses: dict[NodeId, Address] = {}
        self._wanted: tuple[NodeId, ...] = ()
        self._listener: Listener | None = None
        self._handshakes = 0  # of this turn
        self._past = [0, 0, 0, 0]  # frames and bytes in and out, of links that are gone
        self._total = 0
        self._closed = Counts()
        self._dropped = Counts()

    # --- whole life -------------------------------------------------------------------------------

    def listen(self, address: Address) -> Address:
        """Accepts peers; returns where (a port of 0 takes a free one)."""
        self._listener = Listener(self.poller, address)
        return self._listener.address

    @property
    def unsent(self) -> bool:
        """Whether anything waits to be sent on an open link."""
        return any(link.outgoing for link in list(self._links) if link.stage is Stage.OPEN)

    def stop_listening(self) -> None:
        """Takes no new links, and dials for none."""
        self.over = True
        self._wanted = ()
        self._dialler.stop()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def end(self, reason: SnowmeltError) -> None:
        """Ends all links; the others are told why."""
        self.stop_listening()
        for link in list(self._links):
            link.close(reason)
        self._drop_outcomes()

    def close(self, reason: SnowmeltError) -> None:
        """Ends all; nobody may wait for the sockets any more."""
        self.end(reason)
        self.poller.close()

    def statistics(self) -> LinkStatistics:
        """How they are, now."""
        sums = list(self._past)
        for link in self._links:
            sums = [one + more for one, more in zip(sums, _counts(link), strict=True)]
        frames_in, frames_out, bytes_in, bytes_out = sums
        return LinkStatistics(
            links=len(self._links),
            links_total=self._total,
            frames_in=frames_in,
            frames_out=frames_out,
            bytes_in=bytes_in,
            bytes_out=bytes_out,
            closed=self._closed.read(),
            dropped=self._dropped.read(),
        )

    # --- sending ----------------------------------------------------------------------------------

    def send(self, target: NodeId, message: Any) -> None:
        """Sends, at the end of the turn if not eager; or dials first, or drops and counts."""
        way = self._ways.get(target)
        if way is not None and way.links:
            link = way.links[-1]
            try:
                link.send(message)
            except TooLarge:
                self._dropped.add("too large")
            if self.eager:
                link.flush()
            else:
                self._dirty[link] = None
            return
        if self._address(target) is None:
            self._dropped.add("no route")
            return
        if way is None:
            way = self._ways[target] = Way()
        if len(way.waiting) >= self.limits.waiting:
            self._dropped.add("too many wait for a dial")
            return
        way.waiting.append(message)
        self._dial(target, way)

    def flush(self) -> None:
        """Sends what this turn has added."""
        self._handshakes = 0
        while self._dirty:
            dirty, self._dirty = self._dirty, {}
            for link in dirty:
                link.flush()

    def acquaint(self, told: Acquaintances) -> None:
        """Whom the machine knows, and to whom it wants a link now."""
        self._addresses = told.addresses
        self._wanted = told.wanted
        for target in told.wanted:
            way = self._ways.setdefault(target, Way())
            if not way.links:
                self._dial(target, way)

    def _address(self, target: NodeId) -> Address | None:
        try:
            return self._addresses.get(target) or address_of(target)
        except BadOption:  # another process said this address
            return None

    # --- dialling ---------------------------------------------------------------------------------

    def _dial(self, target: NodeId, way: Way) -> None:
        if way.dialling:
            return
        if way.not_before > steady_now():
            self.next_look = min(self.next_look, way.not_before)
            return
        address = self._address(target)
        if address is None:
            self._failed(target, way, Unavailable(f"{target} has no address any more"))
            return
        way.dialling = True
        self._dialler.dial(target, address, Role.CLIENT if ":" in target else Role.PEER)

    def _dialled(self, outcome: dialling.Reached | Missed) -> None:
        """In a dialling thread."""
        self._outcomes.append(outcome)
        if self.over:
            self._drop_outcomes()
        else:
            self._wake()

    def adopt(self) -> None:
        """Takes over what the dials have brought."""
        while self._outcomes:
            outcome = self._outcomes.popleft()
            way = self._ways.setdefault(outcome.target, Way())
            way.dialling = False
            if isinstance(outcome, Missed):
                self._failed(outcome.target, way, outcome.error)
                continue
            codec = Codec.for_peers() if outcome.role is Role.PEER else Codec.for_clients()
            link = self._begin(outcome.stream, carrier(outcome.stream), codec)
            if link is not None:
                self._open(link, outcome.name, outcome.target, outcome.frame_max)
                link.read()  # TLS may hold bytes that no selector sees

    def _drop_outcomes(self) -> None:
        with contextlib.suppress(IndexError):  # two threads may do it at once
            while True:
                outcome = self._outcomes.popleft()
                if not isinstance(outcome, Missed):
                    outcome.stream.close()

    def _failed(self, target: NodeId, way: Way, error: Exception) -> None:
        self.last_failure = error
        self._dropped.add(f"dial failed: {type(error).__name__}")
        for _ in way.waiting:
            self._dropped.add("its dial failed")
        way.waiting.clear()
        limits = self.limits
        pause = min(limits.first_pause << min(way.failures, 10), limits.longest_pause)
        way.failures += 1
        way.not_before = Instant(steady_now() + round(pause * self._chance.uniform(0.5, 1)))
        self.next_look = min(self.next_look, way.not_before)
        if not way.links:
            self.report(Announced(Lost(target)))

    # --- now and then -----------------------------------------------------------------------------

    def look(self, now: Instant) -> None:
        """Dials that are due, links that have waited too long."""
        self.next_look = later(now, SECOND)
        if self._listener is not None:
            self._listener.resume()
        for link in list(self._links):
            error = link.overdue(now)
            if error is not None:
                link.close(error)
        for target in dict.fromkeys((*self._wanted, *self._ways)):
            way = self._ways.setdefault(target, Way())
            if way.links or way.dialling:
                continue
            if way.waiting or target in self._wanted:
                self._dial(target, way)
            elif way.not_before < now:
                del self._ways[target]

    # --- what the selector tells ------------------------------------------------------------------

    def ready(self, owner: Any, mask: int) -> None:
        """Reads and writes where that is possible now."""
        if type(owner) is Link:
            if owner.stage is Stage.GREETING and isinstance(owner.carrier, Knocking):
                self._handshakes += 1
                if self._handshakes > HANDSHAKES_A_TURN:
                    return  # the poller tells of it again
            if mask & READ:
                owner.read()
            if mask & WRITE:
                owner.writable()
        elif isinstance(owner, Listener):
            for stream in owner.accepted():
                self._accept(stream)

    def watch(self, link: Link) -> None:
        """What the link waits for has changed."""
        self.poller.change(link.socket, link, write=link.blocked)

    def _accept(self, stream: socket.socket) -> None:
        protection = self._caller.protection
        try:
            tls = protection.wrap_accepted(stream)
        except (OSError, ValueError, SnowmeltError) as error:  # it is gone already, most often
            self._closed.add(type(error).__name__)
            stream.close()
            return
        if tls is None:
            self._begin(stream, Plain(stream), Codec.for_peers())
        else:
            self._begin(tls, Knocking(tls, protection.shown), Codec.for_peers())

    def _begin(self, stream: socket.socket, by: Carrier, codec: Codec) -> Link | None:
        if len(self._links) >= self.limits.links:
            self._closed.add("too many links")
            refusal = Unavailable(f"this process has {len(self._links)} links, its most")
            with contextlib.suppress(OSError):
                stream.send(goodbye(refusal))
            stream.close()
            return None
        try:
            set_options(stream)
        except OSError:  # it is gone already
            stream.close()
            return None
        link = Link(self, stream, by, codec)
        self._links[link] = None
        self._total += 1
        self.poller.add(stream, link)
        return link

    # --- what links tell --------------------------------------------------------------------------

    def greeted(self, link: Link, kind: Kind, payload: bytes) -> None:
        """A peer that dialled: says who it is, then proves it."""
        gate, me = self._caller.gate.on(link.carrier.channel), self._caller.name
        if kind is Kind.HELLO and link.hello is None:
            link.hello = hello = heard(payload, Hello)
            gate.check_peer(hello)
            link.welcome = gate.welcome(hello, me, FRAME_BYTES_MAX)
            link.outgoing.add_frame(said(Kind.WELCOME, link.welcome))
            link.flush()
        elif kind is Kind.PROVE and link.hello is not None and link.welcome is not None:
            gate.check_proof(link.hello, link.welcome, heard(payload, Proof))
            name = NodeId(link.hello.name)
            self._open(link, name, name, FRAME_BYTES_MAX)
        else:
            raise HandshakeError(f"{kind.name} does not stand here in a greeting")

    def _open(self, link: Link, name: NodeId, target: NodeId, frame_max: int) -> None:
        link.open(name, target, frame_max)
        way = self._ways.setdefault(target, Way())
        first = not way.links
        way.links.append(link)
        way.failures = 0
        way.not_before = Instant(0)
        while way.waiting:
            self.send(target, way.waiting.popleft())
        if ":" in target:  # a node: introductions come
            self.last_failure = None
        elif first:
            self.report(Announced(Reached(target)))

    def heralded(self, link: Link, message: Any) -> None:
        """A large message has begun to come."""
        if isinstance(message, Found):
            coming = Coming(
                link.name, message.number, message.attempt, message.token, message.lease
            )
            self.report(Announced(coming))

    def closed(self, link: Link, reason: str) -> None:
        """A link is gone, and perhaps the way that it was."""
        self.poller.remove(link.socket)
        del self._links[link]
        self._dirty.pop(link, None)
        self._past = [one + more for one, more in zip(self._past, _counts(link), strict=True)]
        self._closed.add(reason.split(":", 1)[0])
        way = self._ways.get(link.target)
        if way is None or link not in way.links:
            return
        way.links.remove(link)
        if not way.links:
            tell("a way ended", 10, peer=link.target, reason=reason)
            self.next_look = Instant(0)  # if it is wanted it is dialled anew
            self.report(Announced(Lost(link.target)))


def _counts(link: Link) -> tuple[int, int, int, int]:
    return link.incoming.frames, link.outgoing.frames, link.bytes_in, link.bytes_out
