"""The clients of one node who wait for one baton: rule 13."""

import msgspec

from snowmelt.core.instant import Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Reply
from snowmelt.protocols.arrow import Place
from snowmelt.protocols.baton.calls import PATIENCE, POLL, Acquire, Queued
from snowmelt.protocols.baton.messages import Message


class Want(msgspec.Struct):
    """Somebody wants the baton."""

    ticket: int
    places: tuple[Place, ...] = ()
    """Those that were asked for; one will do."""
    asked: Instant = Instant(0)
    """When the last of them was."""
    client: NodeId | None = None
    """None for another machine of this node, which waits without being asked again."""
    operation: OperationId | None = None
    """The call that waits for an answer."""
    until: Instant | None = None
    """When the call is answered `Queued`; when there is none, until when it may come again."""

    def called(self, operation: OperationId, call: Acquire, now: Instant) -> Instant:
        """Its client asks, for the first time or again; returns when it is to be answered."""
        self.client, self.operation = operation.client, operation
        self.until = until = later(now, min(call.wait, POLL))
        return until


class Wants:
    """All wants of one name at one node, by ticket."""

    def __init__(self) -> None:
        self._wants: dict[int, Want] = {}

    def __len__(self) -> int:
        return len(self._wants)

    def get(self, ticket: int | None) -> Want | None:
        """The want of this ticket."""
        return None if ticket is None else self._wants.get(ticket)

    def add(self, want: Want) -> None:
        """Somebody begins to wait."""
        self._wants[want.ticket] = want

    def take(self, ticket: int | None) -> Want | None:
        """It is over."""
        return None if ticket is None else self._wants.pop(ticket, None)

    def all(self) -> list[Want]:
        """Everybody, first come first."""
        return list(self._wants.values())

    def due(self) -> Instant | None:
        """When the next of them is to be answered, or given up. O(wants)."""
        return min((one.until for one in self.all() if one.until is not None), default=None)

    def expire(self, now: Instant) -> tuple[list[Effect[Message | Queued]], list[Want]]:
        """Answers the calls that have waited enough; returns whose client has not come back."""
        answers: list[Effect[Message | Queued]] = []
        over = []
        for want in self.all():
            if want.until is None or want.until > now:
                continue
            if want.operation is None:
                over.append(want)
                continue
            answers.append(Reply(want.operation, Queued()))
            want.operation, want.until = None, later(now, PATIENCE)
        return answers, over
