"""How the bytes of a link get into the system and out of it: as they are, or within TLS.

A carrier never blocks: when it can do nothing now it raises one of `NOT_NOW`. A read that brings
less than there was room for has left nothing behind. TLS knows neither scattered writes nor
scattered reads, takes and gives a record of 16 KiB at most at a time, and may hold bytes that no
selector sees: all that is hidden here.
"""

import contextlib
import os
import socket
import ssl
from array import array
from collections import deque
from typing import Final, Protocol, Self

from snowmelt.core.errors import HandshakeError
from snowmelt.runtime import near
from snowmelt.runtime.peer.protection import why

NOT_NOW: Final = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
DESCRIPTORS_MAX: Final = 4
"""So many that came and were not asked for are kept; no honest peer sends two before the word."""
TLS_HANDSHAKE: Final = b"\x16"
"""The first byte of whoever begins with TLS."""


_ROOM: Final = socket.CMSG_SPACE(DESCRIPTORS_MAX * 4)


class Carrier(Protocol):
    """What a link reads from and writes to."""

    @property
    def channel(self) -> bytes:
        """What both sides know of the connection, for their proofs; empty where it is plain."""

    def ready(self) -> "Carrier":
        """The one to read from now. Raises `HandshakeError`."""

    def send(self, pieces: list[memoryview]) -> int:
        """How many bytes of the pieces were taken."""

    def receive(self, room: memoryview, more: memoryview | None = None) -> int:
        """How many bytes came: into the room first, what is beyond it into `more`; 0 at the end."""

    @property
    def hidden(self) -> int:
        """How many bytes are there that no selector tells of."""


class Plain:
    """A stream without TLS."""

    channel = b""
    hidden = 0

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream

    def ready(self) -> Self:
        return self

    def send(self, pieces: list[memoryview]) -> int:
        """All pieces in one write."""
        if len(pieces) == 1:
            return self._stream.send(pieces[0])
        return self._stream.sendmsg(pieces)

    def receive(self, room: memoryview, more: memoryview | None = None) -> int:
        if more is None:
            return self._stream.recv_into(room)
        return self._stream.recvmsg_into([room, more])[0]


class Near(Plain):
    """The same between processes of one machine, and descriptors with the bytes."""

    def __init__(self, stream: socket.socket) -> None:
        super().__init__(stream)
        self._came: deque[int] = deque()

    def show(self, pieces: list[memoryview], descriptor: int) -> int:
        """Sends, and a descriptor with the first byte."""
        one = array("i", [descriptor])
        return self._stream.sendmsg(pieces, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, one)])

    def receive(self, room: memoryview, more: memoryview | None = None) -> int:
        """One read; the system ends it behind bytes with a descriptor."""
        rooms = [room] if more is None else [room, more]
        count, told, _, _ = self._stream.recvmsg_into(rooms, _ROOM, socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in told:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self._came.extend(array("i", data[: len(data) // 4 * 4]))
        while len(self._came) > DESCRIPTORS_MAX:
            os.close(self._came.popleft())
        return count

    def descriptor(self) -> int | None:
        """The next that came, which is whoever's who asks."""
        return self._came.popleft() if self._came else None

    def close(self) -> None:
        """Those that nobody asked for."""
        while self._came:
            os.close(self._came.popleft())


class Secure:
    """Bytes within TLS, its handshake done."""

    def __init__(self, stream: ssl.SSLSocket, channel: bytes = b"") -> None:
        self._stream = stream
        self.channel = channel

    @property
    def hidden(self) -> int:
        """The rest of a record that was read in part."""
        return self._stream.pending()

    def ready(self) -> Self:
        return self

    def send(self, pieces: list[memoryview]) -> int:
        """One piece after the other, a record at a time, until the system takes no more."""
        sent = 0
        try:
            for piece in pieces:
                at = 0
                while at < len(piece):
                    count = self._stream.send(piece[at:])
                    at += count
                    sent += count
        except OSError:  # whatever it is, it comes again
            if not sent:
                raise
        return sent

    def receive(self, room: memoryview, more: memoryview | None = None) -> int:
        """Until the room is full, or nothing more has come."""
        del more
        count = self._stream.recv_into(room)
        came = count
        with contextlib.suppress(OSError):  # whatever it is, it comes again
            while count and came < len(room):
                count = self._stream.recv_into(room[came:])
                came += count
        return came


class Knocking:
    """Somebody who must speak TLS, until the handshake is done."""

    channel = b""
    hidden = 0

    def __init__(self, stream: ssl.SSLSocket, channel: bytes) -> None:
        self._stream = stream
        self._channel = channel
        self._begun = False

    def ready(self) -> Secure:
        """Goes on with the handshake, as far as what has come allows."""
        if not self._begun:
            first = socket.socket.recv(self._stream, 1, socket.MSG_PEEK)
            if first and first != TLS_HANDSHAKE:
                text = "links to this process are TLS; give authority=FILE in the URL"
                raise HandshakeError(text)
            self._begun = True
        try:
            self._stream.do_handshake()
        except NOT_NOW:
            raise
        except ssl.SSLError as error:
            raise HandshakeError(f"TLS failed: {why(error)}") from error
        return Secure(self._stream, self._channel)

    def send(self, pieces: list[memoryview]) -> int:
        """Beneath TLS: to one who does not speak it, a last word; to others nothing."""
        if self._begun:
            return 0
        return socket.socket.sendmsg(self._stream, pieces)

    def receive(self, room: memoryview, more: memoryview | None = None) -> int:
        del room, more
        raise BlockingIOError


def carrier(stream: socket.socket) -> Carrier:
    """For a stream that has no handshake before it; descriptors pass between one user's only."""
    if near.is_near(stream) and near.is_own(stream):
        return Near(stream)
    return Secure(stream) if isinstance(stream, ssl.SSLSocket) else Plain(stream)
