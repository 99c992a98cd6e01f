"""What every queue under comparison is asked to do."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Literal, Protocol, get_args

WAIT_SECONDS = 30.0
"""The most any one wait for a server takes."""


Way = Literal["one", "many", "tasks"]
"""A call carries one item, or many; or one, of many tasks of an event loop."""

EVERY: Final[frozenset[Way]] = frozenset(get_args(Way))


class Missing(Exception):
    """A peer that cannot take part here; says what to install, or what its server said."""


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


Connect = Callable[[], Client]


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


ConnectTasks = Callable[[], Awaitable[TaskClient]]


class Peer(Protocol):
    """A server in some setting, with its processes."""

    name: str
    promise: str
    """When the disk has what was acknowledged."""

    flushes_first: bool
    """Whether that is before the acknowledgement."""

    ways: frozenset[Way]
    """How it is used here."""

    version: str
    """Known once started."""

    def start(self, folder: Path) -> None:
        """Runs it with its data in `folder`, until it takes connections. May raise `Missing`."""

    def client(self, queue: str, batch: int) -> Connect:
        """How to connect to a queue, in a form that can be handed to another process."""

    def tasks(self, queue: str, tasks: int) -> ConnectTasks:
        """How to connect for so many tasks of one process, in such a form too."""

    def stop(self) -> None:
        """Ends what `start` began, however far that came."""
