"""What is asked of an open folder, and who calls for batons, as `connection.clients` has it.

Each of these has a name of its own, as a connection has, so that the machine learns when one is
gone.
"""

from collections import deque
from typing import Any, Protocol

from snowmelt.client.connection.clients import Clients
from snowmelt.client.connection.session import new_name
from snowmelt.core.errors import Closed
from snowmelt.core.names import NodeId


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
