"""Who uses a queue, as its leader knows it: what each client has in hand, and how many calls wait.

Nothing of it is written down. A new leader knows when it was given the leases that it found, and
not when they began.
"""

from collections.abc import Iterable, Mapping
from heapq import nsmallest

from snowmelt.core.instant import SECOND, Instant
from snowmelt.core.names import OperationId
from snowmelt.protocols.queue.api.statuses import ConsumerRow, Consumers, ListConsumers
from snowmelt.protocols.queue.leader.deadlines import Deadlines
from snowmelt.protocols.queue.state.state import Lease


class Using:
    """Who uses one queue now. O(leases and calls that wait)."""

    def __init__(self) -> None:
        self._rows: dict[str, ConsumerRow] = {}

    def holds(self, leases: Mapping[int, Lease], deadlines: Deadlines, now: Instant) -> None:
        """What each has in hand."""
        for token, lease in leases.items():
            row = self._row(lease.operation)
            row.items += lease.left.total
            row.held = max(row.held, deadlines.held(token, now) / SECOND)

    def waits(self, gets: Iterable[OperationId], puts: Iterable[OperationId]) -> None:
        for operation in gets:
            self._row(operation).gets += 1
        for operation in puts:
            self._row(operation).puts += 1

    def told(self, ask: ListConsumers) -> Consumers:
        """Some of them, by name."""
        behind = [name for name in self._rows if name > ask.after]
        names = nsmallest(ask.rows_max + 1, behind)
        some = tuple([self._rows[name] for name in names[: ask.rows_max]])
        return Consumers(some, len(names) > len(some))

    def _row(self, operation: OperationId) -> ConsumerRow:
        client = operation.client
        if client not in self._rows:
            self._rows[client] = ConsumerRow(client)
        return self._rows[client]
