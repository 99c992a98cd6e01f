"""The requests that wait in line at a producer: the paper's queue of blocked processes (rule 2)."""

from collections import OrderedDict

import msgspec

from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.messages import Request


class Waiting(msgspec.Struct, frozen=True):
    """One request, and until when its consumer waits here."""

    request: Request
    until: Instant | None


class Line:
    """First come, first served; a consumer's request stands in it once, with its last attempt."""

    def __init__(self) -> None:
        self._row: OrderedDict[tuple[NodeId, int], Waiting] = OrderedDict()

    def __len__(self) -> int:
        return len(self._row)

    def join(self, request: Request, until: Instant | None) -> None:
        """To the end; one that comes again under a later attempt has lost its place."""
        key = request.consumer, request.number
        before = self._row.get(key)
        if before is not None:
            if before.request.attempt >= request.attempt:
                return
            del self._row[key]
        self._row[key] = Waiting(request, until)

    def first(self, now: Instant) -> Request | None:
        """Who is next; those whose consumers are elsewhere by now are dropped."""
        while self._row:
            waiting = next(iter(self._row.values()))
            if waiting.until is None or waiting.until > now:
                return waiting.request
            self._row.popitem(last=False)
        return None

    def leave(self, consumer: NodeId, number: int, attempt: int) -> None:
        """This attempt waits no more."""
        waiting = self._row.get((consumer, number))
        if waiting is not None and waiting.request.attempt <= attempt:
            del self._row[consumer, number]

    def drop(self, consumer: NodeId) -> None:
        """Nothing can be sent there now; when it lives it asks anew."""
        for key in [key for key in self._row if key[0] == consumer]:
            del self._row[key]

    def clear(self) -> None:
        """Nobody is served here any more."""
        self._row.clear()
