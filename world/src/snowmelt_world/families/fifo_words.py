"""What a fifo's clients say and hear, in the words of its judge (`judge/positions.py`).

A family that speaks `fifo.calls` has this adapter, too.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from snowmelt.client.leases.delivered import places_of
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, Instant
from snowmelt.core.interval import Interval
from snowmelt.core.keys import unpacked
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.calls import ItemRun
from snowmelt.protocols.queue.api.labels import unpack
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS
from snowmelt_world.families.queue_ranked import KEYS, rank_in
from snowmelt_world.judge.positions import Held, PositionLedger
from snowmelt_world.judge.values import FOR_EVER, Came, Given, Numbers, Place, Put, Terms

Stretch = calls.ItemRun | calls.Span
UNSURE: Final = "may have been put before"
"""Of a number below what is known of its producer: nothing was put now, and perhaps before."""


class Ledger(PositionLedger):
    """A queue's ledger, which is told calls and answers."""

    def __init__(
        self, queue: str, settings: QueueSettings, leaps: Sequence[Instant] = (), early: int = 0
    ) -> None:
        super().__init__(queue, terms_of(settings), leaps=leaps, early=early)
        self.settings = settings
        self._keyed = settings.priorities == ANY

    def refused(self, put: Put, why: str, at: Instant) -> None:
        """It is not in the queue, unless it says that it may be."""
        if UNSURE not in why:
            super().refused(put, why, at)

    def asked(self, put: Put) -> None:
        """With the priorities of its items, where there are several."""
        if self.settings.priorities != 1:
            rank = rank_in(self.settings.priorities)
            put.priorities = tuple(map(rank, put.bodies))
            put.keyed = self._keyed
        super().asked(put)

    def rank(self, position: int) -> int:
        """The priority of what stands there; the least where only what stands there has it."""
        if not self._keyed:
            return position >> PRIORITY_BITS
        value = self.at.get(position)
        return KEYS[0] if value is None else self.by_value[value].priority(value)

    def done(self, put: Put, answer: calls.PutDone, at: Instant) -> None:
        where = answer.where
        if self._keyed and where[0].stop and where[0].size == len(put.values):
            where = [Interval(one, one + 1) for one in where[0]]
        self.put(put, where, at)

    def got(
        self, process: str, called: Instant, answer: calls.Leased, at: Instant, said: Instant
    ) -> Held | None:
        """A get was answered."""
        some: list[Stretch] = [*answer.parts, *answer.spans]
        given = _given(answer.token, answer.lease, some, answer.away)
        order = list(given.positions)
        if self._keyed:  # as who asked sees them
            keys = dict(
                zip(order, [key for one in some for key in unpacked(one.keys)], strict=True)
            )
            order.sort(key=lambda where: (keys[where], where))
        else:
            order.sort()
        given = msgspec.structs.replace(given, positions=tuple(order))
        return self.leased(process, called, given, at, said)

    def planned(
        self, process: str, lease: int, called: Instant, spans: Sequence[calls.Span], at: Instant
    ) -> Held:
        """A group was told where its items lie."""
        return self.assigned(process, called, _given(lease, self.settings.lease, spans), at)

    def read(
        self, part: ItemRun, at: Instant, held: Held | None = None, called: Instant = FOR_EVER
    ) -> None:
        """Bodies came; who holds no lease says when it asked."""
        self.seen(_came(part), at, held, called)


def terms_of(settings: QueueSettings) -> Terms:
    """What is agreed with these."""
    return msgspec.convert(settings, Terms, from_attributes=True)


def put_of(ledger: Ledger, put: calls.Put) -> Put:
    """Who asked for this."""
    first = Batch(put.offsets, put.blob)[0]
    return ledger.by_value[bytes(first).decode()]


def numbers(status: calls.QueueStatus) -> Numbers:
    """How many there are."""
    others = "tails", "terms"
    told = {one: getattr(status, one) for one in Numbers.__struct_fields__ if one not in others}
    told["terms"] = terms_of(status.settings)
    rows = enumerate(status.tails or (status.tail,))
    return Numbers(**told, tails=tuple([(rank << PRIORITY_BITS) + one for rank, one in rows]))


def positions(some: Iterable[Stretch]) -> dict[int, None]:
    """Where they stand."""
    return {where: None for one in some for where in _places(one)}


def _given(
    token: int,
    lease: Duration,
    some: Sequence[Stretch],
    away: Sequence[Interval] = (),
) -> Given:
    again = {where: None for one in some if one.reason for where in _places(one)}
    where = tuple([where for one in some for where in _places(one)])
    return Given(token, lease, where, again, tuple(away))


def _places(one: Stretch) -> Iterable[int]:
    return places_of(one) if isinstance(one, calls.ItemRun) else range(one.start, one.stop)


def _came(part: ItemRun) -> Iterator[Came]:
    labels = unpack(part.headers)
    places = places_of(part)
    for index, (body, where) in enumerate(zip(Batch(part.offsets, part.blob), places, strict=True)):
        value, own = bytes(body).decode(errors="replace"), labels.of(index)[1]
        headers = msgspec.msgpack.encode(own) if own else b""
        yield Came(Place(0, where), value, headers)
