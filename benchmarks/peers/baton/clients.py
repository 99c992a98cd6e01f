"""How every lock under comparison is used."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from benchmarks.peers.comparison import Peer

Hold = Callable[[], AbstractContextManager[Any]]
"""Asks for the lock, and has it within; it is given up at the end of that."""


class Client(Protocol):
    """One process' way to a server."""

    def waiter(self, lock: str) -> Hold:
        """For one thread, to use again and again."""

    def close(self) -> None:
        """Ends it."""


class Connect(Protocol):
    """Makes a client in the process that calls it; it can be handed to a process that starts."""

    def __call__(self, *, number: int) -> Client:
        """The client of the process with this number."""


class Messages(NamedTuple):
    """How many passed since the servers began: requests, answers and what is said unasked."""

    clients: int
    """Between clients and servers."""
    servers: int = 0
    """Between the servers of one cluster."""


@dataclass(kw_only=True)
class LockPeer(Peer):
    """A lock in some setting."""

    connect: Callable[[Any], Connect]
    """Given the service: how to reach it."""
    messages: Callable[[Any], Messages]
    """Given the service: so far."""
