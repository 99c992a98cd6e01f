"""What a priority queue's clients say and hear, in the words of its judge (`judge/urgency.py`)."""

from collections.abc import Iterable, Iterator

import msgspec

from snowmelt.core.batch import Batch
from snowmelt.core.failures import in_vain
from snowmelt.core.instant import Instant, later
from snowmelt.core.keys import unpacked
from snowmelt.core.names import NodeId
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.anchor import EPOCH_BITS, first_of
from snowmelt.protocols.priority.batches import Shares
from snowmelt.protocols.priority.gets import ordered
from snowmelt.protocols.priority.messages import Piece
from snowmelt.protocols.priority.placing import Placing, spread_of
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.sim.judge.copies import Excuses
from snowmelt.sim.judge.urgency import Got, UrgencyLedger
from snowmelt.sim.judge.values import Came, Place, Put, Terms


class PriorityLayout:
    """Who keeps what of one queue, by the hash."""

    def __init__(self, settings: QueueSettings, block: int) -> None:
        self._settings = settings
        self._block = block
        self._placings: dict[tuple[NodeId, ...], Placing] = {}

    def holders(self, members: tuple[NodeId, ...], place: Place) -> frozenset[NodeId]:
        placing = self._placings.get(members)
        if placing is None:
            spread, settings = spread_of(members), self._settings
            placing = Placing(spread, settings.queue, settings.replicas, self._block)
            self._placings[members] = placing
        return frozenset(placing.holders(place.priority, place.position))

    def epoch(self, number: int) -> int:
        return number >> EPOCH_BITS

    def first(self, epoch: int) -> int:
        return first_of(epoch)


class Ledger(UrgencyLedger):
    """A queue's ledger, which is told calls and answers."""

    def __init__(
        self, settings: QueueSettings, excuses: Excuses, block: int, *, early: int = 0
    ) -> None:
        layout = PriorityLayout(settings, block)
        super().__init__(settings.queue, terms_of(settings), excuses, layout, early=early)
        self.settings = settings
        self.others: tuple[QueueSettings, ...] = ()
        """What some want it to be instead; it is what is made first, for good."""

    def is_made(self, settings: QueueSettings) -> None:
        """It is this, for good."""
        self.others, self.settings = (self.settings,), settings
        self.terms = terms_of(settings)

    def asks(self, put: calls.Put, at: Instant) -> Put:
        """A put is on its way."""
        rows = [row for part in put.parts for row in _rows(part)]
        return self.sends(rows, put.headers, put.delay, at)

    def hears(self, put: Put, answer: calls.PutDone, at: Instant) -> None:
        """It is in."""
        self.done(put, _places(answer.shares), _orders(put, answer), at)

    def got(
        self, process: str, called: Instant, asked: int, answer: calls.Leased, at: Instant
    ) -> Got | None:
        """A get was answered."""
        lasts = later(called, answer.lease)
        got = Got(
            process, answer.token, called, at, Instant(0), lasts, order=answer.order, asked=asked
        )
        pieces = ordered(answer.pieces, self.settings) if answer.pieces else ()
        return self.leased(got, self.items(pieces))

    def items(self, pieces: Iterable[Piece]) -> Iterator[Came]:
        """What was shown."""
        for piece in pieces:
            failures, keys = in_vain(piece.failures, piece.reason), unpacked(piece.keys)
            for index, body in enumerate(Batch(piece.offsets, piece.blob)):
                place = Place(piece.priority, piece.start + index)
                value = bytes(body).decode(errors="replace")
                priority = keys[index] if self.settings.keyed else piece.priority
                yield Came(place, value, piece.headers, priority, failures)


def terms_of(settings: QueueSettings) -> Terms:
    return msgspec.convert(settings, Terms, from_attributes=True)


def receipts_of(lost: tuple[calls.Receipt, ...], got: Got) -> list[int]:
    """Which of its elements are named in what was refused."""
    named = {one for each in lost if each.token == got.token for one in _places(each.shares)}
    return [index for index, place in enumerate(got.places) if place in named]


def _rows(part: calls.Part) -> list[tuple[str, int]]:
    """Each body of a part, and its priority."""
    values = [bytes(body).decode() for body in Batch(part.offsets, part.blob)]
    own = unpacked(part.keys) if part.keys else [part.priority] * len(values)
    return list(zip(values, own, strict=True))


def _places(shares: Shares) -> tuple[Place, ...]:
    return tuple(
        [
            Place(share.priority, position)
            for share in shares
            for interval in share.intervals
            for position in interval
        ]
    )


def _orders(put: Put, answer: calls.PutDone) -> tuple[int, ...]:
    """Of each element; none of what was held back at first."""
    sizes = [interval.size for share in answer.shares for interval in share.intervals]
    if put.due or not answer.orders:
        return ()
    if put.keyed:  # phases: as many as there are stretches
        rows = zip(answer.orders, answer.shares, strict=True)
        return tuple([order for order, share in rows for _ in range(share.total)])
    if len(answer.orders) == 1:
        return tuple(range(answer.orders[0], answer.orders[0] + sum(sizes)))
    orders: list[int] = []
    if len(sizes) != len(answer.orders):
        return ()
    for first, size in zip(answer.orders, sizes, strict=True):
        orders.extend(range(first, first + size))
    return tuple(orders)
