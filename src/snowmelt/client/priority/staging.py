"""What may be said again of a priority queue, as steps: staged puts, and leases that are kept.

A position is never two items'. So whoever has noted positions can publish what is staged there, and
say again what became of a lease, however often and however late. The rules are numbered in the
docstring of `protocols/priority` (13 to 15).

What lies with a node that is away can't be told anything: it is told when the node is back, and
until then the call goes on, for as long as its time lasts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from snowmelt.client.connection.session import checked_kind
from snowmelt.client.connection.steps import Rest, Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.leases.delivered import WIDE, Delivered, told_interval
from snowmelt.client.leases.steps import PIECES_MAX, delay_of
from snowmelt.client.priority.parts import Prioritized, calls_of
from snowmelt.client.priority.steps import PrioritySteps
from snowmelt.client.queue.bodies import packed_headers
from snowmelt.client.queue.options import seconds_of
from snowmelt.client.queue.staging_steps import HOLD
from snowmelt.core.batch import OFFSET_BYTES, Batch, Buffer
from snowmelt.core.errors import LeaseLost, Unavailable
from snowmelt.core.interval import Interval
from snowmelt.protocols.priority.batches import Share, Shares, union
from snowmelt.protocols.priority.calls import Receipt, Settle, Settled, Show, Shown
from snowmelt.protocols.priority.messages import Piece
from snowmelt.protocols.priority.positions import first_of, minus
from snowmelt.protocols.priority.settings import HOLD_LONGEST

__all__ = ["HOLD", "Holding", "Receipt"]

SHOWN_AT_ONCE: Final = 65_536
"""So many items are asked for by one call."""
_PAUSE: Final = 0.2
_LONGEST: Final = 2.0


class Told(msgspec.Struct, frozen=True):
    """What came of a word about positions."""

    lost: Shares = ()
    """It was refused of these, for good."""
    away: Shares = ()
    """And of these nobody could tell in the time given."""


class Holding:
    """One queue, as those know it who stage, and who keep what they lease."""

    def __init__(self, queue: PrioritySteps) -> None:
        self._queue = queue
        self.name = queue.name

    # --- staged puts ------------------------------------------------------------------------------

    def stage(
        self,
        items: Iterable[Buffer] | Iterable[Prioritized] | Batch,
        priority: float | None,
        headers: Mapping[str, str | bytes] | None,
        delay: float,
        hold: float,
        timeout: float,
    ) -> Steps[Receipt]:
        """Stores items; where they are staged."""
        label, delayed = packed_headers(headers), delay_of(delay)
        held = seconds_of("hold", hold, 1.0, HOLD_LONGEST / 1e9)
        shares: list[Share] = []
        for parts in calls_of(items, priority):
            done = yield from self._queue.put_parts(parts, label, delayed, Wait(timeout), held)
            shares.extend(done.shares)
        return Receipt(0, union(shares))

    def publish(self, receipt: Receipt, timeout: float) -> Steps[Told]:
        """What is staged there may be got; what was published before is left alone."""
        checked_kind("receipt", receipt, Receipt, "a Receipt, as `stage` told it")
        return (
            yield from self._say(receipt, timeout, lambda one: Settle(self.name, publish=(one,)))
        )

    # --- leases that are kept ---------------------------------------------------------------------

    def keep(self, receipt: Receipt, timeout: float) -> Steps[bool]:
        """All of it is held until it is said what became of it; whether that is so."""
        told = yield from self._say(receipt, timeout, lambda one: Settle(self.name, keep=(one,)))
        return not told.lost and not told.away

    def done(self, receipt: Receipt, timeout: float) -> Steps[Told]:
        return (yield from self._say(receipt, timeout, lambda one: Settle(self.name, done=(one,))))

    def back(self, receipt: Receipt, timeout: float) -> Steps[Told]:
        return (yield from self._say(receipt, timeout, lambda one: Settle(self.name, back=(one,))))

    def show(self, receipt: Receipt, timeout: float) -> Steps[tuple[list[Piece], Told]]:
        """What is held, once more; and of what it is not held any more, or nobody could tell."""
        wait, pause = Wait(timeout), _PAUSE
        pieces: list[Piece] = []
        left, lost = receipt.shares, list[Share]()
        while left:
            some = first_of(left, SHOWN_AT_ONCE)
            ask = Show(self.name, Receipt(receipt.token, some))
            shown: Shown = yield from self._queue.ask_about(ask, wait.left)
            new = union([_where(piece) for piece in shown.pieces])
            pieces.extend(shown.pieces)
            lost.extend(minus(minus(some, shown.held), shown.away))
            left = minus(left, (*new, *lost))
            if not new and left:
                if wait.over:
                    break
                yield Rest(min(pause, wait.left))
                pause = min(2 * pause, _LONGEST)
        return pieces, Told(union(lost), left)

    def _say(
        self, receipt: Receipt, timeout: float, make: Callable[[Receipt], Settle]
    ) -> Steps[Told]:
        wait, pause = Wait(timeout), _PAUSE
        lost: list[Share] = []
        away: list[Share] = list(receipt.shares)
        while True:
            left, away = union(away), []
            for some in _portions(left):
                ask = make(Receipt(receipt.token, some))
                settled: Settled = yield from self._queue.ask_about(ask, wait.left)
                gone = _shares(settled.away)
                away.extend(gone)
                lost.extend(minus(_shares(settled.lost), gone))
            if not away or wait.over:
                return Told(union(lost), union(away))
            yield Rest(min(pause, wait.left))
            pause = min(2 * pause, _LONGEST)


def receipt_of(delivered: Delivered) -> Receipt:
    """All of a lease, by positions; the most urgent first."""
    rows: dict[int, list[Interval]] = {}
    for one in delivered.positions:
        own = told_interval(one, WIDE)
        rows.setdefault(one.start >> WIDE, []).append(own)
    return Receipt(delivered.token, tuple([Share(one, tuple(rows[one])) for one in rows]))


def count_of(shares: Iterable[Share]) -> int:
    return sum([share.total for share in shares])


def not_staged(queue: str, receipt: Receipt, erased: int) -> str:
    """What is said when not all of it can be published."""
    return (
        f"{erased} of {count_of(receipt.shares)} items are not staged in queue {queue!r} any more: "
        "their time was over, or they never were"
    )


def check_held(queue: str, told: Told, timeout: float) -> None:
    """Raises when something is not held any more, or can't be told of."""
    if told.lost:
        text = f"{count_of(told.lost)} items of queue {queue!r} are not held any more"
        raise LeaseLost(text)
    check_there(queue, told, timeout)


def check_there(queue: str, told: Told, timeout: float) -> None:
    """Raises when some nodes were away all the time."""
    if told.away:
        text = (
            f"{count_of(told.away)} items of queue {queue!r} lie with nodes that were away for "
            f"{timeout:g} s: go on when they run (`snowmelt status`)"
        )
        raise Unavailable(text)


def _where(piece: Piece) -> Share:
    stop = piece.start + len(piece.offsets) // OFFSET_BYTES - 1
    return Share(piece.priority, (Interval(piece.start, stop),))


def _shares(receipts: Iterable[Receipt]) -> Shares:
    return union([share for receipt in receipts for share in receipt.shares])


def _portions(shares: Shares) -> Iterator[Shares]:
    """As one call may name them.

    >>> many = Share(0, tuple(Interval(2 * at, 2 * at + 1) for at in range(PIECES_MAX + 1)))
    >>> [len(some[0].intervals) for some in _portions((many,))]
    [16384, 1]
    """
    for share in shares:
        for at in range(0, len(share.intervals), PIECES_MAX):
            yield (Share(share.priority, share.intervals[at : at + PIECES_MAX]),)
