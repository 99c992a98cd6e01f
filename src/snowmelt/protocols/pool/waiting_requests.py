"""The requests that wait in line at a producer: the paper's queue of blocked processes (rule 2).

Attempts that are over are remembered for a while: the word of it may overtake the request, which is
passed on from one to the next, and nothing is given to an attempt that is over (rule 6).
"""

from collections import OrderedDict
from typing import Final

import msgspec

from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.messages import Request

OVER_MAX: Final = 10_000
LINE_MAX: Final = 20_000
"""Whoever comes when so many wait is not served; it tries again."""


class WaitingRequest(msgspec.Struct, frozen=True):
    request: Request
    until: Instant | None


class WaitingRequests:
    """First come, first served; a consumer's request stands in it once, with its last attempt."""

    def __init__(self) -> None:
        self._row: OrderedDict[tuple[NodeId, int], WaitingRequest] = OrderedDict()
        self._over: OrderedDict[tuple[NodeId, int], int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._row)

    def has(self, consumer: NodeId, now: Instant) -> bool:
        return any(
            key[0] == consumer and (one.until is None or one.until > now)
            for key, one in self._row.items()
        )

    def join(self, request: Request, until: Instant | None) -> None:
        """To the end; one that comes again under a later attempt has lost its place."""
        key = request.consumer, request.number
        before = self._row.get(key)
        if before is not None:
            if before.request.attempt >= request.attempt:
                return
            del self._row[key]
        if len(self._row) < LINE_MAX:
            self._row[key] = WaitingRequest(request, until)

    def first(self, now: Instant) -> Request | None:
        """Who is next; those whose consumers are elsewhere by now are dropped."""
        while self._row:
            waiting = next(iter(self._row.values()))
            if waiting.until is None or waiting.until > now:
                return waiting.request
            self._row.popitem(last=False)
        return None

    def leave(self, consumer: NodeId, number: int, attempt: int) -> None:
        waiting = self._row.get((consumer, number))
        if waiting is not None and waiting.request.attempt <= attempt:
            del self._row[consumer, number]

    def cancel(self, consumer: NodeId, number: int, attempt: int) -> None:
        """This attempt is over, here and wherever it comes from still."""
        self.leave(consumer, number, attempt)
        key = consumer, number
        self._over[key] = max(attempt, self._over.pop(key, attempt))
        if len(self._over) > OVER_MAX:
            self._over.popitem(last=False)

    def is_over(self, request: Request) -> bool:
        """Whether its consumer wants nothing more for this attempt."""
        return self._over.get((request.consumer, request.number), -1) >= request.attempt

    def drop(self, consumer: NodeId) -> None:
        """Nothing can be sent there now; when it lives it asks anew."""
        for key in [key for key in self._row if key[0] == consumer]:
            del self._row[key]

    def clear(self) -> None:
        self._row.clear()
