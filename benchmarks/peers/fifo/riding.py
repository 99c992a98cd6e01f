"""What Snowmelt's blocking clients of all orders have in common: how they take and acknowledge."""

from typing import Any

from benchmarks.peers.comparison import WAIT_SECONDS

import snowmelt
from snowmelt.client.leases.items import Items


class RidingClient:
    """An acknowledgement rides on the next get, as its page advises. An emptied queue stays."""

    def __init__(self, cluster: snowmelt.Cluster, queue: Any) -> None:
        self.cluster = cluster
        self.queue = queue
        self.taken: Items | None = None

    def take(self, count: int) -> int:
        taken: Items = self.queue.get_many(count, timeout=WAIT_SECONDS, ack=self.taken)
        self.taken = taken
        return len(taken)

    def settle(self) -> None:
        if self.taken is not None:
            self.taken.ack()
            self.taken = None

    def close(self) -> None:
        self.cluster.close()
