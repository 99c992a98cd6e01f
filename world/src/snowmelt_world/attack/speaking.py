"""Connections that attackers make: greeted ones that send as fast as they can, and bare sockets.

A greeted one says its first words by the product's own code, so a change of the greeting is a
change here too. What it sends after that are frames made before, many at a time: one process sends
thousands of messages a second, over several connections.
"""

import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final

import msgspec

from snowmelt.client.cluster import Cluster
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.names import NodeId
from snowmelt.runtime.credentials import Credentials
from snowmelt.wire.codec import MessageDecoder, encode
from snowmelt.wire.connection import Connection, Ended, Stage
from snowmelt.wire.framing import FrameReader, Kind, framed
from snowmelt.wire.greeting import CLIENT_PREFIX, KEY_BYTES, Role, Speaker, made_of
from snowmelt.wire.sides import Dialling
from snowmelt_world.attack.setting import AttackSetting, Identity, Target
from snowmelt_world.attack.tally import Tally

DIAL_SECONDS: Final = 3.0
READ_BYTES: Final = 256 << 10
STUCK_SECONDS: Final = 2.0
"""A node that takes nothing for so long has enough of this connection; another is made."""
PAUSE_SECONDS: Final = 0.05
"""After a connection that was refused."""
HEARS_EACH: Final = 64
"""Of so many answers one is read."""

Load = tuple[bytes, int]
"""Frames, and how many."""


def bare(target: Target, timeout: float = DIAL_SECONDS) -> socket.socket:
    """A socket, and no word said."""
    return socket.create_connection((target.host, target.port), timeout)


def connected(url: str, who: Identity) -> Cluster:
    """The cluster, for a client of the product that is this one."""
    return Cluster(url, who.secret, who.user)


def speaker(setting: AttackSetting, name: str, role: Role, who: Identity | None = None) -> Speaker:
    """Who says this name; a client's own has the letters before it that prove it."""
    key = sha256(name.encode()).digest()[:KEY_BYTES] if role is Role.CLIENT else b""
    whole = f"{made_of(key)}.{name.removeprefix(CLIENT_PREFIX)}" if key else name
    who = who or setting.attacker
    known = Credentials(token=who.secret, user=who.user)
    return known.speaker(setting.cluster, NodeId(whole), role, key=key)


def greeted(
    setting: AttackSetting, target: Target, name: str, role: Role, who: Identity | None = None
) -> socket.socket:
    """A connection that is open under this name; raises what the node says."""
    machine = Connection(Dialling(speaker(setting, name, role, who)))
    stream = bare(target)
    try:
        while machine.stage is Stage.GREETING:
            stream.sendall(machine.taken())
            _heard(machine, stream.recv(READ_BYTES))
        stream.sendall(machine.taken())
    except BaseException:
        stream.close()
        raise
    return stream


def _heard(machine: Connection, come: bytes) -> None:
    if not come:
        raise ConnectionResetError("the node closed the connection")
    for event in machine.receive(come):
        if type(event) is Ended:
            raise event.error


def message_frame(plain: Any) -> bytes:
    """A message, as plain values or as itself, in its frame."""
    packed = encode(plain) if isinstance(plain, msgspec.Struct) else msgspec.msgpack.encode(plain)
    return framed(Kind.MESSAGE, packed)


class Flood:
    """One connection, made anew whenever it ends, over which loads are sent without a pause."""

    def __init__(
        self,
        dial: Callable[[], socket.socket],
        loads: Iterator[Load],
        tally: Tally,
        heard: Callable[[Any], None] | None = None,
    ) -> None:
        self._dial = dial
        self._loads = loads
        self._tally = tally
        self._heard = heard
        self._stream: socket.socket | None = None
        self._left = memoryview(b"")
        self._count = 0
        self._moved = 0.0
        self._not_before = 0.0
        self._reader = FrameReader()
        self._answers = 0

    @property
    def stream(self) -> socket.socket | None:
        return self._stream

    def ready(self, now: float) -> bool:
        """Whether there is a connection; dials when it is time."""
        if self._stream is not None and now - self._moved > STUCK_SECONDS:
            self._tally.add("stuck")
            self.close()
        if self._stream is None and now >= self._not_before:
            try:
                self._stream = self._dial()
            except (OSError, SnowmeltError) as error:
                self._tally.refused(error)
                self._not_before = now + PAUSE_SECONDS
                return False
            self._tally.add("connections")
            self._stream.setblocking(False)
            self._reader = FrameReader()
            self._left, self._count, self._moved = memoryview(b""), 0, now
        return self._stream is not None

    def write(self, now: float) -> None:
        """Sends what the other side takes now."""
        assert self._stream is not None
        if not self._left:
            load, self._count = next(self._loads)
            self._left = memoryview(load)
        try:
            size = self._stream.send(self._left)
        except BlockingIOError:
            return
        except OSError:
            self._ended()
            return
        self._moved = now
        self._left = self._left[size:]
        if not self._left:
            self._tally.add("inputs", self._count)

    def read(self, now: float) -> None:
        """Takes what was answered."""
        assert self._stream is not None
        try:
            come = self._stream.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._ended()
            return
        self._moved = now
        if not come:
            self._ended()
            return
        with suppress(SnowmeltError):
            for kind, payload in self._reader.feed(come):
                self._take(kind, bytes(payload))

    def _take(self, kind: Kind, payload: bytes) -> None:
        if kind is Kind.GOODBYE:
            self._tally.said(payload)
            return
        self._answers += 1
        self._tally.add("answers")
        if self._heard is not None and self._answers % HEARS_EACH == 0 and len(payload) < 4_096:
            with suppress(SnowmeltError):
                answer = MessageDecoder.for_clients().decode(payload)
                self._heard(msgspec.to_builtins(answer.body, builtin_types=(bytes,)))

    def _ended(self) -> None:
        """The other side has closed: of what was on its way a part was heard."""
        self._tally.add("closed")
        if self._left:
            self._tally.add("inputs", self._count // 2)
        self.close()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def pour(floods: Sequence[Flood], goes_on: Callable[[], bool]) -> None:
    """Drives all of them, until it is over."""
    with selectors.DefaultSelector() as selector:
        known: dict[Flood, socket.socket] = {}
        while goes_on():
            now = time.monotonic()
            for flood in floods:
                before = known.pop(flood, None)
                there = flood.ready(now)
                if before is not None and (not there or flood.stream is not before):
                    with suppress(KeyError, ValueError):
                        selector.unregister(before)
                    before = None
                if there and flood.stream is not None:
                    if before is None:
                        both = selectors.EVENT_READ | selectors.EVENT_WRITE
                        selector.register(flood.stream, both, flood)
                    known[flood] = flood.stream
            if not known:
                time.sleep(PAUSE_SECONDS)
            for key, mask in selector.select(PAUSE_SECONDS):
                one: Flood = key.data
                for bit, move in (
                    (selectors.EVENT_READ, one.read),
                    (selectors.EVENT_WRITE, one.write),
                ):
                    if mask & bit and one.stream is key.fileobj:
                        move(now)
                if one.stream is not key.fileobj:
                    selector.unregister(key.fileobj)
                    known.pop(one, None)
    for flood in floods:
        flood.close()
