"""Those who wait at a queue: gets for items, puts for room. Waiting costs the queue nothing.

A get that waits is asked again by its client every few seconds (`protocols.calling`); one that was
not is over: its client is gone, and nothing must be leased to it. Mostly this is known sooner: a
process that ends takes its connections with it (`calling.Gone`).

A put waits once, by its producer and number, however many nodes offer it: what became of it is the
same for all of them (`admission.py`).
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from typing import Final, TypeVar

import msgspec

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.fifo.calls import Get
from snowmelt.protocols.fifo.messages import Entry

SILENT_MAX: Final = seconds(12)
SPARE: Final = 64
"""So many deadlines more may be kept than twice those that count."""

PutName = tuple[str, int]
"""A producer, and its number."""
Name = TypeVar("Name", OperationId, PutName)


class WaitingGet(msgspec.Struct):
    operation: OperationId
    get: Get
    refused: str
    """Why what it wanted to settle was refused."""
    deadline: Instant
    asked: Instant


class WaitingPut(msgspec.Struct):
    """A put for which there was no room yet, and those who offer it."""

    deadline: Instant
    attempts: dict[tuple[str, int], Entry] = {}
    """By stream and first index: the nodes that have its body."""
    turns: dict[str, int] = {}
    """Who waits for it: callers, and the last turn of each."""

    def is_full(self, place: tuple[str, int], most: int) -> bool:
        """Whether one more attempt is too much."""
        return place not in self.attempts and len(self.attempts) >= most

    def offered(self, stream: str, entry: Entry) -> bool:
        """Another attempt, or the same again; whether it is a newer turn than all of its caller."""
        self.attempts[stream, entry.first] = entry
        newer = entry.turn > self.turns.get(entry.caller, -1)
        if newer:
            self.turns[entry.caller] = entry.turn
        return newer


class Waiting:
    """All who wait at one queue, in the order in which they came. No call looks at all of them."""

    def __init__(self) -> None:
        # Ordered: the first goes first, and a dict would look for the next among all that went.
        self.gets: OrderedDict[OperationId, WaitingGet] = OrderedDict()
        self.puts: dict[PutName, WaitingPut] = {}
        """By producer and number."""
        self._of: dict[NodeId, dict[OperationId, None]] = {}
        self._gets_end: list[tuple[Instant, OperationId]] = []
        self._puts_end: list[tuple[Instant, PutName]] = []

    def add_get(self, operation: OperationId, get: Get, refused: str, now: Instant) -> None:
        """A get begins to wait; what it settled is done with."""
        deadline = later(now, get.patience)
        if get.settle is not None:
            get = msgspec.structs.replace(get, settle=None)
        self.gets[operation] = WaitingGet(operation, get, refused, deadline, now)
        self._of.setdefault(operation.client, {})[operation] = None
        heappush(self._gets_end, (deadline, operation))
        if len(self._gets_end) > 2 * len(self.gets) + SPARE:
            self._gets_end = [(one.deadline, one.operation) for one in self.gets.values()]
            heapify(self._gets_end)

    def serve(self, lease: Callable[[WaitingGet], bool], now: Instant) -> None:
        """Serves the gets in their order, for as long as there is something to lease."""
        while self.gets:
            waiting = next(iter(self.gets.values()))
            if later(waiting.asked, SILENT_MAX) > now and not lease(waiting):
                return
            self._forget(waiting.operation)

    def over(self, now: Instant) -> list[WaitingGet]:
        """The gets whose patience is at its end; they wait no longer."""
        ended: list[WaitingGet] = []
        while (deadline := _first(self._gets_end, self.gets)) is not None and deadline <= now:
            _, operation = heappop(self._gets_end)
            ended.append(self.gets[operation])
            self._forget(operation)
        return ended

    def gone(self, client: NodeId) -> None:
        """Nobody is there for the gets of this client; if it lives, it asks again. O(its gets)."""
        for operation in list(self._of.get(client, ())):
            self._forget(operation)

    def _forget(self, operation: OperationId) -> None:
        del self.gets[operation]
        its = self._of[operation.client]
        del its[operation]
        if not its:
            del self._of[operation.client]

    # --- puts -------------------------------------------------------------------------------------

    def put_until(self, put: PutName, deadline: Instant) -> None:
        """How long one of the puts waits, from now on."""
        self.puts[put].deadline = deadline
        heappush(self._puts_end, (deadline, put))
        if len(self._puts_end) > 2 * len(self.puts) + SPARE:
            self._puts_end = [(one.deadline, name) for name, one in self.puts.items()]
            heapify(self._puts_end)

    def puts_over(self, now: Instant) -> list[tuple[PutName, WaitingPut]]:
        """The puts whose patience is at its end; they wait no longer."""
        ended: list[tuple[PutName, WaitingPut]] = []
        while (deadline := _first(self._puts_end, self.puts)) is not None and deadline <= now:
            _, put = heappop(self._puts_end)
            ended.append((put, self.puts.pop(put)))
        return ended

    # --- deadlines --------------------------------------------------------------------------------

    def next_deadline(self, *, gets: bool = True) -> Instant | None:
        """When somebody's patience ends next; that of gets may not count now."""
        firsts = (
            _first(self._gets_end, self.gets) if gets else None,
            _first(self._puts_end, self.puts),
        )
        return min((one for one in firsts if one is not None), default=None)


def _first(
    ends: list[tuple[Instant, Name]], waiting: Mapping[Name, WaitingGet | WaitingPut]
) -> Instant | None:
    """When the next patience ends; those that are served have left their deadlines."""
    while ends:
        deadline, name = ends[0]
        one = waiting.get(name)
        if one is not None and one.deadline == deadline:
            return deadline
        heappop(ends)
    return None
