"""One node's part in Skeap, as a family on the overlay: the paper's phases 1 to 4."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay.family import Fetch, Store, TableOnly
from snowmelt_lab.machines.overlay.labels import key
from snowmelt_lab.machines.overlay.table import Slot
from snowmelt_lab.machines.skeap.anchor import Anchor
from snowmelt_lab.machines.skeap.batches import (
    RUNS_MAX,
    Batch,
    Grant,
    GrantedRun,
    Run,
    Shares,
    Some,
    combined,
    decomposed,
)


class Operation(msgspec.Struct):
    """An insert, or without a priority a DeleteMin; and what became of it. Times are rounds."""

    ticket: int
    priority: int | None
    made: int
    begun: int = -1
    """When it went up in a batch."""
    granted: int = -1
    done: int = -1
    order: int = -1
    at: tuple[int, int] | None = None
    """Priority and position; a get that found nothing has none."""
    element: str | None = None
    """What was put, or got."""


def runs_of(operations: Sequence[Operation]) -> list[list[Operation]]:
    """Cut where a put comes after a get (rule 1 of `batches`).

    >>> wanted = [0, 1, None, None, 2, None, 3]
    >>> made = [Operation(at, priority, 1) for at, priority in enumerate(wanted)]
    >>> [[one.priority for one in run] for run in runs_of(made)]
    [[0, 1, None, None], [2, None], [3]]
    """
    rows: list[list[Operation]] = [list(operations[:1])]
    for before, one in pairwise(operations):
        if before.priority is None and one.priority is not None:
            rows.append([])
        rows[-1].append(one)
    return rows


def slot(salt: str, at: tuple[int, int]) -> Slot:
    """Where the element of a position is kept: blocks of one."""
    return Slot(key(salt, *at), at)


class Asked:
    """The operations of one node, until they are done."""

    def __init__(self, me: NodeId, salt: str, now: Callable[[], int]) -> None:
        self.me: Final = me
        self.done: Final[list[Operation]] = []
        self._salt = salt
        self._now = now
        self._buffered: list[Operation] = []
        self._asked: list[Operation] = []
        """What the batch on its way stands for."""
        self._open: dict[int, Operation] = {}
        """What the table has in hand, by ticket."""

    def ask(self, operation: Operation) -> None:
        if operation.priority is not None:
            operation.element = f"{self.me}.{operation.ticket}"
        self._buffered.append(operation)

    @property
    def pending(self) -> bool:
        return bool(self._buffered or self._asked or self._open)

    def _end(self, operation: Operation) -> None:
        operation.done = self._now()
        self.done.append(operation)


class Skeap(Asked, TableOnly):
    """One node's part. The anchor's state is an `Anchor`, which stays where it is: nobody joins."""

    elements: Final = 0
    """All of them lie in the table."""

    def __init__(self, me: NodeId, salt: str, priorities: int, now: Callable[[], int]) -> None:
        super().__init__(me, salt, now)
        self._priorities = priorities

    # --- phase 1 ----------------------------------------------------------------------------------

    def snapshot(self) -> Batch | None:
        if not self._buffered:
            return None
        self._asked, self._buffered = self._buffered, []
        for one in self._asked:
            one.begun = self._now()
        rows = runs_of(self._asked)
        assert len(rows) <= RUNS_MAX, f"{self.me} has {len(rows)} runs"
        return Batch(tuple([_counted(row) for row in rows]))

    def taken_back(self) -> None:
        self._buffered = self._asked + self._buffered
        self._asked = []

    def combine(self, batches: Sequence[Batch]) -> Batch:
        return combined(batches)

    # --- phase 2 ----------------------------------------------------------------------------------

    def initial(self) -> Anchor:
        return Anchor(self._priorities)

    def assign(self, state: Anchor, batch: Batch) -> tuple[Anchor, Grant]:
        return state, state.granted(batch)

    # --- phase 3 ----------------------------------------------------------------------------------

    def decompose(self, grant: Grant, batches: Sequence[Batch]) -> list[Grant]:
        return decomposed(grant, batches)

    # --- phase 4 ----------------------------------------------------------------------------------

    def granted(self, grant: Grant) -> list[Store | Fetch]:
        """Puts and gets at the hash of priority and position."""
        rows, self._asked = runs_of(self._asked), []
        wishes: list[Store | Fetch] = []
        for row, run in zip(rows, grant.runs, strict=True):
            self._place(row, run)
            for one in row:
                one.granted = self._now()
                if one.at is None:
                    self._end(one)
                    continue
                self._open[one.ticket] = one
                where = slot(self._salt, one.at)
                wishes.append(
                    Fetch(one.ticket, where)
                    if one.priority is None
                    else Store(one.ticket, where, one.element)
                )
        return wishes

    def _place(self, row: Sequence[Operation], run: GrantedRun) -> None:
        """Rule 2 of `batches`: gets that found nothing are last, all under the next order."""
        grown = {share.priority: _positions((share,)) for share in run.puts}
        free = list(_positions(run.gets))
        puts = [one for one in row if one.priority is not None]
        gets = [one for one in row if one.priority is None]
        for order, one in enumerate(puts, run.order):
            assert one.priority is not None
            one.order, one.at = order, next(grown[one.priority])
        for at, one in enumerate(gets):
            one.order = run.got_order + min(at, len(free))
            one.at = free[at] if at < len(free) else None

    def kept(self, ticket: int) -> None:
        self._end(self._open.pop(ticket))

    def got(self, ticket: int, element: str) -> None:
        operation = self._open.pop(ticket)
        operation.element = element
        self._end(operation)


def _counted(row: Sequence[Operation]) -> Run:
    counts: dict[int, int] = {}
    for one in row:
        if one.priority is not None:
            counts[one.priority] = counts.get(one.priority, 0) + 1
    puts = tuple([Some(priority, counts[priority]) for priority in sorted(counts)])
    return Run(puts, len(row) - sum(counts.values()))


def _positions(shares: Shares) -> Iterator[tuple[int, int]]:
    for share in shares:
        for position in share.positions:
            yield share.priority, position
