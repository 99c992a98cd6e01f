"""How a node asks its own cluster: its own machines at once, all others through a client."""

import asyncio
from typing import Any

from snowmelt.client.connection.asynchronous import AsyncClient
from snowmelt.client.connection.url import ClusterURL
from snowmelt.core.errors import OutcomeUnknown
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.calling import AskAnother, Declined, Elsewhere
from snowmelt.runtime.credentials import Credentials, is_everywhere
from snowmelt.runtime.http.pages import SiteContext
from snowmelt.wire.greeting import KnownCluster, as_error


class NodePort:
    """Makes calls as `connection.steps.AsyncPort` has them."""

    def __init__(self, inside: SiteContext) -> None:
        self._inside = inside
        self._client: AsyncClient | None = None
        self._shown: Credentials | None = None
        self._before: list[AsyncClient] = []
        self._mine: NodeId | None = None

    def is_mine(self, address: NodeId | None) -> None:
        """By this the node itself is called."""
        self._mine = address

    async def call(
        self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0
    ) -> Any:
        """What this node answers, or the one that is meant."""
        if target is not None and target != self._mine:
            return await self._outside().call(body, timeout, target, weight)
        try:
            async with asyncio.timeout(timeout):
                answer = await self._inside.ask(body)
        except TimeoutError:
            text = f"{self._inside.node} did not answer within {timeout:g} s"
            raise OutcomeUnknown(text) from None
        match answer:
            case Declined(error, text):
                raise as_error(error, text)
            case AskAnother() | Elsewhere():
                return await self._outside().call(body, timeout)
            case _:
                return answer

    async def close(self) -> None:
        """Ends its connections to others."""
        for one in (*self._before, self._client):
            if one is not None:
                await one.close()

    def _outside(self) -> AsyncClient:
        inside = self._inside
        shown = inside.credentials()
        if self._client is None or shown != self._shown:
            if self._client is not None:  # its secret has changed
                self._before.append(self._client)
            self._shown = shown
            known = KnownCluster("the page", "start this node again", learns=True)
            at = inside.address
            host = "127.0.0.1" if is_everywhere(at.host) else at.host
            place = ClusterURL((Address(host, at.port),), inside.cluster, shown, known)
            self._client = AsyncClient(place)
        return self._client
