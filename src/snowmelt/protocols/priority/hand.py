"""Operations that a door has in hand, and what it remembers of those that it had."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from snowmelt.core.batch import Batch as Bodies
from snowmelt.core.instant import Instant, later
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.priority.batches import Share, Shares, Some, summed
from snowmelt.protocols.priority.calls import Get, Leased, Purge, Put, Receipt
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.messages import Piece
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.positions import without
from snowmelt.protocols.priority.settings import REMEMBERED
from snowmelt.protocols.priority.waiting import Waiting

REMEMBERED_MAX: Final = 100_000
PIECES_REMEMBERED: Final = 1 << 20
"""So many intervals are in all that is remembered."""


class Placed(msgspec.Struct, frozen=True, gc=False):
    """Elements of a put that have their positions."""

    first: int
    """The number of the first of them within the put."""
    share: Share
    order: int

    def part(self, where: Interval) -> "Placed":
        """Those that stand in a part of it."""
        skipped = where.start - self.share.intervals[0].start
        share = Share(self.share.priority, (where,))
        return Placed(self.first + skipped, share, self.order + skipped)

    @property
    def numbers(self) -> Interval:
        """Which elements of the put these are."""
        return Interval(self.first, self.first + self.share.total)


class PutInHand(msgspec.Struct, gc=False):
    operation: OperationId
    call: Put
    bodies: Bodies
    stretches: tuple[tuple[int, Interval], ...]
    """Of which priority which of its elements are, in their order."""
    deadline: Instant
    left: list[tuple[int, Interval]]
    """What has no positions yet."""
    placed: list[Placed] = []
    again: bool = False
    """Whether it was begun before."""
    another: bool = False
    """Whether it is another door's, for all that is known, and was only asked after."""
    waits: int = 0
    """For so many homes."""
    copies: int = 0
    refused: str = ""
    keys: bytes = b""
    """The priorities of its elements, where these have no number (`seap`)."""
    sent: int = 0
    """How often it went home: the rest for which there was no room goes with what was there."""
    nobody: bool = False
    """Whether the client has gone."""

    @property
    def unwanted(self) -> bool:
        """Whether nobody waits for it, and nothing of it is anywhere."""
        return self.nobody and not (self.placed or self.again)

    def counts(self) -> tuple[Some, ...]:
        """How many positions it needs, by priority."""
        return summed([Some(priority, where.stop - where.start) for priority, where in self.left])

    def lacking(self) -> list[tuple[int, Interval]]:
        """What of it has no position, by priority."""
        there = [each.numbers for each in self.placed]
        return [(one, gap) for one, where in self.stretches for gap in without(where, there)]


class GetInHand(msgspec.Struct, gc=False):
    operation: OperationId
    call: Get | Purge
    count: int
    deadline: Instant
    order: int = 0
    token: int = 0
    granted: Shares = ()
    pieces: list[Piece] = []
    left: list[Share] = []
    """Leased, and too much for one answer."""
    over: Shares = ()
    """The same, when it goes back: it is answered when it has."""
    waits: int = 0
    settled: bool = True
    """Whether what was to be settled first is."""
    lost: list[Receipt] = []
    purged: int = 0
    again: bool = False
    """Whether it was answered before: it gets nothing else than it got then."""
    fresh: bool = False
    """Whether what it has on its way was granted to it here, in this view: no other door and no
    client can know of it."""
    another: bool = False
    """Whether it is another door's, for all that is known, and was only asked after."""
    ready: bool = False
    """Whether it can be answered, but for what was to be settled first."""
    nobody: bool = False
    """Whether the client has gone: what comes goes back."""
    heard: Instant | None = None
    """Until when its answer is waited for; None for ever."""
    phase: int = 0
    """By which it was served (`seap`, rule 4)."""
    last: tuple[int, int] | None = None
    """What a home has not told is behind this, where priorities have no number."""

    def given_up(self, now: Instant) -> bool:
        """Whether its client waits for it no more, wherever that is."""
        return self.heard is not None and now >= self.heard

    def unheard(self, now: Instant) -> bool:
        """Whether nobody waits for it, and nobody was told what it has (door, rule 4)."""
        return (self.nobody or self.given_up(now)) and (self.fresh or not self.pieces)


class Memory:
    """What was answered, and who has taken over what: for so long, and so many.

    >>> memory = Memory()
    >>> memory.keep(OperationId(NodeId("c"), 1), "done", Instant(0))
    >>> memory.get(OperationId(NodeId("c"), 1)), memory.get(OperationId(NodeId("c"), 2))
    ('done', None)
    >>> memory.forget(later(Instant(0), REMEMBERED)); memory.get(OperationId(NodeId("c"), 1))
    """

    def __init__(self) -> None:
        self._known: OrderedDict[OperationId, tuple[Instant, Any, int]] = OrderedDict()
        self._pieces = 0

    def keep(self, operation: OperationId, what: Any, now: Instant, pieces: int = 1) -> None:
        """Remembers it from now on; of so many pieces, since what is in very many takes room."""
        if operation in self._known:
            self._drop(operation)
        self._known[operation] = later(now, REMEMBERED), what, pieces
        self._pieces += pieces
        while len(self._known) > REMEMBERED_MAX or self._pieces > PIECES_REMEMBERED:
            self._drop(next(iter(self._known)))

    def get(self, operation: OperationId) -> Any:
        known = self._known.get(operation)
        return None if known is None else known[1]

    @property
    def until(self) -> Instant | None:
        """When the oldest is forgotten."""
        return next(iter(self._known.values()))[0] if self._known else None

    def forget(self, now: Instant) -> None:
        while self._known:
            operation, (until, _, _) = next(iter(self._known.items()))
            if until > now:
                return
            self._drop(operation)

    def _drop(self, operation: OperationId) -> None:
        known = self._known.pop(operation, None)
        self._pieces -= known[2] if known is not None else 0


class TakenOver(msgspec.Struct, frozen=True):
    """Who has an operation in hand that was begun at another door: some other, or this one.

    In another view than that (`era`) it is only known that it was begun.
    """

    door: NodeId
    era: int


class Again(msgspec.Struct, frozen=True, gc=False):
    """A get that was answered: asked again, it is leased again under the same token."""

    token: int
    granted: Shares
    order: int


class Hand:
    """All that a door of one queue has in hand, and what it remembers."""

    def __init__(self, desk: Desk, queue: str, limits: Limits) -> None:
        self._desk = desk
        self._queue = queue
        self._limits = limits
        self.all: dict[OperationId, PutInHand | GetInHand] = {}
        self.line: deque[OperationId] = deque()
        """For the next batch."""
        self.riding: list[tuple[OperationId, int]] = []
        """Which operations are in the batch on its way, and in which of its runs."""
        self.waiting = Waiting()
        """For elements, or for room."""
        self.answered = Memory()
        self.elsewhere = Memory()
        self.placing: Placing | None = None
        """Where positions lie, within a view."""

    def add(self, one: PutInHand | GetInHand) -> None:
        self.all[one.operation] = one
        if isinstance(one, PutInHand):
            self._desk.in_hand_bytes += one.call.size

    def leave(self, operation: OperationId) -> None:
        one = self.all.pop(operation)
        if isinstance(one, PutInHand):
            self._desk.in_hand_bytes -= one.call.size

    def full(self, size: int) -> str:
        """Why there is no room for one more, of so many bytes; empty when there is."""
        calls, there = self._limits.in_hand, self._desk.in_hand_bytes
        if len(self.all) >= calls:
            return f"{calls} calls of queue {self._queue} wait here; ask again"
        if size and there and there + size > self._limits.in_hand_bytes:
            return f"{there} bytes of puts wait at this node already; ask again"
        return ""

    def gone(self, client: NodeId) -> None:
        """No connection of this client is open: nobody waits for what it asked (door, rule 4)."""
        for operation, one in list(self.all.items()):
            if operation.client != client:
                continue
            one.nobody = True
            if operation in self.waiting and (isinstance(one, GetInHand) or one.unwanted):
                self.waiting.remove(operation)
                self.leave(operation)

    def has(self, operation: OperationId) -> bool:
        """Whether it is in hand; who asks for it is there to have it (door, rule 4)."""
        one = self.all.get(operation)
        if one is not None:
            one.nobody = False
        return one is not None

    def interrupted(self, among: Iterable[OperationId]) -> list[tuple[OperationId, int]]:
        """Gets of which not all homes have answered, in their order; they begin anew (door, 3)."""
        gets = [one for at in among if isinstance(one := self.all.get(at), GetInHand)]
        ours = [one for one in gets if one.fresh and one.waits and isinstance(one.call, Get)]
        found = sorted([(one.token, one.operation) for one in ours])
        for one in ours:
            one.pieces, one.left, one.granted, one.over = [], [], (), ()
            one.order = one.token = one.waits = 0
            one.fresh = False
        return [(operation, token) for token, operation in found]

    def at(self) -> Placing:
        """Where positions lie; grants come within a view."""
        assert self.placing is not None
        return self.placing

    def forget(self, now: Instant) -> Iterator[Instant]:
        """What is too old; and when there is more to forget."""
        for memory in (self.answered, self.elsewhere):
            memory.forget(now)
            if memory.until is not None:
                yield memory.until

    def dropped(self, one: PutInHand) -> bool:
        """A put for which there is no room leaves: whether without a word (door, rule 7)."""
        self.leave(one.operation)
        if one.again:
            desk = self._desk
            self.elsewhere.keep(one.operation, TakenOver(desk.me, desk.era), desk.now)
        return one.again

    def remember(self, one: GetInHand, answer: Leased, now: Instant) -> None:
        """What a get was answered: asked again, it is leased that again."""
        kept = Again(one.token, one.granted, one.order) if answer.token else answer
        shares = (*one.granted, *[share for receipt in one.lost for share in receipt.shares])
        pieces = 1 + sum([len(share.intervals) for share in shares])
        self.answered.keep(one.operation, kept, now, pieces)

    def send_out(self) -> None:
        """Puts that may have been begun before stand in line no more (door, rule 3)."""
        puts = [(at, self.all.get(at)) for at in (*self.line, *self.waiting)]
        begun = {at for at, one in puts if isinstance(one, PutInHand) and one.again}
        self.line = deque([at for at in self.line if at not in begun])
        for at in begun.intersection(self.waiting):
            self.waiting.remove(at)

    def ask(self, operation: OperationId) -> None:
        self.waiting.remove(operation)
        if operation in self.all:
            self.line.append(operation)
