"""How every queue between processes is used."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.peers.comparison import Peer
from benchmarks.peers.pool.cell import Cell

Body = bytes | bytearray | memoryview


class Client(Protocol):
    """One process' end of one queue; it puts, or it gets."""

    def put(self, bodies: list[bytes]) -> None:
        """Puts all, waiting for room; returns when the queue is answerable for them."""

    def get(self, count: int, seconds: float) -> Sequence[Body]:
        """Up to `count`, waiting so long for the first; none when none came."""

    def ack(self) -> None:
        """Says that what the last `get` gave is done with; returns when that is known."""

    def close(self) -> None:
        """Ends it, when what was put is with the consumers."""


Connect = Callable[[], Client]
"""Makes a client in the process that calls it; it can be handed to a process that starts."""


def nothing(service: Any, queue: str) -> None:
    """The queue is gone with its clients."""


@dataclass(kw_only=True)
class PoolPeer(Peer):
    """A queue in some setting; above the line if it delivers at least once."""

    open: Callable[[Any, str, Cell], Connect]
    """Given the service: an empty queue in which as many objects may wait as the cell says."""
    remove: Callable[[Any, str], None] = field(default=nothing)
    """The queue is not needed any more."""
    batches_only: bool = False
    """Whether another peer is the same for single objects."""
