"""Calls that a leader took and has not answered, and what their bodies take in memory."""

from typing import Any, Final

from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.fifo.calls import Put
from snowmelt.protocols.queue.bodies import Bodies

PUT_COST: Final = 2_048
"""What a put takes in memory, besides its bytes."""


class OpenCalls:
    """Of one queue, in one term.

    >>> hand, ann = Bodies(100), OperationId(NodeId("ann"), 1)
    >>> calls = OpenCalls(hand)
    >>> calls.add(ann, Put("q", "ann", 1, bytes(8), b"")); len(calls), hand.open_bytes
    (1, 2048)
    >>> calls.gone(NodeId("ann")) == {ann: Put("q", "ann", 1, bytes(8), b"")}, hand.open_bytes
    (True, 0)
    """

    def __init__(self, hand: Bodies) -> None:
        self._hand = hand
        self._calls: dict[OperationId, Any] = {}
        self._of: dict[NodeId, dict[OperationId, None]] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def fits(self, operation: OperationId, put: Put, most: int) -> bool:
        """Whether there is memory for a put; what is asked again takes no more."""
        open_bytes = self._hand.open_bytes
        return (
            operation in self._calls or not open_bytes or open_bytes + put.size + PUT_COST <= most
        )

    def add(self, operation: OperationId, request: Any) -> None:
        """One is asked, or asked again."""
        self.end(operation)
        self._calls[operation] = request
        self._of.setdefault(operation.client, {})[operation] = None
        if type(request) is Put:
            self._hand.open_bytes += request.size + PUT_COST

    def end(self, operation: OperationId) -> None:
        """It is answered, or never will be."""
        request = self._calls.pop(operation, None)
        if request is None:
            return
        its = self._of[operation.client]
        del its[operation]
        if not its:
            del self._of[operation.client]
        if type(request) is Put:
            self._hand.open_bytes -= request.size + PUT_COST

    def gone(self, client: NodeId) -> dict[OperationId, Any]:
        """Nobody is there for these any more. O(its calls)."""
        its = {operation: self._calls[operation] for operation in self._of.get(client, ())}
        for operation in its:
            self.end(operation)
        return its

    def end_all(self) -> dict[OperationId, Any]:
        """Whoever leads next is to answer them."""
        calls = dict(self._calls)
        for operation in calls:
            self.end(operation)
        return calls
