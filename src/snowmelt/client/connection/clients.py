"""Blocking clients for threads that share a cluster: each call has one to itself while it lasts."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from snowmelt.client.connection.blocking import BlockingClient
from snowmelt.client.connection.open_loops import end_loops
from snowmelt.client.connection.steps import Query
from snowmelt.client.connection.targets import Targets
from snowmelt.client.connection.url import ClusterURL
from snowmelt.core.errors import Closed, SnowmeltError
from snowmelt.core.names import NodeId
from snowmelt.wire.framing import Kind

IDLE_MAX: Final = 8
CLOSING_SECONDS: Final = 1.0
"""So long a call under way may go on when all are closed: what is only answered ends well."""


class Clients:
    """As many clients as calls are made at once; a few of them are kept for the next."""

    def __init__(self, place: ClusterURL) -> None:
        self._place = place
        self._targets = Targets(place)  # what one of them learns, all know
        self._idle: list[BlockingClient] = []  # taken and given back whole, so it needs no lock
        self._lent: dict[BlockingClient, None] = {}
        self.ended: Callable[[None], object] = _nobody
        """Told when one ends that something needs still, in whichever thread that is."""
        self.closed = False

    def call(self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0) -> Any:
        """Calls, waits, and returns the answer's body; raises what went wrong."""
        client = self.lend()
        try:
            answer = client.call(body, timeout, target, weight)
        except SnowmeltError:
            self.take_back(client)
            raise
        except BaseException:  # interrupted in the middle: its state is worth nothing
            self.end(client)
            raise
        self.take_back(client)
        return answer

    def call_all(self, queries: Sequence[Query]) -> list[Any]:
        """Several at once, by one client; an error of ours stands in place of its answer."""
        client = self.lend()
        try:
            answers = client.call_all(queries)
        except BaseException as error:
            (self.take_back if isinstance(error, SnowmeltError) else self.end)(client)
            raise
        self.take_back(client)
        return answers

    def inquire(self, timeout: float, kind: Kind = Kind.INQUIRE) -> bytes:
        """Asks the first node that answers how its process is, or has it read files again."""
        client = self.lend()
        try:
            told = client.inquire(timeout, kind)
        except BaseException:
            self.end(client)
            raise
        self.take_back(client)
        return told

    def lend(self) -> BlockingClient:
        """A client for one borrower alone, who gives it back, or closes it."""
        if self.closed:
            raise Closed("this client is closed")
        try:
            client = self._idle.pop()
        except IndexError:
            client = BlockingClient(self._place, self._targets)
        self._lent[client] = None
        if self.closed:  # meanwhile, and it was not seen
            client.close(CLOSING_SECONDS)
        return client

    def take_back(self, client: BlockingClient) -> None:
        self._lent.pop(client, None)
        if self.closed or (len(self._idle) >= IDLE_MAX and not client.needed):
            client.close()
        else:
            self._idle.append(client)

    def spare(self, client: BlockingClient) -> None:
        """One that is idle may be needed no more."""
        if len(self._idle) > IDLE_MAX and not client.needed:
            with suppress(ValueError):  # it is lent
                self._idle.remove(client)
                client.close()

    def end(self, client: BlockingClient) -> None:
        """One that was lent ends, with what nodes know of it."""
        self._lent.pop(client, None)
        client.close()
        if client.needed:
            self.ended(None)

    def close(self) -> None:
        """Ends the loops over queues, and the connections; a call under way ends soon."""
        try:
            end_loops(self)
        finally:
            self.closed = True
            while self._idle:
                self._idle.pop().close()
            for client in list(self._lent):
                client.close(CLOSING_SECONDS)


class BorrowedClient:
    """One client for several calls; once it is given back, each call has whichever is free."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        # None or one; what is in them is taken out whole, so they need no lock.
        self._own = deque([clients.lend()])
        self._needed: deque[BlockingClient] = deque()

    @property
    def ended(self) -> bool:
        return any(client.closed for client in tuple(self._needed))

    def call(self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0) -> Any:
        """Calls, waits, and returns the answer's body; raises what went wrong."""
        if self._clients.closed:  # the last call was let end; this one is not begun any more
            self.close()
            raise Closed("this client is closed")
        try:
            client = self._own[0]
        except IndexError:
            return self._clients.call(body, timeout, target, weight)
        try:
            return client.call(body, timeout, target, weight)
        except SnowmeltError:
            raise
        except BaseException:  # interrupted in the middle: its state is worth nothing
            self.close()
            raise

    def share(self) -> None:
        """Others may call by it from now on; it is kept open until it is given back."""
        with suppress(IndexError):
            client = self._own.popleft()
            client.needed.append(None)
            self._needed.append(client)
            self._clients.take_back(client)

    def give_back(self) -> None:
        """The borrower is done with it, and nodes need not remember what it was used for."""
        with suppress(IndexError):
            self._clients.take_back(self._own.popleft())
        with suppress(IndexError):
            client = self._needed.popleft()
            client.needed.pop()
            self._clients.spare(client)

    def close(self) -> None:
        """Its end shows the nodes that the caller of its requests has gone."""
        with suppress(IndexError):
            self._clients.end(self._own.popleft())
        self.give_back()


def inquired(place: ClusterURL, timeout: float) -> bytes:
    """What the first node answers, asked by a connection for this alone."""
    clients = Clients(place)
    try:
        return clients.inquire(timeout)
    finally:
        clients.close()


def _nobody(_: None) -> None:
    """Nothing is held by any of them."""
