"""Who holds which positions, under which token, until when."""

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.names import OperationId
from snowmelt.protocols.fifo.limits import LIMITS, Limits

SPARE: Final = 64
"""So many deadlines more may be kept than twice those that count."""


class Lease(msgspec.Struct):
    token: int
    operation: OperationId
    left: IntervalSet
    deadline: Instant | None
    """When its time is over; None while that has not begun: nobody was told of it yet."""
    kept: bool = True
    """Whether nothing of it went back: then every acknowledgement under it was good."""
    ahead: bool = False
    """Whether its items wait for their turn (`core/failures.py`)."""


class Leases:
    """All leases of a queue. Tokens grow and are never given twice."""

    def __init__(self, time: Duration, changed: dict[bytes, None], limits: Limits = LIMITS) -> None:
        self.next_token = 1
        self.settled = IntervalSet()
        """Tokens of leases that were acknowledged to the last item."""
        self.enders: OrderedDict[int, OperationId] = OrderedDict()
        """Of the last leases of which something went back: which operation ended each."""
        self._time = time
        self._endings_max = limits.endings
        self._enders_max = limits.enders
        self._changed = changed
        self._leases: dict[int, Lease] = {}
        self._by_operation: dict[OperationId, int] = {}
        self._deadlines: list[tuple[Instant, int]] = []

    def __iter__(self) -> Iterator[Lease]:
        return iter(list(self._leases.values()))

    @property
    def items(self) -> int:
        """How many items are held. O(leases)."""
        return sum(lease.left.total for lease in self._leases.values())

    def held(self, token: int) -> Lease | None:
        return self._leases.get(token)

    def of(self, operation: OperationId) -> Lease | None:
        return self._leases.get(self._by_operation.get(operation, 0))

    def grant(
        self, operation: OperationId, left: IntervalSet, now: Instant | None, *, ahead: bool = False
    ) -> Lease:
        """A new lease on these positions; its time begins now, or when it is told (`extend`)."""
        lease = Lease(self.next_token, operation, left, None, ahead=ahead)
        self.next_token += 1
        self.restore(lease, now)
        self._touch(lease)
        return lease

    def restore(self, lease: Lease, now: Instant | None) -> None:
        self._leases[lease.token] = lease
        self._by_operation[lease.operation] = lease.token
        if now is not None:
            self.extend(lease, now)

    def extend(self, lease: Lease, now: Instant) -> Instant:
        """The whole time of a lease, from now; returns when it is over."""
        lease.deadline = later(now, self._time)
        heappush(self._deadlines, (lease.deadline, lease.token))
        if len(self._deadlines) > 2 * len(self._leases) + SPARE:  # one was extended many times
            leases = self._leases.values()
            self._deadlines = [(one.deadline, one.token) for one in leases if one.deadline]
            heapify(self._deadlines)
        return lease.deadline

    def shrunk(self, lease: Lease) -> None:
        """A part of a lease went; it ends when nothing is left."""
        self._touch(lease)
        if lease.left.total or lease.token not in self._leases:
            return
        del self._leases[lease.token]
        self._by_operation.pop(lease.operation, None)
        self._prune()
        if lease.kept:
            self.settled.add(Interval(lease.token, lease.token + 1))
            if self.settled.pieces > self._endings_max:
                self.settled.remove(self.settled.first)
            self._changed[b"t"] = None

    def end_by(self, token: int, operation: OperationId) -> None:
        """An operation ended this lease, and not by acknowledging all of it."""
        self.enders[token] = operation
        self._changed[ender_key(token)] = None
        if len(self.enders) > self._enders_max:
            oldest, _ = self.enders.popitem(last=False)
            self._changed[ender_key(oldest)] = None

    def over(self, now: Instant) -> list[Lease]:
        ended: list[Lease] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, token = heappop(self._deadlines)
            lease = self._leases.get(token)
            if lease is not None and lease.deadline == deadline:
                ended.append(lease)
        return ended

    @property
    def next_deadline(self) -> Instant | None:
        """When a lease may end next; those that were settled or extended wake nobody."""
        self._prune()
        return self._deadlines[0][0] if self._deadlines else None

    def _prune(self) -> None:
        while self._deadlines:
            deadline, token = self._deadlines[0]
            lease = self._leases.get(token)
            if lease is not None and lease.deadline == deadline:
                return
            heappop(self._deadlines)

    def _touch(self, lease: Lease) -> None:
        self._changed[b"l" + lease.token.to_bytes(8)] = None


def ender_key(token: int) -> bytes:
    """Of the record that says which operation ended a lease."""
    return b"e" + token.to_bytes(8)
