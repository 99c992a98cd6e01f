"""The calls of `snowmelt`, with `await`."""

from snowmelt.client.baton.face_async import Baton, Held
from snowmelt.client.cluster_async import Cluster, connect
from snowmelt.client.counter.face_async import Counter
from snowmelt.client.embedded.face_async import EmbeddedCluster, open  # noqa: A004
from snowmelt.client.fifo.face_async import Fifo
from snowmelt.client.leases.items_async import Item, Items
from snowmelt.client.leases.steps import Seen
from snowmelt.client.multicast.face_async import Multicast, Subscription
from snowmelt.client.pool.face_async import Pool
from snowmelt.client.pool.objects_async import Object, Objects
from snowmelt.client.priority.face_async import PriorityQueue
from snowmelt.client.queue.face_async import Group
from snowmelt.client.queue.step_async import Step
from snowmelt.client.worker.face_async import Worker

__all__ = [
    "Baton",
    "Cluster",
    "Counter",
    "EmbeddedCluster",
    "Fifo",
    "Group",
    "Held",
    "Item",
    "Items",
    "Multicast",
    "Object",
    "Objects",
    "Pool",
    "PriorityQueue",
    "Seen",
    "Step",
    "Subscription",
    "Worker",
    "connect",
    "open",
]
