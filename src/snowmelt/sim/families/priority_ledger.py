"""What clients saw of one priority queue; what of it may never be is judged as it comes.

Everything is seen from outside: calls, answers, and when they were made and heard. What needs the
whole history is judged at the end (`priority_ending.py`), by those who judge any history.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from snowmelt.check.history import Ended, Kind, Operation
from snowmelt.client.leases.delivered import PLACE_BITS
from snowmelt.core.batch import Batch
from snowmelt.core.failures import in_vain
from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.outcome import Failed, Outcome
from snowmelt.protocols.priority.anchor import EPOCH_BITS
from snowmelt.protocols.priority.batches import Shares
from snowmelt.protocols.priority.calls import Leased, Part, Put, PutDone, Receipt
from snowmelt.protocols.priority.gets import ordered
from snowmelt.protocols.priority.messages import Piece
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.protocols.seap.keys import unpacked
from snowmelt.sim.families.priority_excuses import Being, Excuses, Keepers, Place, Told
from snowmelt.sim.world import Broken

MANY: Final = 100
"""With so many deliveries nothing dies by itself."""
FASTEST_PPM: Final = 40_000
"""How fast a clock may run, by `sim.faults`: a lease may be over so much sooner."""


class Asked(msgspec.Struct):
    """A put."""

    process: str
    values: tuple[str, ...]
    priorities: tuple[int, ...]
    """Of each of them."""
    headers: bytes
    delay: Duration
    called: Instant
    sent: bool = False
    """Whether it was sent at all."""
    returned: Instant | None = None
    ended: Ended = Ended.UNKNOWN
    places: tuple[Place, ...] = ()
    orders: tuple[int, ...] = ()
    why: str = ""
    staged: bool = False
    """Whether it is put only when it is published."""
    naming: Instant | None = None
    """When it was first said that it is to be published."""
    shares: Shares = ()
    """Where it is staged."""
    keyed: bool = False
    """Whether its priorities have no number."""

    def priority(self, value: str) -> int:
        return self.priorities[self.values.index(value)]


class Got(msgspec.Struct):
    """What a get was answered: elements under a lease, or that there are none."""

    process: str
    called: Instant
    returned: Instant
    token: int
    order: int
    asked: int
    values: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    failures: tuple[int, ...] = ()
    held: Instant = Instant(0)
    """Until then it holds for certain."""
    lasts: Instant = Instant(0)
    """Until then whoever has it may take it to hold, by what nodes said."""
    named: dict[int, int] = {}
    """How many calls asked to take each of its places as done, or back."""
    torn: bool = False
    """Whether some of it was refused: what is said of the rest is not said of all of it."""
    kept: dict[int, None] = {}
    """Which of them have no time-out any more."""
    over: int = 0
    """How many more it may have been granted than it could carry."""

    def where(self, index: int) -> int:
        place = self.places[index]
        return (place.priority << PLACE_BITS) + place.position

    def name(self, chosen: list[int]) -> None:
        """One more call names these."""
        for where in map(self.where, chosen):
            self.named[where] = self.named.get(where, 0) + 1


class Stand(msgspec.Struct, frozen=True):
    """How many there are, all in all, it was said."""

    process: str
    called: Instant
    returned: Instant
    total: int


class Selection(msgspec.Struct, frozen=True):
    """What has a rank, it was said; nothing when nothing had."""

    process: str
    called: Instant
    returned: Instant
    rank: int
    share: float | None
    value: str = ""


class Lost(msgspec.Struct, frozen=True):
    """A get of which nobody heard."""

    process: str
    called: Instant
    returned: Instant
    light: bool
    """Whether it may have given back some of what it had, by itself."""


class Ledger:
    """One queue, as its clients know it."""

    def __init__(
        self, settings: QueueSettings, excuses: Excuses, block: int, *, early: int = 0
    ) -> None:
        self.settings = settings
        self.others: tuple[QueueSettings, ...] = ()
        """What some want it to be instead; it is what is made first, for good."""
        self.excuses = excuses
        self.keepers = Keepers(excuses, settings, block)
        self.being = Being(excuses)
        self.early = early
        """So far the dates of two nodes may be apart."""
        self.narrow = False
        """Whether any get may give back by itself some of what it was granted."""
        self.drained: Instant | None = None
        self.puts: list[Asked] = []
        self.by_value: dict[str, Asked] = {}
        self.gets: list[Got] = []
        self.lost_gets: list[Lost] = []
        self.attempted: dict[str, None] = {}
        """What somebody said is done, whether anybody heard it or not."""
        self.acks: list[Operation] = []
        self.backs: list[Operation] = []
        self.redriven: Instant | None = None
        self.doomed = False
        """Whether somebody said of anything that it is not to be delivered again."""
        self.purged: list[tuple[Instant, Instant | None, int | None]] = []
        self.leaps: tuple[Instant, ...] = ()
        self.freed: list[tuple[str, Got, Instant]] = []
        """What was given back of a get, and is there to be got from then on."""
        self.stands: list[Stand] = []
        self.selections: list[Selection] = []
        self.calls: list[tuple[Instant, Instant]] = []
        self.excused: dict[tuple[str, Instant], str] = {}
        """Which calls, by who made them and when, rest on an excuse, and on which."""

    @property
    def queue(self) -> str:
        return self.settings.queue

    def wrong(self, sentence: str, subject: str) -> None:
        raise Broken(f"{self.queue}: {sentence}", subject)

    # --- elements in ------------------------------------------------------------------------------

    def asked(self, put: Asked) -> None:
        self.puts.append(put)
        for value in put.values:
            self.by_value[value] = put

    def sends(self, call: Put, at: Instant) -> Asked:
        """It is on its way, in the order of its priorities: what was asked for, and no more."""
        rows = [row for part in call.parts for row in _rows(part)]
        put = self.by_value[rows[0][0]]
        asked = sorted(zip(put.values, put.priorities, strict=True))
        if sorted(rows) != asked or call.headers != put.headers or call.delay != put.delay:
            self.wrong(f"{rows} are put where {asked} were asked for", put.process)
        if not put.sent:
            put.called, put.sent = at, True
            put.values = tuple([value for value, _ in rows])
            put.priorities = tuple([priority for _, priority in rows])
        return put

    def done(self, put: Asked, answer: PutDone, at: Instant) -> None:
        places = _places(answer.shares)
        orders = _orders(put, answer)
        if put.ended is Ended.SUCCEEDED:
            if self._done_anew(put, places, at):
                return
            if put.places != places or (orders and put.orders and put.orders != orders):
                sentence = f"{put.values[0]} was told to stand at {put.places}, and at {places}"
                self.wrong(sentence, put.process)
            return
        if put.ended is Ended.FAILED:
            self.wrong(f"{put.values[0]} was refused ({put.why}), and is told", put.process)
        if len(places) != len(put.values):
            text = f"{len(places)} positions for {len(put.values)} elements from {put.values[0]}"
            self.wrong(text, put.process)
        told = tuple([place.priority for place in places])
        rows = (0,) * len(places) if put.keyed else put.priorities
        if told != rows:
            self.wrong(f"{put.values[0]} is told to be of priority {told[0]}", put.process)
        put.ended, put.returned = Ended.SUCCEEDED, at
        put.places, put.orders = places, orders

    def staged(self, put: Asked, answer: PutDone) -> None:
        put.shares = answer.shares
        put.places = _places(answer.shares)

    def published(self, put: Asked, at: Instant) -> None:
        if put.ended is not Ended.SUCCEEDED:
            put.ended, put.returned = Ended.SUCCEEDED, at

    def refused(self, put: Asked, why: str, at: Instant) -> None:
        if put.ended is not Ended.SUCCEEDED:
            put.ended, put.returned, put.why = Ended.FAILED, at, why

    # --- elements out -----------------------------------------------------------------------------

    def leased(
        self, process: str, called: Instant, asked: int, answer: Leased, at: Instant
    ) -> Got | None:
        """A get was answered; None when it found nothing."""
        got = Got(process, called, at, answer.token, answer.order, asked)
        self.gets.append(got)
        if not answer.pieces:
            return None
        values, places, failures = [], [], []
        for piece in ordered(answer.pieces, self.settings):
            for value, place in self.shown(piece, at):
                values.append(value)
                places.append(place)
                failures.append(in_vain(piece.failures, piece.reason))
        got.values, got.places, got.failures = tuple(values), tuple(places), tuple(failures)
        got.over = asked - len(values) if self.narrow else 0
        if len(values) > asked:
            self.wrong(f"{len(values)} elements, and {asked} were asked for", process)
        rows = zip(values, places, strict=True)
        urgency = [self._urgency(value, place) for value, place in rows]
        if urgency != sorted(urgency):
            self.wrong(f"{values[0]} and others came in no order of urgency", process)
        got.held = later(called, shortest(self.settings.lease))
        got.lasts = later(called, answer.lease)
        if any(called <= one <= got.held for one in self.leaps):
            got.held = called
        return got

    def shown(self, piece: Piece, at: Instant) -> list[tuple[str, Place]]:
        found: list[tuple[str, Place]] = []
        keys = unpacked(piece.keys)
        for index, body in enumerate(Batch(piece.offsets, piece.blob)):
            value = bytes(body).decode(errors="replace")
            put = self.by_value.get(value)
            if put is None:
                self.wrong(f"{value!r} was never put", value[:20])
                continue
            priority = put.priority(value)
            told = keys[index] if put.keyed else piece.priority
            if told != priority:
                self.wrong(f"{value} came with priority {told}, not {priority}", value)
            if piece.headers != put.headers:
                self.wrong(f"{value} came with other headers", value)
            unkept = put.ended is Ended.FAILED or (put.staged and put.naming is None)
            place = Place(piece.priority, piece.start + index)
            undone = unkept and self._refusal_lost(put, at, place)
            if put.ended is Ended.FAILED and not undone:
                self.wrong(f"{value} was refused ({put.why}), and is in the queue", value)
            if put.staged and put.naming is None and not undone:
                self.wrong(f"{value} is shown, and nobody published it", value)
            if put.staged and put.ended is Ended.FAILED:  # what kept it from all is lost
                put.ended, put.returned = Ended.UNKNOWN, None
            slack = 2 * (at * FASTEST_PPM // 1_000_000 + self.early)
            if put.delay and at + slack < put.called + put.delay:
                self.wrong(f"{value} is shown before it is due", value)
            found.append((value, place))
        return found

    def lose(
        self, process: str, called: Instant, at: Instant, outcome: Outcome[Any], light: bool = False
    ) -> None:
        """A get has no answer: it may have had anything, and that comes back."""
        if not isinstance(outcome, Failed):
            self.lost_gets.append(Lost(process, called, at, light or self.narrow))

    def looked(
        self, process: str, called: Instant, pieces: tuple[Piece, ...], at: Instant, *, dead: bool
    ) -> None:
        shown = [one for piece in pieces for one in self.shown(piece, at)]
        urgency = [self._urgency(value, place) for value, place in shown]
        if not dead and urgency != sorted(urgency):
            self.wrong(f"{shown[0][0]} and others are shown in no order of urgency", process)
        values = {value: None for value, _ in shown}
        for ack in self.acks:
            returned = ack.returned
            if returned is None or called < returned:
                continue
            for value in ack.values:
                told = self.acked_of(ack, value)
                if value not in values or self.excuse(process, called, told, at):
                    continue
                self.wrong(f"{value} was acknowledged, and is shown", process)

    def redriving(self, at: Instant) -> None:
        """The dead come back as if they had never failed."""
        if self.redriven is None and (self.doomed or self.settings.deliveries_max < MANY):
            self.redriven = at

    # --- leases -----------------------------------------------------------------------------------

    def acked(
        self, got: Got, chosen: list[int], called: Instant, at: Instant, ended: Ended
    ) -> None:
        if chosen:
            self.acks.append(_said(Kind.ACK, got, chosen, called, at, ended))

    def given_back(
        self, got: Got, chosen: list[int], called: Instant, at: Instant, ended: Ended
    ) -> None:
        """Some were said to go back: from the call on another may have them."""
        if chosen:
            self.backs.append(_said(Kind.BACK, got, chosen, called, at, ended))

    def refused_lease(self, got: Got, at: Instant, called: Instant) -> None:
        """Something said of a lease was refused: it must be over, then.

        Where a view ended meanwhile the door has said it twice, and was refused the second time.
        """
        twice = any(called <= view.at <= at for view in self.excuses.views)
        if got.held <= at or twice:
            return
        epoch = got.token >> EPOCH_BITS
        known = any(  # done before, and forgotten, or told to nobody: whoever knows it is back
            self.excuse(got.process, called, word, at)
            or (ack.returned is None and self.keepers.come_out(word, epoch, at))
            for ack, word in _done_before(got, self.acks)
        )
        if not known and not self.let_go(got, called, at):
            self.wrong(
                f"lease {got.token} of {got.process} is lost, it says, and was held", got.process
            )

    def renewed(self, got: Got, called: Instant) -> None:
        """Its time began anew, not before this."""
        until = later(called, shortest(self.settings.lease))
        if not any(called <= one <= until for one in self.leaps):
            got.held = max(got.held, until)

    # --- what is excused --------------------------------------------------------------------------

    def excuse(self, process: str, called: Instant, told: Told, until: Instant) -> str:
        """Why what was told may be undone or forgotten by then; a call of this process needs it."""
        reason = self.keepers.forgotten(told, until)
        if reason:
            self.excused[process, called] = reason
        return reason

    def let_go(self, one: Got | Asked, called: Instant, at: Instant) -> bool:
        """Whether what was told by then of some of its elements may be undone or forgotten."""
        words = [Told(place, one.called, called) for place in one.places]
        return any(self.excuse(one.process, called, word, at) for word in words)

    def acked_of(self, ack: Operation, value: str | int) -> Told:
        """What the answer to an acknowledgement told of one of its elements."""
        got = next(one for one in self.gets if one.token == ack.token and value in one.values)
        place = got.places[got.values.index(str(value))]
        assert ack.returned is not None
        return Told(place, Instant(ack.called), Instant(ack.returned))

    def _done_anew(self, put: Asked, places: tuple[Place, ...], at: Instant) -> bool:
        """Whether a put that was answered may stand elsewhere now."""
        assert put.returned is not None
        moved = [old for old, new in zip(put.places, places, strict=True) if old != new]
        words = [Told(old, put.called, put.returned) for old in moved]
        return bool(moved) and all(self.excuse(put.process, put.called, one, at) for one in words)

    def _refusal_lost(self, put: Asked, at: Instant, place: Place) -> bool:
        """Whether some disk lost what came since a put was refused, or staged, wherever it lay.

        Or what was staged in the same place before that, and was published since.
        """
        excuses = self.excuses
        before = [one for one in self.puts if one.naming and place in one.places]
        reason = excuses.undone(put.called, at)
        for one in before if put.staged else ():
            reason = reason or excuses.undone(one.called, one.naming or at)
        hurts = [one for one in self.excuses.hurts if one.since <= at and put.called <= one.at]
        hurts = [one for one in hurts if not one.whole]
        if reason or hurts:
            self.excused[put.process, put.called] = reason or hurts[-1].reason
        return bool(reason or hurts)

    def key(self, value: str, place: Place) -> int:
        """The smaller one is the more urgent."""
        put = self.by_value[value]
        priority = put.priority(value) if put.keyed else place.priority
        return -priority if self.settings.largest_first else priority

    def _urgency(self, value: str, place: Place) -> tuple[int, int]:
        return self.key(value, place), place.position


def shortest(time: Duration) -> Duration:
    """How soon a time may be over, by the fastest clock."""
    return Duration(time * 1_000_000 // (1_000_000 + FASTEST_PPM))


def _said(
    kind: Kind, got: Got, chosen: list[int], called: Instant, at: Instant, ended: Ended
) -> Operation:
    """Of some of what was got."""
    values = tuple([got.values[index] for index in chosen])
    returned = at if ended is Ended.SUCCEEDED else None
    return Operation(got.process, kind, values, called, returned, ended, token=got.token)


def receipts_of(lost: tuple[Receipt, ...], got: Got) -> list[int]:
    """Which of its elements are named in what was refused."""
    named = {
        (share.priority, position)
        for receipt in lost
        if receipt.token == got.token
        for share in receipt.shares
        for interval in share.intervals
        for position in interval
    }
    return [
        index for index, place in enumerate(got.places) if (place.priority, place.position) in named
    ]


def _done_before(got: Got, acks: Iterable[Operation]) -> Iterator[tuple[Operation, Told]]:
    """What of a lease was said to be done before it was given."""
    for ack in acks:
        for value, place in zip(got.values, got.places, strict=True):
            if ack.called < got.called and value in ack.values:
                yield ack, Told(place, Instant(ack.called), Instant(ack.returned or ack.called))


def _rows(part: Part) -> list[tuple[str, int]]:
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


def _orders(put: Asked, answer: PutDone) -> tuple[int, ...]:
    """Of each element; none of what was held back at first."""
    sizes = [interval.size for share in answer.shares for interval in share.intervals]
    if put.delay or not answer.orders:
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
