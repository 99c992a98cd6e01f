"""How every queue under comparison is used: by threads that block, or by tasks that wait."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, get_args

from benchmarks.peers.comparison import Peer
from benchmarks.peers.fifo.cell import Way

EVERY: Final[frozenset[Way]] = frozenset(get_args(Way))


class Client(Protocol):
    """One connection to one queue."""

    def put(self, bodies: list[bytes]) -> None:
        """Returns when the server has answered for all."""

    def take(self, count: int) -> int:
        """Gets and acknowledges up to `count`, and returns how many; 0 when there are none."""

    def settle(self) -> None:
        """Ends what is still open, such as an acknowledgement that would ride on the next call."""

    def close(self) -> None:
        """Ends the connection, and the queue where the server can delete one."""


class TaskClient(Protocol):
    """One process' way to one queue, used by many tasks of its loop at once."""

    async def put(self, body: bytes) -> None:
        """Returns when the server has answered."""

    async def take(self, task: int) -> None:
        """Gets one item and acknowledges it, on behalf of that task."""

    async def settle(self, task: int) -> None:
        """Ends what that task has still open."""

    async def close(self) -> None:
        """Ends the connections, and the queue where the server can delete one."""


Connect = Callable[[Any, str, int], Client]
"""Given the service's address, the queue, and the items a call."""
ConnectTasks = Callable[[Any, str, int], Awaitable[TaskClient]]
"""Given the service's address, the queue, and how many tasks."""


@dataclass(kw_only=True)
class QueuePeer(Peer):
    """A queue in some setting."""

    client: Connect | None = None
    tasks: ConnectTasks | None = None
    ways: frozenset[Way] = EVERY
