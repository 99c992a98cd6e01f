"""Batons and topics of a folder: the machines that a node has for them, in a cluster of one.

What is asked of an open folder, and who calls for batons, as `connection.clients` has it.

Each of these has a name of its own, as a connection has, so that the machine learns when one is
gone.
"""

from collections import deque
from random import Random
from typing import Any, Final, Protocol

from snowmelt.client.connection.clients import Clients
from snowmelt.client.connection.session import new_name
from snowmelt.core.errors import Closed
from snowmelt.core.instant import Duration, Instant, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Effect, Event, Reply, Requested
from snowmelt.core.record import Record
from snowmelt.protocols import baton, multicast
from snowmelt.protocols.baton.settings import BatonSettings
from snowmelt.protocols.host import Family
from snowmelt.protocols.membership import GetStatus, Status, View
from snowmelt.protocols.multicast.settings import MulticastSettings

ME: Final = NodeId("embedded")
FOR_BATONS: Final = frozenset((GetStatus, *baton.MESSAGES, *multicast.MESSAGES))
"""What is asked of them; and where they are, which they alone ask."""
SAVED: Final[Duration] = seconds(1)
"""By then a value that was given up is on the disk: two beats."""


class SingleNodeView:
    """Tells how this node sees its cluster: it is all of it."""

    def __init__(self, view: View) -> None:
        self._status = Status(ME, "current", view, {})

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        del now
        return [Reply(event.operation, self._status)] if isinstance(event, Requested) else []

    def check(self) -> None:
        """There is nothing to be wrong."""


def machines_of_batons(view: View) -> list[Family]:
    """What holds batons and topics in a view of one node."""
    return [
        Family("membership", SingleNodeView(view), (GetStatus,)),
        *baton.families(ME, BatonSettings(), Random(), alone=True),
        multicast.family(ME, MulticastSettings(), Random()),
    ]


def of_batons(
    records: tuple[Record, ...], damaged: tuple[bytes, ...]
) -> tuple[tuple[Record, ...], tuple[bytes, ...]]:
    """What of a disk is theirs, for when they begin."""
    return (
        tuple(one for one in records if one.key.startswith(b"baton/")),
        tuple(key for key in damaged if key.startswith(b"baton/")),
    )


class Called(Protocol):
    def call_as(self, client: NodeId, body: Any, timeout: float) -> Any: ...

    def gone(self, client: NodeId) -> None:
        """Nobody calls by it any more."""


class LocalCaller:
    """One of them, in place of a connection."""

    def __init__(self, machine: Called) -> None:
        self._machine = machine
        self._name = new_name()
        self.needed: deque[None] = deque()
        """One for each hold that came by it and was not renewed since."""
        self.closed = False

    def call(self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0) -> Any:
        """Calls, waits, and returns the answer's body; raises what went wrong."""
        del target, weight
        return self._machine.call_as(self._name, body, timeout)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._machine.gone(self._name)


class LocalCallers(Clients):
    """As many as call at once; a few of them are kept for the next."""

    def __init__(self, machine: Called) -> None:
        self._machine = machine
        self._idle = []
        self._lent = {}  # none: its end is the folder's, which ends its calls
        self.ended = lambda _: None
        self.closed = False

    def lend(self) -> Any:
        """One for a borrower alone, who gives it back, or closes it."""
        if self.closed:
            raise Closed("this cluster is closed")
        try:
            return self._idle.pop()
        except IndexError:
            return LocalCaller(self._machine)
