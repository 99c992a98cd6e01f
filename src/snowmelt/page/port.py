"""How a node asks its own cluster: its own machines at once, all others through a client."""

import asyncio
from typing import Any

from snowmelt.client.connection.asynchronous import AsyncClient
from snowmelt.client.connection.url import ClusterURL
from snowmelt.core.errors import OutcomeUnknown
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.calling import AskAnother, Declined, Elsewhere
from snowmelt.runtime.credentials import is_everywhere
from snowmelt.runtime.http.pages import SiteContext
from snowmelt.wire.greeting import KnownCluster, as_error


class NodePort:
    """Makes calls as `connection.steps.AsyncPort` has them."""

    def __init__(self, inside: SiteContext) -> None:
        self._inside = inside
        self._client: AsyncClient | None = None
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
        if self._client is not None:
            await self._client.close()

    def _outside(self) -> AsyncClient:
        if self._client is None:
            inside = self._inside
            known = KnownCluster("the page", "start this node again", learns=True)
            at = inside.address
            host = "127.0.0.1" if is_everywhere(at.host) else at.host
            place = ClusterURL((Address(host, at.port),), inside.cluster, inside.credentials, known)
            self._client = AsyncClient(place)
        return self._client
