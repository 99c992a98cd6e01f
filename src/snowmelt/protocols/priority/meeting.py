"""Where doors learn which elements have the ranks that they were given: seap, rule 10.

1. The node that keeps the hash of a block of ranks is told by homes where the elements are, and
   tells doors. A door that comes first waits.
2. What was told is forgotten `FORGOTTEN` later: by then whoever asked has heard it, since within a
   view nobody fails and all is said again until it is heard.
3. Where the home, that node and the door are one nothing is said: what the home has told is known,
   and what the door has heard is forgotten at once.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.pieces import Pieces
from snowmelt.protocols.priority.batches import Cut, Share, Shares, union
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.phase_messages import Met, Ranked, Seek, Sought
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.sending import Unanswered

RANKS: Final = 1
"""The row of ranks; elements have row 0."""
RANKS_AT_ONCE: Final = 4_096
FORGOTTEN: Final = seconds(60)


class Search(msgspec.Struct):
    """The ranks of one get, until it is known where all of them are."""

    operation: OperationId | None
    """None when nobody wants them any more."""
    waits: int = 0
    found: dict[int, Shares] = {}
    """By the first rank."""


class Meeting:
    """One node's part, for one queue, in one view: as a home, as a door, and between them."""

    def __init__(self, desk: Desk, queue: str, placing: Placing) -> None:
        self._desk = desk
        self._queue = queue
        self._placing = placing
        self._sending: Unanswered[tuple[int, int]] = Unanswered(desk, queue)
        self._searches: dict[int, Search] = {}
        self._number = 0
        self._alone = placing.everybody[:1] == (desk.me,)
        """Whether this node is home of all, and told of all ranks (rule 3)."""
        self._at: Pieces[Ranked] = Pieces()
        """By ranks, what a home told of them."""
        self._waiting: dict[tuple[NodeId, int], Interval] = {}
        self._told: deque[tuple[Instant, Interval]] = deque()

    # --- a home, and a door -----------------------------------------------------------------------

    def bring(self, start: int, positions: Shares) -> None:
        """This home's elements have these ranks, in the order of their positions."""
        if self._alone:
            self._keep(Ranked(self._desk.era, self._queue, 0, start, positions))
            return
        total, left = sum([share.total for share in positions]), Cut(positions)
        for node, ranks in self._nodes(Interval(start, start + total)):
            shares = positions if ranks.size == total else left.in_order(ranks.size)
            if node == self._desk.me:  # rule 3
                self._keep(Ranked(self._desk.era, self._queue, 0, ranks.start, shares))
                continue

            def make(serial: int, first: int = ranks.start, shares: Shares = shares) -> Ranked:
                return Ranked(self._desk.era, self._queue, serial, first, shares)

            self._sending.send(node, (), make)

    def search(self, operation: OperationId | None, ranks: Interval) -> Shares | None:
        """This door was given these ranks: where they are, if it is known by now (rule 3)."""
        nodes = [] if self._alone else list(self._nodes(ranks))
        if all(node == self._desk.me for node, _ in nodes) and self._known(ranks):
            found = self._shares(ranks)
            self._at.clear(ranks)
            return found
        self._number += 1
        search = self._searches[self._number] = Search(operation)
        for node, part in nodes or self._nodes(ranks):
            search.waits += 1

            def make(serial: int, part: Interval = part) -> Seek:
                return Seek(self._desk.era, self._queue, serial, part)

            self._sending.send(node, ((self._number, part.start),), make)
        return None

    def met(self, source: NodeId, message: Met) -> None:
        self._sending.answered(source, message.serial)

    def sought(self, source: NodeId, message: Sought) -> tuple[OperationId | None, Shares] | None:
        sent = self._sending.answered(source, message.serial)
        if sent is None:
            return None
        ((number, start),) = sent.operations
        search = self._searches[number]
        search.found[start] = message.shares
        search.waits -= 1
        if search.waits:
            return None
        del self._searches[number]
        found = [share for at in sorted(search.found) for share in search.found[at]]
        return search.operation, union(found)

    def again(self) -> None:
        self._sending.again()

    # --- between them -----------------------------------------------------------------------------

    def ranked(self, source: NodeId, message: Ranked) -> None:
        """A home tells (rule 1)."""
        self._desk.send(source, Met(self._desk.era, self._queue, message.serial))
        self._keep(message)

    def seek(self, source: NodeId, message: Seek) -> None:
        """A door asks (rule 1)."""
        while self._told and self._told[0][0] <= self._desk.now:  # rule 2
            self._at.clear(self._told.popleft()[1])
        if self._known(message.ranks):
            self._tell(source, message.serial, message.ranks)
        else:
            self._waiting[source, message.serial] = message.ranks

    def _keep(self, message: Ranked) -> None:
        """It is known from now on; who asked before is told."""
        told = _ranks(message)
        self._at.put(told, message)
        for (door, serial), ranks in list(self._waiting.items()):
            if ranks.start < told.stop and told.start < ranks.stop and self._known(ranks):
                del self._waiting[door, serial]
                self._tell(door, serial, ranks)

    def _known(self, ranks: Interval) -> bool:
        return sum([some.size for some, _ in self._at.common(ranks)]) == ranks.size

    def _tell(self, door: NodeId, serial: int, ranks: Interval) -> None:
        self._told.append((later(self._desk.now, FORGOTTEN), ranks))
        shares = self._shares(ranks)
        self._desk.send(door, Sought(self._desk.era, self._queue, serial, shares))

    def _shares(self, ranks: Interval) -> Shares:
        whole = self._at.at(ranks.start)
        if whole is not None and whole[0] == ranks == _ranks(whole[1]):  # as mostly
            return whole[1].shares
        found = [one for part, told in self._at.common(ranks) for one in _where(told, part)]
        return (Share(0, tuple(found)),)

    def _nodes(self, ranks: Interval) -> Iterator[tuple[NodeId, Interval]]:
        for block in self._placing.blocks(ranks):
            start = block.start
            while start < block.stop:
                stop = min(block.stop, start + RANKS_AT_ONCE)
                yield self._placing.home(RANKS, start), Interval(start, stop)
                start = stop


def _ranks(told: Ranked) -> Interval:
    return Interval(told.start, told.start + sum([share.total for share in told.shares]))


def _where(told: Ranked, ranks: Interval) -> Iterator[Interval]:
    """Where the elements of some of the ranks stand that a home told of, in their order."""
    rank = told.start
    for share in told.shares:
        for one in share.intervals:
            after = rank + one.stop - one.start
            if ranks.start <= rank and after <= ranks.stop:  # as mostly
                yield one
            elif rank < ranks.stop and ranks.start < after:
                by = one.start - rank
                yield Interval(max(rank, ranks.start) + by, min(after, ranks.stop) + by)
            rank = after
