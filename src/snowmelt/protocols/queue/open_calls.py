"""Calls that a leader took and has not answered, with what their bodies take; and what was said.

A client that hears nothing for half a second asks again. What it asked for may have been done by
then, and asking whether it can be done would find that it can't any more.
"""

from collections import OrderedDict
from typing import Any, Final, TypeVar

from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.queue.bodies import Bodies

PUT_COST: Final = 2_048
"""What a put takes in memory, besides its bytes."""
A = TypeVar("A")
Answers = OrderedDict[OperationId, A]
"""What was said last. Its first is found at once: a dict looks among all that went before."""


def keep(answers: Answers[A], operation: OperationId, answer: A, most: int) -> A:
    """So the same question gets the same answer; of so many the oldest goes.

    >>> answers = Answers()
    >>> keep(answers, OperationId("c", 1), "yes", 1), keep(answers, OperationId("c", 2), "no", 1)
    ('yes', 'no')
    >>> [operation.number for operation in answers]
    [2]
    """
    answers[operation] = answer
    if len(answers) > most:
        answers.popitem(last=False)
    return answer


class OpenCalls:
    """Of one queue, in one term.

    >>> hand, ann = Bodies(100), OperationId(NodeId("ann"), 1)
    >>> calls = OpenCalls(hand)
    >>> calls.add(ann, "a put", PUT_COST); len(calls.calls), hand.open_bytes
    (1, 2048)
    >>> calls.gone(NodeId("ann")) == {ann: "a put"}, hand.open_bytes
    (True, 0)
    """

    def __init__(self, hand: Bodies) -> None:
        self.calls: dict[OperationId, Any] = {}
        self._hand = hand
        self._weights: dict[OperationId, int] = {}
        """Of puts."""
        self._of: dict[NodeId, dict[OperationId, None]] = {}

    def add(self, operation: OperationId, request: Any, weight: int = 0) -> None:
        """One is asked, or asked again, and takes no more memory then."""
        if operation in self.calls:
            return
        self.calls[operation] = request
        self._of.setdefault(operation.client, {})[operation] = None
        if weight:
            self._weights[operation] = weight
            self._hand.open_bytes += weight

    def refusal(self, operation: OperationId, most: int) -> tuple[str, str] | None:
        """Why there is no memory for one that was added, as an error's name and text.

        There is for one alone.
        """
        opened = self._hand.open_bytes
        if opened <= most or opened == self._weights.get(operation):
            return None
        return "Unavailable", f"{most} bytes of puts are waiting at this node already"

    def end(self, operation: OperationId) -> Any:
        """It is answered, or never will be; what was asked."""
        request = self.calls.pop(operation, None)
        if request is None:
            return None
        its = self._of[operation.client]
        del its[operation]
        if not its:
            del self._of[operation.client]
        if operation in self._weights:
            self._hand.open_bytes -= self._weights.pop(operation)
        return request

    def gone(self, client: NodeId) -> dict[OperationId, Any]:
        """Nobody is there for these any more. O(its calls)."""
        its = {operation: self.calls[operation] for operation in self._of.get(client, ())}
        for operation in its:
            self.end(operation)
        return its

    def end_all(self) -> dict[OperationId, Any]:
        """Whoever leads next is to answer them."""
        calls = dict(self.calls)
        for operation in calls:
            self.end(operation)
        return calls
