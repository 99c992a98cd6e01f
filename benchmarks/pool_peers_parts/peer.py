"""What every queue under comparison is asked to do."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from benchmarks.pool_peers_parts.cell import Cell

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


class Peer(Protocol):
    """A queue in some setting."""

    name: str
    promise: str
    """What becomes of an object whose consumer dies, and where objects wait."""
    batches_only: bool
    """Whether another peer is the same for single objects."""
    version: str
    """Known once started."""

    def start(self, folder: Path) -> None:
        """Runs what it needs, with its data in `folder`. May raise `fifo.peer.Missing`."""

    def open(self, queue: str, cell: Cell) -> Connect:
        """An empty queue in which as many objects may wait as the cell says."""

    def remove(self, queue: str) -> None:
        """The queue is not needed any more."""

    def stop(self) -> None:
        """Ends what `start` began, however far that came."""
