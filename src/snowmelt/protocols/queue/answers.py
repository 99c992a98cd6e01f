"""What was said to which operation, so that the same question gets the same answer.

A client that hears nothing for half a second asks again. What it asked for may have been done by
then, and asking whether it can be done would find that it can't any more.
"""

from collections import OrderedDict
from typing import Generic, TypeVar

from snowmelt.core.names import OperationId

A = TypeVar("A")


class Answers(Generic[A]):
    """The last answers, so many at most; the oldest goes first.

    >>> from snowmelt.core.names import NodeId
    >>> first, second = OperationId(NodeId("c"), 1), OperationId(NodeId("c"), 2)
    >>> answers = Answers(most=1)
    >>> answers.keep(first, "yes"), answers.keep(second, "no")
    ('yes', 'no')
    >>> answers.of(first), answers.of(second)
    (None, 'no')
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # Whose first is found at once: a dict looks for it among all that went before.
        self._answers: OrderedDict[OperationId, A] = OrderedDict()

    def of(self, operation: OperationId) -> A | None:
        return self._answers.get(operation)

    def keep(self, operation: OperationId, answer: A) -> A:
        self._answers[operation] = answer
        if len(self._answers) > self._most:
            self._answers.popitem(last=False)
        return answer

    def forget(self, operation: OperationId) -> None:
        """It was not told after all: when it asks again it asks anew."""
        self._answers.pop(operation, None)
