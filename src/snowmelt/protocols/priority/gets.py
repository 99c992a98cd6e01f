"""A door's gets: what they were granted is taken from its homes, and handed out together."""

from collections.abc import Sequence

from snowmelt.core.batch import OFFSET_BYTES
from snowmelt.core.interval import Interval
from snowmelt.protocols.priority.batches import Share, Shares, union
from snowmelt.protocols.priority.calls import Get, Leased
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.hand import GetInHand
from snowmelt.protocols.priority.messages import End, Piece, Take, Taken
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.sending import Sending
from snowmelt.protocols.priority.settings import How, QueueSettings


class Gets:
    """Of one queue, at one door."""

    def __init__(self, desk: Desk, settings: QueueSettings, sending: Sending) -> None:
        self._desk = desk
        self._settings = settings
        self._queue = settings.queue
        self._sending = sending

    def take(self, one: GetInHand, granted: Shares, token: int, placing: Placing) -> None:
        """Asks the homes for what was granted; a purge needs no lease."""
        one.granted, one.token, one.order = granted, token, token
        lease = self._settings.lease
        operation = one.operation
        for home, shares in sorted(placing.by_home(granted).items()):
            one.waits += 1
            if isinstance(one.call, Get):

                def make(serial: int, shares: Shares = shares) -> Take | End:
                    return Take(
                        self._desk.era, self._queue, serial, operation, token, shares, lease
                    )
            else:

                def make(serial: int, shares: Shares = shares) -> Take | End:
                    era, queue = self._desk.era, self._queue
                    return End(era, queue, serial, token, shares, How.PURGE)

            self._sending.send(home, (operation,), make)

    def taken(self, one: GetInHand, message: Taken) -> bool:
        """A home has leased what there is of it; whether that was the last."""
        one.waits -= 1
        one.pieces.extend(message.pieces)
        return one.waits == 0

    def leased(self, one: GetInHand) -> Leased:
        """The answer, in the order in which it was granted."""
        pieces = _ordered(one.pieces, self._settings)
        token = one.token if pieces else 0
        order = one.order if pieces or not one.token else 0
        lost = tuple(one.lost)
        return Leased(token, pieces, self._settings.lease, order, lost)

    def give_back(self, leased: Leased, placing: Placing) -> None:
        """Nobody is there to have them."""
        shares = union(
            [Share(one.priority, (_whole(one.start, one.offsets),)) for one in leased.pieces]
        )
        for home, theirs in sorted(placing.by_home(shares).items()):

            def make(serial: int, shares: Shares = theirs) -> End:
                era, queue = self._desk.era, self._queue
                return End(era, queue, serial, leased.token, shares, How.BACK)

            self._sending.send(home, (), make)


def _ordered(pieces: Sequence[Piece], settings: QueueSettings) -> tuple[Piece, ...]:
    """Most urgent first, also where leases of an earlier view are told in another order."""
    sign = -1 if settings.largest_first else 1
    return tuple(sorted(pieces, key=lambda piece: (sign * piece.priority, piece.start)))


def _whole(start: int, offsets: bytes) -> Interval:
    return Interval(start, start + len(offsets) // OFFSET_BYTES - 1)
