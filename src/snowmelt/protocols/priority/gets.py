"""A door's gets: what they were granted is taken from its homes, and handed out together."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from snowmelt.core.keys import key_at
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.priority.batches import Share, Shares, union
from snowmelt.protocols.priority.calls import Get, Leased
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.ends import Ends
from snowmelt.protocols.priority.fitting import fitting, weight
from snowmelt.protocols.priority.hand import GetInHand
from snowmelt.protocols.priority.keyed import by_key
from snowmelt.protocols.priority.lots import in_order
from snowmelt.protocols.priority.messages import Given, Piece, Refusal, Take, Want, Word
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.positions import minus
from snowmelt.protocols.priority.sending import Sending
from snowmelt.protocols.priority.settings import How, QueueSettings

_START: Final = attrgetter("start")


class Gets:
    """Of one queue, at one door."""

    def __init__(self, desk: Desk, settings: QueueSettings, sending: Sending, ends: Ends) -> None:
        self._desk = desk
        self._settings = settings
        self._queue = settings.queue
        self._sending = sending
        self._ends = ends
        self.wants: dict[NodeId, list[tuple[OperationId, Want]]] = {}
        """What leaves with this turn, by homes."""

    def take(self, one: GetInHand, granted: Shares, token: int, placing: Placing) -> None:
        """Asks the homes for what was granted; a purge needs no lease."""
        one.granted, one.token, one.order = granted, token, token
        one.left, one.last = [], None  # what was told of an earlier grant says nothing of this one
        if self._settings.keyed:
            one.order = one.phase
        operation, call = one.operation, one.call
        homes = sorted(placing.by_home(granted).items())
        if not isinstance(call, Get):
            one.waits += self._ends.say(homes, How.PURGE, token=token, operation=operation)
            return
        for home, shares in homes:
            one.waits += 1
            want = Want(operation, token, shares, call.bytes_max, call.gathered, call.ahead)
            self.wants.setdefault(home, []).append((operation, want))

    def purged(self, one: GetInHand, placing: Placing) -> None:
        """Asks which of what it was granted a purge has removed (door, rule 8)."""
        homes, operation = sorted(placing.by_home(one.granted).items()), one.operation
        one.waits += self._ends.say(homes, How.PURGED, token=one.token, operation=operation)

    def removed(self, one: GetInHand, word: Word, refusal: Refusal | None) -> bool:
        """A home has removed what a purge was granted; whether that was the last."""
        one.waits -= 1
        one.granted = minus(one.granted, word.shares)
        one.purged += sum([share.total for share in word.shares])
        one.purged -= sum([share.total for share in refusal.shares]) if refusal is not None else 0
        return one.waits == 0

    def leave(self) -> None:
        """The turn is over: what it brings goes to each home together (door, rule 10)."""
        wants, self.wants = self.wants, {}
        era, queue, lease = self._desk.era, self._queue, self._settings.lease
        for home, theirs in wants.items():
            self._sending.send_all(
                home, theirs, lambda some, serial: Take(era, queue, serial, some, lease)
            )

    def viewed(self) -> None:
        """What was to be asked in a view that is over is not."""
        self.wants = {}

    def taken(self, one: GetInHand, given: Given) -> bool:
        """A home has leased what there is of it; whether that was the last."""
        one.waits -= 1
        one.pieces.extend(given.pieces)
        one.left.extend(given.left)
        if given.left and self._settings.keyed and given.pieces:  # a home tells its least first
            final = given.pieces[-1]
            key = key_at(final.keys, final.count - 1)
            last = _rank(self._settings, key, final.start + final.count - 1)
            one.last = last if one.last is None else min(last, one.last)
        return one.waits == 0

    def leased(self, one: GetInHand) -> Leased:
        """The answer, in the order in which it was granted; a set where priorities have none."""
        if self._settings.keyed:
            pieces = tuple(sorted(one.pieces, key=_START))
        else:
            pieces = ordered(one.pieces, self._settings)
        token = one.token if pieces else 0
        order = one.order if pieces or not one.token else 0
        lost = tuple(one.lost)
        return Leased(token, pieces, self._settings.lease, order, lost)

    def fitted(self, one: GetInHand, placing: Placing) -> bool:
        """What is too much for one answer goes back, all from the first that does not fit.

        Whether there is nothing of it: else the answer waits (door, rule 9).
        """
        if not isinstance(one.call, Get) or (len(one.pieces) < 2 and not one.left):
            return True
        if self._settings.keyed and not one.left and weight(one.pieces) <= one.call.bytes_max:
            return True
        pieces = ordered(one.pieces, self._settings)
        if one.left and one.last is not None:
            here = [
                _rank(self._settings, key_at(each.keys, 0), each.start) <= one.last
                for each in pieces
            ]
        elif one.left and not self._settings.keyed:  # else none of it is where it should be
            first = min(
                [
                    _rank(self._settings, share.priority, share.intervals[0].start)
                    for share in one.left
                ]
            )
            here = [_rank(self._settings, each.priority, each.start) < first for each in pieces]
        else:
            here = [True] * len(pieces)
        told = [each for each, told in zip(pieces, here, strict=True) if told]
        late = [each for each, told in zip(pieces, here, strict=True) if not told]
        fit, rest = fitting(told, one.call.bytes_max)
        back = union([*rest, *one.left, *_shares(late)])
        if back:
            one.pieces, one.left, one.granted = list(fit), [], in_order(list(_shares(fit)))
            one.over, homes = back, sorted(placing.by_home(back).items())
            operation = one.operation
            one.waits = self._ends.say(homes, How.BACK, token=one.token, operation=operation)
        return not back

    def went_back(self, one: GetInHand, word: Word) -> bool:
        """Whether a home has taken back what is over, of this get."""
        back = bool(one.over) and word.how == How.BACK and word.token == one.token
        one.waits -= back
        return back

    def give_back(self, one: GetInHand, placing: Placing) -> None:
        """Nobody is there to have what it got: it waits until the homes have that."""
        one.over, one.pieces, one.granted = union(_shares(one.pieces)), [], ()
        one.ready = False
        homes = sorted(placing.by_home(one.over).items())
        one.waits = self._ends.say(homes, How.BACK, token=one.token, operation=one.operation)


def _shares(pieces: Sequence[Piece]) -> list[Share]:
    return [one.share for one in pieces]


def _rank(settings: QueueSettings, priority: int, position: int) -> tuple[int, int]:
    return (-priority if settings.largest_first else priority), position


def ordered(pieces: Sequence[Piece], settings: QueueSettings) -> tuple[Piece, ...]:
    """Most urgent first, also where leases of an earlier view are told in another order.

    Where priorities have no number each piece is of one.
    """
    if settings.keyed:
        return by_key(pieces, largest_first=settings.largest_first)
    if len(pieces) < 2:
        return tuple(pieces)
    return tuple(sorted(pieces, key=lambda piece: _rank(settings, piece.priority, piece.start)))
