"""What can be asked of a queue with priorities, as steps: the fifo's, and what ranks add.

1. What a priority is to nodes the queue's settings say. So they are known before anything is put:
   from who asks, or from the queue. A put that it would refuse makes no queue.
2. Where nothing is said a queue takes any whole number. One that is there is taken as it is.
3. A call has its most urgent items first (`ranked_parcels`), and each caller gets its own position.

What is to be put into a queue with priorities, cut into calls, the most urgent of each first.

What goes in one call goes in the order of its ranks, of equal ones the first first: so what is got
together lies together, and few intervals name its positions.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from random import Random
from typing import Any, ClassVar, Final, cast

import msgspec
from msgspec.structs import replace

from snowmelt.client.coalescing.joint import CallerRequest
from snowmelt.client.coalescing.joint_puts import PutRequest, Puts
from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.granted import QueueNodes
from snowmelt.client.fifo.steps import FifoSteps, time_of_put
from snowmelt.client.leases.delivered import told_interval
from snowmelt.client.leases.fetching import CHANCE
from snowmelt.client.leases.steps import Seen, delay_of
from snowmelt.client.parted.parts import place_of
from snowmelt.client.queue.bodies import (
    AHEAD,
    CALL_BYTES,
    CALL_ITEMS,
    NOT_UNIQUE,
    PutItems,
    Unique,
    as_bytes,
    labelled,
    packed_headers,
    parcel,
    parcels,
    together,
)
from snowmelt.client.queue.options import Key, ProducerSequence
from snowmelt.client.queue.ranks import Ranks, checked_priority
from snowmelt.client.queue.staging_steps import stage
from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.errors import (
    NoSuchQueue,
    QueueExists,
)
from snowmelt.core.interval import Interval
from snowmelt.core.keys import packed
from snowmelt.protocols.queue.api.calls import Peeked, PriorityRun, QueueStatus, Receipt, Select
from snowmelt.protocols.queue.api.labels import Labels, each_own
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings, differences

Prioritized = tuple[int | float, Buffer]
_NOT_BOTH: Final = (
    "a body is bytes, not tuple; give priority= or pairs of a priority and a body, not both"
)
_A_LIST: Final = "a pair of a priority and a body is a tuple, not list; say tuple(pair)"
_ONE: Final = str | bytes | bytearray | memoryview
USUAL: Final = QueueSettings(replicas=0, priorities=ANY)


def ranked_parcels(
    items: Iterable[Buffer] | Iterable[Prioritized] | Batch, priority: float | None, ranks: Ranks
) -> Iterator[PutItems]:
    """Items cut into calls: bodies of one priority, or pairs of a priority and a body.

    >>> [one] = ranked_parcels([(2, b"b"), (0, b"a"), (2, b"c")], None, Ranks("jobs", 3))
    >>> one.blob, one.order, one.runs
    (b'abc', (1, 0, 2), (PriorityRun(priority=0, count=1), PriorityRun(priority=2, count=2)))
    >>> list(ranked_parcels([(2, b"b")], 1, Ranks("jobs", 3)))
    Traceback (most recent call last):
    TypeError: a body is bytes, not tuple; give priority= or pairs of a priority and a body...
    """
    if not isinstance(items, Batch | _ONE):
        rest = iter(items)
        first = list(islice(rest, 1))
        if not isinstance(items, list | tuple):
            items = cast("Iterator[Any]", chain(first, rest))
        if first and isinstance(first[0], list):
            raise TypeError(_A_LIST)
        if first and isinstance(first[0], tuple):
            if priority is not None:
                raise TypeError(_NOT_BOTH)
            for pairs in _drawn(items):
                yield from _mixed(pairs, ranks)
            return
    own = ranks.rank(0 if priority is None else priority)
    for one in parcels(cast("Iterable[Buffer]", items)):  # which looks at each
        yield _alike(one, own, ranks)


def sorted_parcel(bodies: Sequence[bytes], own: Sequence[int], ranks: Ranks) -> PutItems:
    """Bodies of one call, each with its rank, the most urgent first."""
    if own.count(own[0]) == len(own):
        return _alike(together(list(bodies)), own[0], ranks)
    order = tuple(sorted(range(len(own)), key=own.__getitem__))
    items, went = together([bodies[at] for at in order]), [own[at] for at in order]
    if ranks.keyed:
        return replace(items, keys=packed(went), order=order)
    runs = tuple([PriorityRun(rank, count) for rank, count in Counter(went).items()])
    return replace(items, runs=runs, order=order)


def _mixed(pairs: list[Prioritized], ranks: Ranks) -> Iterator[PutItems]:
    """As few calls as they fit into, each of the next ones."""
    own = ranks.ranks([priority for priority, _ in pairs])
    bodies = [body if type(body) is bytes else as_bytes(body) for _, body in pairs]
    if sum(map(len, bodies)) <= CALL_BYTES:
        yield sorted_parcel(bodies, own, ranks)
        return
    at = 0
    for one in parcels(bodies):
        some = slice(at, at := at + one.count)
        yield sorted_parcel(bodies[some], own[some], ranks)


def _alike(items: PutItems, rank: int, ranks: Ranks) -> PutItems:
    if ranks.keyed:
        return replace(items, keys=packed([rank]) * items.count)
    return replace(items, runs=(PriorityRun(rank, items.count),)) if rank else items


def _drawn(pairs: Iterable[Any]) -> Iterator[list[Prioritized]]:
    """A call's worth each; what a generator gives is read before it is asked for the next."""
    if isinstance(pairs, list | tuple):
        for at in range(0, len(pairs), CALL_ITEMS):
            part = pairs[at : at + CALL_ITEMS]
            yield [one if type(one) is tuple and len(one) == 2 else _pair(one) for one in part]
        return
    some: list[Prioritized] = []
    size = 0
    while more := [
        one if type(one) is tuple and len(one) == 2 and type(one[1]) is bytes else _pair(one)
        for one in islice(pairs, min(len(some), AHEAD) or 1)
    ]:
        some += more
        size += sum([len(body) for _, body in more])
        if size >= CALL_BYTES or len(some) >= CALL_ITEMS:
            yield some
            some, size = [], 0
    if some:
        yield some


def _pair(one: Any) -> Prioritized:
    if not isinstance(one, tuple):
        raise TypeError(_A_LIST if isinstance(one, list) else _NOT_BOTH)
    if len(one) != 2:
        raise TypeError(f"pairs of a priority and a body are put, not {len(one)} things")
    return one[0], as_bytes(one[1])


class RankedSteps(FifoSteps):
    """One queue with priorities as one user knows it."""

    several: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        settings: QueueSettings | None,
        producer: ProducerSequence,
        chance: Random = CHANCE,
    ) -> None:
        super().__init__(name, settings, producer, chance)
        self._known: Ranks | None = None
        """Rule 1; of a queue that is not there yet, None."""

    # --- items in ---------------------------------------------------------------------------------

    def one(
        self,
        body: Buffer,
        priority: float | None,
        headers: Mapping[str, str | bytes] | None,
        delay: float,
        timeout: float,
        key: Key | None = None,
    ) -> CallerRequest:
        """One item to be put."""
        own, items = checked_priority(0 if priority is None else priority), parcel(body)
        packed = packed_headers(headers) if key is None else labelled(headers, key, items)
        one = PutRequest(items.blob, packed, delay_of(delay), own)
        alike = one.delay, timeout, place_of(self.parts, self.since, key)
        return Puts.asked(one, time_of_put(timeout), alike)

    def put(
        self,
        some: Sequence[PutRequest],
        wait: Wait,
        sequence: int | None = None,
        unique: Unique = NOT_UNIQUE,
    ) -> Steps[list[int]]:
        """Items of one call, with one delay; their positions within priorities, as `FifoSteps`."""
        items, headers = yield from self.gathered(some, wait)
        order, due = items.order or range(len(some)), -some[0].delay
        done = yield from self.put_parcel(items, headers, due, wait, sequence, unique=unique)
        if not done.stop:
            return [-1] * items.count
        places: list[int] = [place for one in done.where for place in told_interval(one)]
        if unique.key:  # they may be of another put
            return places[:1]
        return [place for _, place in sorted(zip(order, places, strict=True))]

    def gathered(self, some: Sequence[PutRequest], wait: Wait) -> Steps[tuple[PutItems, bytes]]:
        """Items as one call, the most urgent first, and their headers in that order."""
        ranks = yield from self.known(wait)
        own = ranks.ranks([one.priority for one in some])
        items = sorted_parcel([one.body for one in some], own, ranks)
        order = items.order or range(len(some))
        return items, each_own([some[at].headers for at in order])

    def ranked_one(self, body: Buffer, priority: float | None, wait: Wait) -> Steps[PutItems]:
        """One item as it would be put, with its priority."""
        ranks = yield from self.known(wait)
        own = ranks.rank(0 if priority is None else priority)
        return sorted_parcel([parcel(body).blob], [own], ranks)

    def put_ranked(  # noqa: PLR0913 - all that a put says
        self,
        items: Iterable[Buffer] | Iterable[Prioritized] | Batch,
        priority: float | None,
        headers: Mapping[str, str | bytes] | None,
        delay: float,
        timeout: float,
        sequence: int | None,
        key: Key | Sequence[Key | None] | None = None,
        *,
        unique: Unique = NOT_UNIQUE,
    ) -> Steps[tuple[Interval, ...]]:
        """Many items; where they are within their priorities, the most urgent first."""
        ranks = yield from self.known(Wait(timeout))
        calls = ranked_parcels(items, priority, ranks)
        return (yield from self._put_all(calls, key, headers, delay, timeout, sequence, unique))

    def stage(
        self,
        items: Iterable[Buffer] | Iterable[Prioritized] | Batch,
        priority: float | None,
        headers: Mapping[str, str | bytes] | Labels | None,
        delay: float,
        hold: float,
        timeout: float,
    ) -> Steps[list[Receipt]]:
        """Stores batches; the receipts by which they can be published."""
        ranks = yield from self.known(Wait(timeout))
        calls = ranked_parcels(items, priority, ranks)
        return (yield from stage(self, ProducerSequence(), calls, headers, delay, hold, timeout))

    # --- looking ----------------------------------------------------------------------------------

    def peek(self, count: int, dead: bool, timeout: float) -> Steps[list[Seen]]:
        """The first items, or of the dead ones, taking none of them."""
        yield from self._told(Wait(timeout))
        return (yield from super().peek(count, dead, timeout))

    def select(self, rank: int, share: float | None, timeout: float) -> Steps[Seen | None]:
        """The item of a rank, from 1 on, or at a part of all; None when there is none."""
        yield from self._told(Wait(timeout))
        ask = Select(self.name, rank, share or 0.0)
        peeked: Peeked = yield from self.ask_about(ask, timeout)
        return next(iter((yield from self.shown(peeked))), None)

    def last(self, priority: float, timeout: float) -> Steps[Seen | None]:
        """The last item of a priority; None when there is none."""
        wait = Wait(timeout)
        ask = Select(self.name, key=(yield from self.known(wait)).rank(priority))
        peeked: Peeked = yield from self.ask_about(ask, wait.left)
        return next(iter((yield from self.shown(peeked))), None)

    def stats(self, timeout: float) -> Steps[QueueStatus]:
        """How the queue is; by priorities as people know them."""
        status = yield from super().stats(timeout)
        if not status.settings.largest_first:
            return status
        tails, ready_of = status.tails[::-1], status.ready_of[::-1]
        return msgspec.structs.replace(status, tails=tails, ready_of=ready_of)

    # --- asking -----------------------------------------------------------------------------------

    def known(self, wait: Wait) -> Steps[Ranks]:
        """What its priorities are (rule 1), as they are or would be."""
        if self._known is None and self._settings is not None:
            return Ranks.of(self.name, self._settings)
        return (yield from self._told(wait))

    def _told(self, wait: Wait) -> Steps[Ranks]:
        """As the queue says, where there is one: by these is told what is shown."""
        if self._known is not None:
            return self._known
        try:
            yield from self._look(wait)
        except NoSuchQueue:
            return Ranks.of(self.name, USUAL)
        assert self._known is not None
        return self._known

    def _ranks_are(self, ranks: Ranks) -> None:
        self._known, self.ranks = ranks, None if ranks.plain else ranks

    def _open(self, wait: Wait, make: bool) -> Steps[QueueNodes]:
        """Rule 2. What is put was sorted by what was known (rule 1)."""
        if self._settings is not None or not make or self.is_part:
            return (yield from super()._open(wait, make))
        sorted_for = self._known or Ranks.of(self.name, USUAL)
        grant = yield from self._made(wait)
        if self._known is not None and self._known != sorted_for:
            raise QueueExists(
                f"queue {self.name} was made by another just now, and not as this put would have "
                f"made it: {differences(self._known.settings, USUAL)}; nothing was put, say it "
                "again"
            )
        return grant

    def _made(self, wait: Wait) -> Steps[QueueNodes]:
        if self._settings is not None or self.is_part:
            return (yield from super()._made(wait))
        try:
            return (yield from super()._open(wait, make=False))
        except NoSuchQueue:
            if self.since:
                raise
        try:
            return (yield from self._opened(USUAL, wait, make=True))
        except QueueExists:  # another made it meanwhile
            return (yield from super()._open(wait, make=False))
