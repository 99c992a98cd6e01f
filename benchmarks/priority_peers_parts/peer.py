"""What every queue with priorities is asked to do, beside what `benchmarks/fifo/peer.py` says."""

from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from random import Random
from typing import Final, Protocol

from benchmarks.fifo import peer

PRIORITIES: Final = 4
"""0 is the most urgent."""


class TaskClient(Protocol):
    """One process' way to one queue, used by many tasks of its loop at once."""

    async def put(self, body: bytes, priority: int) -> None:
        """Returns when the server has answered."""

    async def take(self, task: int) -> None:
        """Gets one item and acknowledges it, on behalf of that task."""

    async def settle(self, task: int) -> None:
        """Ends what that task has still open."""

    async def close(self) -> None:
        """Ends the connections, and the queue where the server can delete one."""


ConnectTasks = Callable[[], Awaitable[TaskClient]]


class Peer(peer.Peer, Protocol):
    """A server in some setting."""

    def tasks(self, queue: str, tasks: int) -> ConnectTasks:
        """How to connect for so many tasks, in a form that can be handed to another process."""


def urgencies() -> Iterator[int]:
    """The priorities of the items a client puts: each as often as any other."""
    return (number % PRIORITIES for number in count())


def any_priorities() -> Iterator[int]:
    """Of the items a client puts, where any whole number of 64 bits may be one."""
    chance = Random(1)
    return (chance.getrandbits(64) - (1 << 63) for _ in count())
