"""A cluster of many nodes and queues that was never there, and a node's page of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from snowmelt.core.errors import OutcomeUnknown
from snowmelt.core.names import Address, NodeId, contact
from snowmelt.page.site import PageSite
from snowmelt.page.watching import PageWatcher, QueueTotals
from snowmelt.protocols.baton.calls import BatonLooks, BatonStatus, LookAtBatons
from snowmelt.protocols.membership import Member, Status, View
from snowmelt.protocols.membership.messages import GetStatus
from snowmelt.protocols.pool.introductions import Acquaintance, ListPools, Pools, PoolStatus
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.api.statuses import (
    Describe,
    ListQueues,
    Overview,
    Overviewed,
    QueueNames,
    QueueStatus,
)
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.http.pages import SiteContext
from snowmelt.runtime.http.serving import HttpServer

MARKUP = '<img src=x onerror="document.title=1"><b>bold'
HERE = Address("127.0.0.1", 0)


class Recorded:
    """Answers in place of all nodes; the items of its queues grow from look to look."""

    def __init__(self, queues: int, nodes: int, name: str = "queue") -> None:
        chance = Random(7)
        self.members = tuple(
            Member(NodeId(f"n{one}"), Address("10.0.0.1", 4410 + one), 1, 1)
            for one in range(1, nodes + 1)
        )
        self.by_contact = {contact(one.address): one.id for one in self.members}
        self.names = tuple(sorted(f"{name}-{one:04}" for one in range(queues)))
        self.led = {one: chance.choice(self.members).id for one in self.names}
        self.looks = 0

    def is_mine(self, address: NodeId | None) -> None:
        """It is all nodes."""

    async def close(self) -> None:
        """There is nothing to close."""

    async def call(
        self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0
    ) -> Any:
        """What the node would say that is meant."""
        del timeout, weight
        node = self.by_contact.get(target or NodeId(""), NodeId("n1"))
        match body:
            case ListQueues():
                self.looks += 1
                return QueueNames(self.names)
            case GetStatus():
                view = View(0xABC, 12, NodeId("n1"), self.members)
                return Status(NodeId("n1"), "current", view, {self.members[-1].id: 300_000_000})
            case Overview(after, most):
                names = [one for one in self.names if one > after and self.led[one] == node]
                rows = tuple(self.status(one) for one in names[:most])
                return Overviewed(node, rows, len(names) > most)
            case LookAtBatons(""):
                one = BatonStatus(f"lock of {node}", node, "held", 7, 2, node)
                return BatonLooks((one,))
            case LookAtBatons():
                return BatonLooks(())
            case ListPools():
                maker = Acquaintance(NodeId("p1"), MARKUP, HERE, 12.5)
                return Pools((PoolStatus("frames", (maker,), (9,), (NodeId("c1"),)),))
            case Describe(queue):
                return self.status(queue)
        raise OutcomeUnknown(f"{body} is not recorded")

    def status(self, queue: str) -> QueueStatus:
        """How a queue is; each has numbers of its own."""
        chance = Random(queue)
        put, ready = chance.randrange(10_000) + 7 * self.looks, chance.randrange(5_000)
        dead = chance.choice((0,) * 30 + (3,))
        return QueueStatus(
            queue=queue, settings=QueueSettings(replicas=3), leader=self.led[queue],
            followers=(NodeId("n1"), NodeId("n99" if dead else "n2")), term=3, paused=False,
            ready=ready, delayed=0, leased=chance.randrange(9), dead=dead, bytes=ready * 100,
            tail=put, done=0, lost=0, waiting_gets=0, waiting_puts=0, blocks=1, short_of_copies=0,
            producers=1, oldest_ready=chance.random() * 100, put=put, delivered=put // 2,
        )  # fmt: skip


@asynccontextmanager
async def shown(recorded: Recorded) -> AsyncIterator[str]:
    """The page of such a cluster, with an hour of history; its address."""
    inside = SiteContext(NodeId("n1"), HERE, HERE, "snowmelt", Credentials(), recorded.call)
    watching = PageWatcher(inside, recorded)  # type: ignore[arg-type]
    chance, counts = Random(3), dict.fromkeys(recorded.names, 0)
    for _ in range(62):
        for name in counts:
            counts[name] += chance.randrange(1_000)
        watching.history.add([QueueTotals(name, put, put // 2) for name, put in counts.items()])
    site = PageSite(inside, watching)
    server = HttpServer(site.routes)
    at = await server.listen(HERE)
    site.begin()
    try:
        yield f"http://{at}/"
    finally:
        await server.close()
        await site.close()
