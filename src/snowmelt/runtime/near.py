"""The short way between processes of one machine: a Unix socket beside the TCP port.

A process that listens on loopback also listens under a name that is made of that address, among
the system's abstract names (Linux has them). Whoever dials the address looks under that name
first. No byte then passes through TCP, which costs both sides a good part of a small message.

1. Only plain links take it; those of TLS go by TCP.
2. Only processes of one user take it. Anybody may claim a name, so the system is asked whose
   process listens there before a word is said to it.
3. Nobody needs it: where there is no such name, or another has it, TCP serves. A process that is
   started with SNOWMELT_NEAR=no neither offers it nor takes it.
"""

import contextlib
import os
import socket
import struct
import sys
from typing import Final

from snowmelt.core.loopback import is_loopback
from snowmelt.core.names import Address

POSSIBLE: Final = sys.platform == "linux" and os.environ.get("SNOWMELT_NEAR") != "no"
UNSENT_BYTES: Final = 4 << 20
"""The system gives as much of it as it allows."""
_PEER: Final = struct.Struct("3i")
"""What Linux tells of the other side: its process, its user, its group."""


def listen(address: Address, backlog: int) -> socket.socket | None:
    """Listens beside an address; None where that is not to be had."""
    if not POSSIBLE or not is_loopback(address.host):
        return None
    try:
        stream = _stream()
    except OSError:  # no descriptor is left
        return None
    try:
        stream.bind(_name(address))
        stream.listen(backlog)
    except OSError:  # somebody has the name
        stream.close()
        return None
    return stream


def reach(address: Address) -> socket.socket | None:
    """A connection to whoever listens beside an address; None when none of this user does.

    It is had at once or not at all, and does not block.
    """
    if not POSSIBLE or not is_loopback(address.host):
        return None
    try:
        stream = _stream()
    except OSError:  # no descriptor is left; TCP will say so
        return None
    with contextlib.suppress(OSError):  # nobody listens there, or too many knock at once
        stream.connect(_name(address))
        if is_own(stream):
            return stream
    stream.close()
    return None


def is_near(stream: socket.socket) -> bool:
    return POSSIBLE and stream.family == socket.AF_UNIX


def is_own(stream: socket.socket) -> bool:
    """Whether the other side is a process of this one's user."""
    told = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _, user, _ = _PEER.unpack(told)
    return bool(user == os.geteuid())


def make_room(stream: socket.socket) -> None:
    """Room for what is sent and not read yet: a large object wants more than there is at first."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNSENT_BYTES)


def _stream() -> socket.socket:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.setblocking(False)
    return stream


def _name(address: Address) -> str:
    host = "127.0.0.1" if address.host == "localhost" else address.host
    return f"\0snowmelt/{host}:{address.port}"
