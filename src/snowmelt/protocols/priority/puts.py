"""A door's puts: from their positions to the homes, until all have them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from snowmelt.core.batch import OFFSET_BYTES
from snowmelt.core.batch import Batch as Bodies
from snowmelt.core.instant import later
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.keys import part as keys_of
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.priority.batches import Cut, Share, Shares, union
from snowmelt.protocols.priority.calls import Put, PutDone
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.fields import OPERATIONS_MAX
from snowmelt.protocols.priority.hand import Placed, PutInHand
from snowmelt.protocols.priority.lots import cut, in_order, together, whole
from snowmelt.protocols.priority.messages import Elements, Origin, Store, Stored
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.positions import minus, without
from snowmelt.protocols.priority.sending import Sending

STORE_BYTES: Final = 32 << 20
"""So much goes home in one message, if it is more than one put."""


def in_hand(operation: OperationId, call: Put, desk: Desk, *, again: bool) -> PutInHand:
    bodies = together([Bodies.known(part.offsets, part.blob) for part in call.parts])
    stretches: list[tuple[int, Interval]] = []
    at = 0
    for part in call.parts:
        count = len(part.offsets) // OFFSET_BYTES - 1
        stretches.append((part.priority, Interval(at, at + count)))
        at += count
    deadline = later(desk.now, call.patience)
    rows = tuple(stretches)
    keys = b"".join([part.keys for part in call.parts])
    return PutInHand(operation, call, bodies, rows, deadline, list(rows), again=again, keys=keys)


class Puts:
    """Of one queue, at one door."""

    def __init__(self, desk: Desk, queue: str, sending: Sending) -> None:
        self._desk = desk
        self._queue = queue
        self._sending = sending

    def place(self, one: PutInHand, positions: Cut, order: int) -> tuple[int, Shares | None]:
        """Gives a put its positions, and says how many, if there was room for all of it.

        Else it has none, and those that it was granted are to be given up.
        """
        placed: list[Placed] = []
        count, lacks = 0, False
        for priority, where in one.left:
            at = where.start
            for interval in positions.taken(priority, where.stop - at):
                placed.append(Placed(at, Share(priority, (interval,)), order + count))
                size = interval.stop - interval.start
                at, count = at + size, count + size
            lacks = lacks or at < where.stop
        if lacks:
            return 0, union([each.share for each in placed])
        one.placed.extend(placed)
        one.left = []
        return count, None

    def send(self, puts: Sequence[PutInHand], placing: Placing) -> None:
        """Takes what has positions home; those that go together, together."""
        groups: dict[tuple[bytes, int], list[PutInHand]] = {}
        for one in puts:
            one.sent += 1
            kind = one.call.headers, one.call.delay
            groups.setdefault(kind, []).append(one)
        for (_, delay), ours in groups.items():
            due = self._desk.wall + delay if delay else 0
            for some in _portions(ours):
                self._store(_elements(some, due, max(0, self._desk.wall)), placing, some)

    def stored(self, message: Stored, puts: Iterable[PutInHand], sent: Store) -> list[PutInHand]:
        """A home has them, or refuses them: the puts of which all homes have answered."""
        answered: list[PutInHand] = []
        shares = sent.elements.shares if sent.elements.keys else ()
        came = IntervalSet([interval for share in shares for interval in share.intervals])
        for one in puts:
            one.waits -= 1
            if message.refused:
                one.refused = message.refused
            else:
                one.copies = min(one.copies or message.copies, message.copies)
            if message.void:
                _give_up(one, message.void)
            if one.keys:
                _came_in(one, came, message.phase)
            if one.waits == 0:
                answered.append(one)
        return answered

    def done(self, one: PutInHand) -> PutDone:
        placed = sorted(one.placed, key=lambda each: each.first)
        if one.keys:  # of what was there before the phases are not known here (`seap`, rule 4)
            first = one.sent == 1 and not one.again
            orders = tuple([each.order for each in placed]) if first else ()
            return PutDone(tuple([each.share for each in placed]), one.copies, orders)
        shares = in_order([each.share for each in placed])
        return PutDone(shares, one.copies, tuple([each.order for each in placed]))

    def _store(self, elements: Elements, placing: Placing, ours: list[PutInHand]) -> None:
        if placing.everybody:
            for one in ours:
                one.waits += 1
            self._say(placing.everybody[0], tuple([one.operation for one in ours]), elements)
            return
        names = {one.operation: one for one in ours}
        homes = placing.by_home(elements.shares)
        for home, shares in sorted(homes.items()):
            some = cut(elements, shares) if len(homes) > 1 else elements
            theirs = tuple(dict.fromkeys(origin.operation for origin in some.origins))
            for operation in theirs:
                names[operation].waits += 1
            self._say(home, theirs, some)

    def _say(self, home: NodeId, theirs: tuple[OperationId, ...], some: Elements) -> None:
        era, queue = self._desk.era, self._queue
        self._sending.send(home, theirs, lambda serial: Store(era, queue, serial, some))


def _portions(puts: list[PutInHand]) -> Iterable[list[PutInHand]]:
    """As many as go in one message."""
    return (puts,) if len(puts) == 1 else _several(puts)


def _several(puts: Sequence[PutInHand]) -> Iterator[list[PutInHand]]:
    """As many as go in one message: by their bytes and their pieces, or one."""
    some: list[PutInHand] = []
    weight = pieces = 0
    for one in puts:
        weight, pieces = weight + one.bodies.size, pieces + len(one.placed)
        if some and (weight > STORE_BYTES or pieces > OPERATIONS_MAX // 2):
            yield some
            some, weight, pieces = [], one.bodies.size, len(one.placed)
        some.append(one)
    if some:
        yield some


def _give_up(one: PutInHand, shares: Shares) -> None:
    """These can't be had: what of it stood there has no position any more."""
    one.placed = [
        placed.part(part)
        for placed in one.placed
        for share in minus((placed.share,), shares)
        for part in share.intervals
    ]
    one.left = one.lacking()


def _came_in(one: PutInHand, came: IntervalSet, phase: int) -> None:
    """These came in before a phase (`seap`, rule 4)."""
    placed: list[Placed] = []
    for each in one.placed:
        (interval,) = each.share.intervals
        here = came.common(interval)
        others = without(interval, here) if here else [interval]
        placed += [each.part(part) for part in others]
        placed += [Placed(part.first, part.share, phase) for part in map(each.part, here)]
    one.placed = placed


def _elements(puts: Sequence[PutInHand], due: int, put_at: int) -> Elements:
    """What has positions of several puts that were asked for alike, as it goes home."""
    call, first = puts[0].call, puts[0]
    if (
        len(puts) == 1
        and len(first.placed) == 1
        and first.placed[0].share.total == first.bodies.count
    ):
        (placed,), bodies, keys = first.placed, first.bodies, first.keys  # as often
        shares: Shares = (placed.share,)
        origins = [Origin(first.operation, 0, first.bodies.count, placed.order, first.again)]
    else:
        shares, origins, bodies, keys = _joined(puts)
    bodies = bodies.trimmed()
    return Elements(
        shares, tuple(origins), whole(bodies.offsets), whole(bodies.blob), call.headers, due,
        keys, put_at,
    )  # fmt: skip


def _joined(puts: Sequence[PutInHand]) -> tuple[Shares, list[Origin], Bodies, bytes]:
    """Where they stand, who made them, the bodies and the keys."""
    shares: list[Share] = []
    origins: list[Origin] = []
    bodies: list[Bodies] = []
    keys: list[bytes] = []
    for one in puts:
        start = stop = 0
        for placed in one.placed:
            count = placed.share.total
            shares.append(placed.share)
            keys.append(keys_of(one.keys, placed.first, placed.first + count))
            origins.append(Origin(one.operation, placed.first, count, placed.order, one.again))
            if placed.first != stop:
                bodies += [one.bodies.slice(start, stop)] if start < stop else []
                start = placed.first
            stop = placed.first + count
        bodies.append(one.bodies.slice(start, stop))
    return in_order(shares), origins, together(bodies), b"".join(keys)
