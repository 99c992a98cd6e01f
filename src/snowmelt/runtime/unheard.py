"""Connections whose other side hears nothing: a network in between is silent.

A system that has no acknowledgement says the same again, after a pause that doubles. So when that
network is a way again, such a connection is none for about as long as the silence was. Nodes and
clients end it, and dial anew. A process that stands still is heard all the same: its system
acknowledges.
"""

import socket
import sys
from typing import Final

from snowmelt.runtime import near

UNACKNOWLEDGED_MS: Final = 3_000
TRIES: Final = 3
"""So often in a row the same was sent: for 1.4 s at least."""
_RETRANSMITS: Final = 2
"""Where Linux tells that in what it knows of a connection."""


def end_unheard(stream: socket.socket) -> None:
    """Has the system end it. Not for who may be read late: what nobody reads is no less unheard."""
    if hasattr(socket, "TCP_USER_TIMEOUT") and not near.is_near(stream):
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)


def is_unheard(stream: socket.socket) -> bool:
    """Whether the same was said some times and not acknowledged, as far as the system tells."""
    if sys.platform != "linux" or near.is_near(stream):
        return False
    told = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RETRANSMITS + 1)
    return told[_RETRANSMITS] >= TRIES
