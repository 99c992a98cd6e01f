"""Which holds at a node are over and why, and what is said to those who still believe in one."""

from enum import Enum
from typing import Any, Final

from snowmelt.core.names import OperationId
from snowmelt.core.node import Reply
from snowmelt.protocols.baton.calls import Release, Renew, SaveValue
from snowmelt.protocols.baton.context import NodeContext
from snowmelt.protocols.calling import Declined, Elsewhere

UNKNOWN: Final = "{} knows nothing of this hold"
REMEMBERED: Final = 100
"""So many of each name, the last ones."""


class EndReason(Enum):
    GIVEN_UP = "it was given up already"
    EXPIRED = "its lease was over, or its client's connections had ended"
    CUT_OFF = "its node was cut off from the cluster"
    VOID = "it had been taken for lost, and made again"


class EndedHolds:
    """The holds of one name that are over at this node, by ticket.

    Most were given up, and there may be thousands in a second; few were lost. So these are known
    by their fences for long, and a hold that is not among them was given up.
    """

    def __init__(self, name: str, here: NodeContext, since: int) -> None:
        self._name = name
        self._here = here
        self._ended: dict[int, EndReason] = {}
        self._lost: dict[int, None] = {}
        self._since = since
        """Of holds whose fence is no larger nothing is known."""

    def add(self, ticket: int, why: EndReason, fence: int = 0) -> None:
        self._ended[ticket] = why
        if len(self._ended) > REMEMBERED:
            del self._ended[next(iter(self._ended))]
        if fence and why is not EndReason.GIVEN_UP:
            self._lost[fence] = None
        if len(self._lost) > REMEMBERED:
            oldest = next(iter(self._lost))
            del self._lost[oldest]
            self._since = max(self._since, oldest)

    def gave_up(self, call: Release, last: int) -> bool:
        """Whether this hold, which is over, was given up; `last` is the last fence granted here."""
        if call.ticket in self._ended:
            return self._ended[call.ticket] is EndReason.GIVEN_UP
        where, here = call.where, self._here
        if where is None or (where.node, where.life) != (here.me, here.life):
            return False
        return self._since < call.fence <= last and call.fence not in self._lost

    def get(self, ticket: int) -> EndReason | None:
        """Why it is over; None when it is not, or not known any more."""
        return self._ended.get(ticket)

    def lost(self, operation: OperationId, ticket: int) -> Reply[Any]:
        text = f"baton {self._name!r} is lost: {self.why(ticket)}"
        return Reply(operation, Declined("BatonLost", text))

    def why(self, ticket: int) -> str:
        why = self._ended.get(ticket)
        return why.value if why is not None else UNKNOWN.format(self._here.me)

    def not_held(self, operation: OperationId, call: Renew | SaveValue | Release) -> Reply[Any]:
        """Only the node where it is held can tell; this one knows whether that one still is."""
        where, here = call.where, self._here
        if where is None or call.ticket in self._ended or where.node == here.me:
            return self.lost(operation, call.ticket)
        if here.life_of(where.node) == where.life:
            return Reply(operation, Elsewhere(where.node, where.address))
        text = f"baton {self._name!r} is lost: node {where.node}, where it was held, is gone"
        return Reply(operation, Declined("BatonLost", text))
