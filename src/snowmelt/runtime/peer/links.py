"""All connections of a process in a pool: those who knock, those that were dialled, their end.

Which of them is the way to whom stands in `ways.py`. A handshake of TLS costs a turn a signature;
a few in each turn, the others wait for the next.
"""

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from snowmelt.core.errors import BadOption, FrameError, HandshakeError, SnowmeltError, Unavailable
from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import Address, NodeId
from snowmelt.core.node import Announced, Event
from snowmelt.core.users import ANYBODY, Account, Accounts, User
from snowmelt.protocols.pool.calls import Coming, NotReceived
from snowmelt.protocols.pool.messages import ObjectsLent
from snowmelt.runtime import near
from snowmelt.runtime.peer.carriers import Carrier, Knocking, carrier
from snowmelt.runtime.peer.config import PeerConfig
from snowmelt.runtime.peer.dialling import Dialler, Missed, Outcomes, set_options
from snowmelt.runtime.peer.limits import FRAME_BYTES_MAX
from snowmelt.runtime.peer.link import Buffers, Link
from snowmelt.runtime.peer.poller import READ, WRITE, Poller, new_poller
from snowmelt.runtime.peer.protection import Protection
from snowmelt.runtime.peer.segments import Segments, Watch
from snowmelt.runtime.peer.stores import Stores
from snowmelt.runtime.peer.ways import Ways
from snowmelt.runtime.statistics import Counts
from snowmelt.wire.connection import Connection, Stage
from snowmelt.wire.greeting import Gate, Role, goodbye
from snowmelt.wire.sides import ConnectionOpened, Listening, Side

ACCEPTED_AT_ONCE: Final = 64
BACKLOG: Final = 1024
HANDSHAKES_A_TURN: Final = 8
LOOK_EVERY: Final = seconds(1)


class Listener:
    """Accepts while it can; pauses when the system has no descriptor left."""

    def __init__(self, poller: Poller, address: Address) -> None:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self._poller = poller
        self._accepting = False
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind((address.host, address.port))
            self.socket.listen(BACKLOG)
            self.socket.setblocking(False)
        except (OSError, OverflowError) as error:
            self.socket.close()
            allowed = f"a free address of this machine ({error})"
            raise BadOption("listen", str(address), allowed) from error
        self.address = Address(address.host, self.socket.getsockname()[1])
        beside = near.listen(self.address, BACKLOG)
        self._sockets = [self.socket] if beside is None else [beside, self.socket]
        self.resume()

    def resume(self) -> None:
        if not self._accepting:
            for one in self._sockets:
                self._poller.add(one, self)
            self._accepting = True

    def pause(self) -> None:
        if self._accepting:
            for one in self._sockets:
                self._poller.remove(one)
            self._accepting = False

    def close(self) -> None:
        self.pause()
        for one in self._sockets:
            one.close()

    def forsake(self) -> None:
        """For a child after a fork: closes its copies."""
        for one in self._sockets:
            one.close()

    def accepted(self) -> Iterator[socket.socket]:
        """Who has knocked; none of them blocks."""
        for listening in self._sockets:
            yield from self._accepted(listening)

    def _accepted(self, listening: socket.socket) -> Iterator[socket.socket]:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                stream, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError:  # no descriptor is left: it would be told again and again
                self.pause()
                return
            stream.setblocking(False)
            yield stream


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


class Links:
    """The links of one process, of its owner's thread."""

    def __init__(
        self,
        config: PeerConfig,
        protection: Protection,
        wake: Callable[[], None],
        watch_gone: Watch,
    ) -> None:
        self.limits = limits = config.limits
        self.stores = Stores(limits.incoming_bytes, limits.silent)
        self.buffers = Buffers()
        self.segments = Segments(limits.shared_bytes, watch_gone)
        self.poller = new_poller()
        self.report: Callable[[Event[Any]], None] = lambda _: None
        """Whom to tell what came."""
        self._me = config.name
        self._protection = protection
        shown = config.credentials
        account = Account(User(shown.user, ANYBODY.permissions), (shown.token,))
        accounts = Accounts({shown.user: account})  # a pool is of one user
        self._gate = Gate(config.cluster, accounts)
        self._outcomes = Outcomes(wake)
        self._dropped = Counts()
        self._dialler = Dialler(config, protection, self._outcomes.add)
        self._ways = Ways(config.name, limits, self._dialler, self._dropped, self._tell)
        self.acquaint = self._ways.acquaint
        self.needed = self._ways.needed
        self.agrees = self._ways.agrees
        self._look_at = Instant(0)
        self._links: dict[Link, None] = {}
        self._strangers: dict[Link, None] = {}
        """Of those, the ones whose other side has not shown who it is."""
        self.stirred: dict[Link, None] = {}
        """Those that have something to send at the end of the turn."""
        self._listener: Listener | None = None
        self._handshakes = 0  # of this turn
        self._past = [0, 0, 0, 0]  # frames and bytes in and out, of links that are gone
        self._total = 0
        self._closed = Counts()

    @property
    def last_failure(self) -> Exception | None:
        """Why a link did not come to be, the last time; nothing once a node is reached."""
        return self._ways.last_failure

    @last_failure.setter
    def last_failure(self, error: Exception | None) -> None:
        self._ways.last_failure = error

    @property
    def next_look(self) -> Instant:
        return min(self._look_at, self._ways.next_dial, self.stores.next_look)

    # --- whole life -------------------------------------------------------------------------------

    def listen(self, address: Address) -> Address:
        """Accepts peers; returns where (a port of 0 takes a free one)."""
        self._listener = Listener(self.poller, address)
        return self._listener.address

    @property
    def unsent(self) -> bool:
        """Whether anything waits to be sent on an open link."""
        links = [link for link in list(self._links) if link.stage is Stage.OPEN]
        return self._ways.held or any(link.outgoing.waits for link in links)

    def stop_listening(self) -> None:
        """Takes no new links, and dials for none."""
        self._ways.stop()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def close(self, reason: SnowmeltError) -> None:
        """Ends all; the others are told why, and nobody may wait for the sockets any more."""
        self.stop_listening()
        for link in list(self._links):
            link.close(reason)
        self._outcomes.end()
        self.segments.close()
        self.poller.close()

    def statistics(self) -> LinkStatistics:
        sums = list(self._past)
        for link in list(self._links):  # asked from any thread
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

    def _tell(self, event: Event[Any]) -> None:
        self.report(event)

    # --- sending ----------------------------------------------------------------------------------

    def send(self, target: NodeId, message: Any) -> None:
        """Sends, at the end of the turn; or dials first; or says what can't leave."""
        link = self._ways.link(target)
        if link is None:
            self._ways.wait(target, message)
            return
        reason = link.send(message)
        if reason:
            self._ways.refuse(target, message, reason)
        self.stirred[link] = None

    def expired(self, consumer: NodeId, token: int) -> None:
        """A loan is over. A link that has not taken all of it by then would keep it for nobody."""
        link = self._ways.link(consumer)
        if link is not None and any(
            isinstance(one, ObjectsLent) and one.token == token
            for one in link.outgoing.unfinished()
        ):
            link.close(FrameError("slow reader: an object has not left in the time of its loan"))

    def stir(self, link: Link) -> None:
        """The link has something to send, at the end of the turn."""
        self.stirred[link] = None

    def flush(self) -> None:
        self._handshakes = 0
        while self.stirred:
            stirred, self.stirred = self.stirred, {}
            for link in stirred:
                link.flush()

    # --- dialling ---------------------------------------------------------------------------------

    def adopt(self) -> None:
        """What dials have brought since the last time."""
        for outcome in self._outcomes:
            self._ways.dialled(outcome.target)
            if isinstance(outcome, Missed):
                self._ways.missed(outcome.target, outcome.error)
                continue
            link = self._begin(outcome.stream, carrier(outcome.stream), outcome.connection)
            if link is not None:
                link.dialled = True
                self.opened(link, outcome.opened, outcome.target)
                link.read()  # TLS may hold bytes that no selector sees

    # --- now and then -----------------------------------------------------------------------------

    def look(self, now: Instant) -> None:
        """Dials that are due, links that have waited too long, room for what is offered."""
        if now >= self._look_at:
            self._look_at = later(now, min(LOOK_EVERY, self.limits.unused))
            if self._listener is not None:
                self._listener.resume()
            for link in list(self._links):
                error = link.overdue(now)
                if error is not None:
                    link.close(error)
                elif link.unused(now):
                    self._ways.unused(link)
            self.segments.look(now)
        self.stores.look(now)
        self._ways.look(now)

    # --- what the selector tells ------------------------------------------------------------------

    def ready(self, owner: Any, mask: int) -> None:
        """Reads and writes where that is possible now."""
        if type(owner) is Link:
            if owner.stage is Stage.GREETING and isinstance(owner.carrier, Knocking):
                self._handshakes += 1
                if self._handshakes > HANDSHAKES_A_TURN:
                    return  # the poller tells of it again
            try:
                if mask & READ:
                    owner.read()
                if mask & WRITE:
                    owner.writable()
            except Exception as error:  # as memory that is not to be had for what comes on it
                owner.end(type(error).__name__)
        elif isinstance(owner, Listener):
            for stream in owner.accepted():
                self._accept(stream)

    def watch(self, link: Link) -> None:
        self.poller.change(link.socket, link, write=link.blocked)

    def _accept(self, stream: socket.socket) -> None:
        protection = self._protection
        try:
            tls = protection.wrap_accepted(stream)
        except (OSError, ValueError, SnowmeltError) as error:  # it is gone already, most often
            self._closed.add(type(error).__name__)
            stream.close()
            return
        if tls is None:
            self._begin(stream, carrier(stream))
        else:
            self._begin(tls, Knocking(tls, protection.shown))

    def _begin(
        self, stream: socket.socket, by: Carrier, greeted: Connection | None = None
    ) -> Link | None:
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
        link = Link(self, stream, by, greeted)
        if greeted is None:
            if len(self._strangers) >= self.limits.strangers:
                others = HandshakeError("others came, and this one has not greeted")
                next(iter(self._strangers)).close(others)
            self._strangers[link] = None
        self._links[link] = None
        self._total += 1
        self.poller.add(stream, link)
        return link

    # --- what links tell --------------------------------------------------------------------------

    def side(self, link: Link) -> Side:
        """Who has dialled says who it is, then proves it."""
        return Listening(
            self._gate,
            self._me,
            Role.PEER,
            FRAME_BYTES_MAX,
            channel=lambda: link.carrier.channel,
        )

    def opened(self, link: Link, opened: ConnectionOpened, target: NodeId | None = None) -> None:
        """The other side has shown who it is; a node is called by the address that was dialled."""
        self._strangers.pop(link, None)
        link.nonce = opened.nonce
        link.open(opened.name, target or opened.name, peer=opened.role is Role.PEER)
        self._ways.opened(link, opened.after)

    def heralded(self, link: Link, message: Any) -> None:
        if isinstance(message, ObjectsLent):
            coming = Coming(
                link.name, message.number, message.attempt, message.token, message.lease
            )
            self.report(Announced(coming))

    def refused(self, link: Link, message: Any, reason: str) -> None:
        self._dropped.add(reason)
        if isinstance(message, ObjectsLent):
            refused = NotReceived(link.name, message.number, message.attempt, message.token)
            self.report(Announced(refused))

    def closed(self, link: Link, reason: str) -> None:
        """A link is gone, and perhaps the way that it was."""
        self.poller.remove(link.socket)
        del self._links[link]
        self._strangers.pop(link, None)
        self.stirred.pop(link, None)
        self._past = [one + more for one, more in zip(self._past, _counts(link), strict=True)]
        self._closed.add(reason.split(":", 1)[0])
        self._ways.closed(link, reason)


def _counts(link: Link) -> tuple[int, int, int, int]:
    return link.incoming.frames, link.outgoing.frames, link.bytes_in, link.bytes_out


def forsake(links: Links) -> None:
    """For a child after a fork: closes its copies of all sockets, and says nothing on them.

    What its parent's poller waits for is the parent's matter, so that is not asked anything.
    """
    for link in links._links:  # noqa: SLF001 - the same file's
        link.socket.close()
        link.sharing.end()
    links.segments.close()
    if links._listener is not None:  # noqa: SLF001
        links._listener.forsake()  # noqa: SLF001
    links._dialler.forsake()  # noqa: SLF001
    links._outcomes.end()  # noqa: SLF001
    links.poller.close()
