"""Snowmelt's priority queue: one node, or three that each keep every item.

With four priorities, or with any of 64 bits, drawn by chance.

An acknowledgement rides on the next get, as its page advises.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice

from benchmarks.peers import cores
from benchmarks.peers.comparison import WAIT_SECONDS, Peer
from benchmarks.peers.fifo.clients import QueuePeer
from benchmarks.peers.fifo.riding import RidingClient
from benchmarks.peers.priority.urgency import PRIORITIES, any_priorities, urgencies
from benchmarks.peers.servers.snowmelt import Nodes

import snowmelt
import snowmelt.aio
from snowmelt.client.leases.items_async import Items as AsyncItems

Priorities = int | type[int]
"""How many, or any."""


def priority(name: str, nodes: int, priorities: Priorities = PRIORITIES) -> Peer:
    where = "" if nodes == 1 else f" on {nodes} nodes"
    return QueuePeer(
        name=name,
        promise=f"flushes before it answers{where}",
        service=Nodes(nodes, cores.SERVER),  # its nodes share a core, as on one small machine
        client=partial(PriorityClient, replicas=nodes, priorities=priorities),
        tasks=partial(connect_tasks, replicas=nodes, priorities=priorities),
    )


class PriorityClient(RidingClient):
    """The blocking client."""

    def __init__(
        self, url: str, queue: str, batch: int, replicas: int, priorities: Priorities
    ) -> None:
        del batch
        cluster = snowmelt.connect(url)
        super().__init__(cluster, cluster.priority(queue, priorities=priorities, replicas=replicas))
        self.next = drawn(priorities)

    def put(self, bodies: list[bytes]) -> None:
        if len(bodies) == 1:
            self.queue.put(bodies[0], priority=next(self.next))
        else:
            self.queue.put_many(zip(islice(self.next, len(bodies)), bodies, strict=True))


def drawn(priorities: Priorities) -> Iterator[int]:
    """What is put has these."""
    return any_priorities() if isinstance(priorities, type) else urgencies()


async def connect_tasks(
    url: str, queue: str, tasks: int, replicas: int, priorities: Priorities
) -> "PriorityTasks":
    return PriorityTasks(url, queue, replicas, priorities, tasks)


class PriorityTasks:
    """The client with `await`: one connection for all tasks."""

    def __init__(
        self, url: str, queue: str, replicas: int, priorities: Priorities, tasks: int
    ) -> None:
        self.cluster = snowmelt.aio.connect(url)
        self.queue = self.cluster.priority(queue, priorities=priorities, replicas=replicas)
        self.next = drawn(priorities)
        self.taken: list[AsyncItems | None] = [None] * tasks

    async def put(self, body: bytes) -> None:
        await self.queue.put(body, priority=next(self.next))

    async def take(self, task: int) -> None:
        before = self.taken[task]
        self.taken[task] = await self.queue.get_many(1, timeout=WAIT_SECONDS, ack=before)

    async def settle(self, task: int) -> None:
        taken, self.taken[task] = self.taken[task], None
        if taken is not None:
            await taken.ack()

    async def close(self) -> None:
        await self.cluster.close()
