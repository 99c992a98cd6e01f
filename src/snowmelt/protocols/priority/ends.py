"""A door tells homes what became of elements, and hears what they could not do of it."""

from collections.abc import Iterable

from snowmelt.core.instant import Duration
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.priority.batches import Shares
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.messages import End
from snowmelt.protocols.priority.sending import Sending
from snowmelt.protocols.priority.settings import How


class Ends:
    """Of one queue, at one door."""

    def __init__(self, desk: Desk, queue: str, sending: Sending) -> None:
        self._desk = desk
        self._queue = queue
        self._sending = sending

    def say(
        self,
        homes: Iterable[tuple[NodeId, Shares]],
        how: How,
        *,
        token: int = 0,
        operations: tuple[OperationId, ...] = (),
        reason: str = "",
        time: Duration = Duration(0),  # noqa: B008 - an int
    ) -> int:
        """Each home its own positions; how many were told. `operations` wait for their answers."""
        era, queue, count = self._desk.era, self._queue, 0
        for home, shares in homes:

            def make(serial: int, shares: Shares = shares) -> End:
                return End(era, queue, serial, token, shares, how, reason, time)

            self._sending.send(home, operations, make)
            count += 1
        return count
