"""What every lock under comparison is asked to do."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

Hold = Callable[[], AbstractContextManager[Any]]
"""Asks for the lock, and has it within; who leaves has given it up."""


class Client(Protocol):
    """One process' way to a server."""

    def waiter(self, lock: str) -> Hold:
        """For one thread, to use again and again."""

    def close(self) -> None:
        """Ends it."""


class Connect(Protocol):
    """Makes a client in the process that calls it; it can be handed to a process that starts."""

    def __call__(self, number: int) -> Client:
        """The client of the process with this number."""


class Messages(NamedTuple):
    """How many passed since the servers began: requests, answers and what is told unasked."""

    clients: int
    """Between clients and servers."""
    servers: int = 0
    """Between the servers of one cluster."""


class Peer(Protocol):
    """A lock in some setting."""

    name: str
    promise: str
    """Who is next, what becomes of the lock of one who dies, and what a grant writes to disk."""
    version: str
    """Known once started."""

    def start(self, folder: Path) -> None:
        """Runs what it needs, with its data in `folder`. May raise `fifo.peer.Missing`."""

    def connect(self) -> Connect:
        """How to reach it."""

    def messages(self) -> Messages:
        """So far."""

    def stop(self) -> None:
        """Ends what `start` began, however far that came."""
