"""The pages of a node: `/metrics`, `/livez` and `/readyz`.

Metrics are made some queues at a time, and others are heard between them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol

import msgspec

from snowmelt.core.names import Address, NodeId
from snowmelt.core.users import Accounts, User
from snowmelt.protocols.membership import View
from snowmelt.protocols.queue.api.statuses import Overview, Overviewed
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.http.exposition import CONTENT_TYPE, text
from snowmelt.runtime.http.node_metrics import node_families
from snowmelt.runtime.http.queue_metrics import QueueMetrics
from snowmelt.runtime.http.serving import HttpRequest, Page, Route
from snowmelt.runtime.statistics import NodeStatistics

OPEN: Final = partial(Accounts.of_token, "")
"""Where there is no token, and no user."""
AT_ONCE: Final = 50
"""So many queues in one turn of the loop."""


def ALL(user: User, call: Any, origin: str) -> Any:  # noqa: N802
    del user, origin
    return call


class Shown(Protocol):
    """A node, as its pages know it."""

    view: View | None
    current: bool

    @property
    def stopping(self) -> bool:
        """Whether it is about to end."""

    @property
    def lives(self) -> bool: ...

    def statistics(self) -> NodeStatistics: ...


class SiteContext(msgspec.Struct, frozen=True):
    """What a site has of the node that shows it."""

    node: NodeId
    address: Address
    """Where the node listens."""
    http: Address
    """Where it shows its pages."""
    cluster: str
    credentials: Callable[[], Credentials]
    """What the node shows, now."""
    ask: Callable[[Any], Awaitable[Any]]
    """Asks the node's own machines."""
    token: str = ""
    """What guards its pages; none on loopback, perhaps."""
    accounts: Callable[[], Accounts] = OPEN
    """Whom the node lets in, now."""
    allow: Callable[[User, Any, str], Any] = ALL
    """The call that a user may ask from somewhere, or why it is refused (`runtime/door.py`)."""


class Site(Protocol):
    """Further pages, which know more than this node."""

    @property
    def routes(self) -> Mapping[str, Route]: ...

    def begin(self) -> None: ...

    async def close(self) -> None:
        """It is about to end."""


class Pages:
    """Of one node; `ask` asks its machines."""

    def __init__(self, node: Shown, ask: Callable[[Any], Awaitable[Any]], queues_max: int) -> None:
        self._node = node
        self._ask = ask
        self._queues = QueueMetrics(queues_max)
        self._one = asyncio.Lock()

    @property
    def routes(self) -> Mapping[str, Route]:
        return {
            "/metrics": Route(self.metrics, guarded=True),
            "/livez": Route(self.lives),
            "/readyz": Route(self.ready),
        }

    async def metrics(self, asked: HttpRequest) -> Page:
        """All that is counted; the queues only while this node is current."""
        del asked
        node = self._node
        async with self._one:  # who comes second has its own, as new
            told, after, more = self._queues.begin(), "", node.current
            while more:
                page = await self._ask(Overview(after, AT_ONCE))
                if not isinstance(page, Overviewed):
                    break  # it is cut off
                self._queues.add(told, page.rows)
                more = page.more
                after = page.rows[-1].queue if page.rows else ""
                await asyncio.sleep(0)
            families = [
                *node_families(node.statistics(), node.view, node.current),
                *self._queues.end(told),
            ]
        return Page(text(families).encode(), kind=CONTENT_TYPE)

    async def lives(self, asked: HttpRequest) -> Page:
        """Whether a supervisor should leave it alone."""
        del asked
        if self._node.lives:
            return Page(b"alive\n")
        return Page(b"its machines do not run any more\n", HTTPStatus.SERVICE_UNAVAILABLE)

    async def ready(self, asked: HttpRequest) -> Page:
        """Whether it can answer for its cluster: what is not current lives all the same."""
        del asked
        node, view = self._node, self._node.view
        if node.stopping:
            return _not_ready("stopping")
        if view is None:
            return _not_ready("not current: it is in no view yet")
        if not node.current:
            return _not_ready(f"not current: cut off since view {view.epoch}")
        return Page(f"current in view {view.epoch}\n".encode())


def _not_ready(why: str) -> Page:
    return Page(f"{why}\n".encode(), HTTPStatus.SERVICE_UNAVAILABLE)
