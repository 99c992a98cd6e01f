"""What was said to which operation, so that the same question gets the same answer.

A client that hears nothing for half a second asks again. What it asked for may have been done by
then, and asking whether it can be done would find that it can't any more.
"""

from collections import OrderedDict
from typing import TypeVar

from snowmelt.core.names import OperationId

A = TypeVar("A")


class Answers(OrderedDict[OperationId, A]):
    """The last answers, so many at most; the oldest goes first.

    >>> from snowmelt.core.names import NodeId
    >>> first, second = OperationId(NodeId("c"), 1), OperationId(NodeId("c"), 2)
    >>> answers = Answers(most=1)
    >>> answers.keep(first, "yes"), answers.keep(second, "no")
    ('yes', 'no')
    >>> answers.get(first), answers.get(second)
    (None, 'no')
    """

    # Whose first is found at once: a dict looks for it among all that went before.
    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, operation: OperationId, answer: A) -> A:
        self[operation] = answer
        if len(self) > self._most:
            self.popitem(last=False)
        return answer
