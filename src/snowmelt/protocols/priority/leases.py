"""When the leases of one home end, and when what is held becomes free (home, rules 4 and 7)."""

from collections.abc import Iterable
from heapq import heappop, heappush

from snowmelt.core.instant import Duration, Instant, later
from snowmelt.protocols.priority.batches import Share, Shares
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.messages import Mark
from snowmelt.protocols.priority.positions import minus
from snowmelt.protocols.priority.settings import State


class Leases:
    """Moments, by token; and by positions for what is held."""

    def __init__(self, desk: Desk, queue: str) -> None:
        self._desk = desk
        self._queue = queue
        self._ends: dict[int, Instant] = {}
        self._shares: dict[int, list[Share]] = {}
        self._heap: list[tuple[Instant, int]] = []
        self._held: list[tuple[Instant, int, Shares]] = []
        self._count = 0

    def lease(self, token: int, shares: Shares, time: Duration) -> None:
        """These are leased under it for so long, with what was before."""
        self._shares.setdefault(token, []).extend(shares)
        self.renew(token, time)

    def renew(self, token: int, time: Duration) -> None:
        """All that is left under it is held for so long from now on."""
        if token not in self._shares:  # nothing is
            return
        at = later(self._desk.now, time)
        self._ends[token] = at
        heappush(self._heap, (at, token))
        if self._heap[0][1] == token:  # else it is woken before
            self._desk.wake(at, self._queue)

    def end(self, token: int, shares: Shares) -> None:
        """These are not leased under it any more: when nothing else is, its time is nobody's."""
        leased = self._shares.get(token)
        if leased is None:
            return
        left = () if tuple(leased) == shares else minus(tuple(leased), shares)
        if left:
            self._shares[token] = list(left)
        else:
            del self._shares[token], self._ends[token]

    def hold(self, shares: Shares, due: int) -> None:
        """These are free at this moment of the wall clock."""
        at = self._desk.instant_of(due)
        self._count += 1
        heappush(self._held, (at, self._count, shares))
        self._desk.wake(at, self._queue)

    def hold_all(self, marks: Iterable[Mark]) -> None:
        """The same of what is held by these."""
        for mark in marks:
            if mark.state == State.HELD:
                self.hold(mark.shares, mark.due)

    def over(self) -> list[tuple[int, Shares]]:
        """Whose time is over: the tokens, and what was leased under them at first."""
        ended: list[tuple[int, Shares]] = []
        while self._heap and self._heap[0][0] <= self._desk.now:
            at, token = heappop(self._heap)
            if self._ends.get(token) == at:  # else it was renewed
                del self._ends[token]
                ended.append((token, tuple(self._shares.pop(token))))
        if self._heap:
            self._desk.wake(self._heap[0][0], self._queue)
        return ended

    def due(self) -> list[Shares]:
        free: list[Shares] = []
        while self._held and self._held[0][0] <= self._desk.now:
            free.append(heappop(self._held)[2])
        if self._held:
            self._desk.wake(self._held[0][0], self._queue)
        return free
