"""Calls that a leader took and has not answered, with what their bodies take; and what was said.

A client that hears nothing for half a second asks again. What it asked for may have been done by
then, and asking whether it can be done would find that it can't any more.
"""

from collections import OrderedDict
from typing import Any, Final, TypeVar

from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.queue.store.bodies import Bodies

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
    >>> calls.add(ann, "a put", PUT_COST); len(calls.calls), hand.open_bytes.total
    (1, 2048)
    >>> calls.gone(NodeId("ann")) == {ann: "a put"}, hand.open_bytes.total
    (True, 0)
    """

    def __init__(self, hand: Bodies) -> None:
        self.calls: dict[OperationId, Any] = {}
        self._hand = hand
        self._weights: dict[OperationId, int] = {}
        """Of puts."""
        self._parked: dict[OperationId, None] = {}
        """Of those, which wait for room in their queue."""
        self._of: dict[NodeId, dict[OperationId, None]] = {}

    def add(self, operation: OperationId, request: Any, weight: int = 0) -> None:
        """One is asked, or asked again, and takes no more memory then."""
        if operation in self.calls:
            return
        self.calls[operation] = request
        self._of.setdefault(operation.client, {})[operation] = None
        if weight:
            self._weights[operation] = weight
            self._hand.open_bytes.add(operation.client, weight)

    def refusal(self, operation: OperationId, most: int) -> tuple[str, str] | None:
        """Why there is no memory for one that was added, as an error's name and text.

        There is for one alone. Beside others a client has twice what it leaves, or one put.
        """
        opened, client = self._hand.open_bytes, operation.client
        weight = self._weights.get(operation, 0)
        if opened.total == weight or not weight:  # or it was asked for something else before
            return None
        opened.remove(client, weight)
        has_room = opened.has_room(client, weight, most, share=2)
        opened.add(client, weight)
        if has_room:
            return None
        text = f"{opened.total} of {most} bytes for puts are taken at this node"
        return "Unavailable", f"{text}; one client has twice what it leaves to others, at most"

    def parks(self, operation: OperationId, most: int) -> bool:
        """Whether a put that was added may wait for room in its queue.

        All that do so have half of the memory, and a client twice what it leaves of that: what is
        put into a full queue must not be in the way of what is put into others.
        """
        weight = self._weights.get(operation, 0)
        if operation not in self._parked and weight:
            parked, client = self._hand.parked_bytes, operation.client
            if parked.total and not parked.has_room(client, weight, most // 2, share=2):
                return False
            parked.add(client, weight)
            self._parked[operation] = None
        return True

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
            weight = self._weights.pop(operation)
            self._hand.open_bytes.remove(operation.client, weight)
            if operation in self._parked:
                del self._parked[operation]
                self._hand.parked_bytes.remove(operation.client, weight)
        return request

    def count(self, client: NodeId) -> int:
        """How many this one asked."""
        return len(self._of.get(client, ()))

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
