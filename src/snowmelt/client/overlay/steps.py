"""What can be asked of a queue on the overlay, as steps: no socket, no thread, no wait.

1. Any node is a door to the queue. `Opened` names the one that answered, in its present life; every
   operation names it too, and is asked there first. That is where it begins, and no node need be
   asked whether it has begun elsewhere.
2. A door is taken for the right one until something speaks against it (an error, or silence for so
   long that others must have been asked), and for `DOOR` at most: a node that began again answers
   as well, but takes our name of it for another's. Who answers other calls meanwhile is not silent.
3. Where all of a queue lies with one node, that is the door, if it can be reached: it answers at
   once, where any other has to ask it first. Whoever could not reach it tries again after `FAR`.
4. A put is one call, however often the client machine asks it: it keeps its number, by which the
   nodes know it. When nobody said what became of it, it is not put again here: that would be
   another put.
5. What a priority is the queue's settings say. So they are known before anything is put: from the
   queue, or, where there is none, from who would make it. A put that it would refuse makes none.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from snowmelt.client.connection.steps import Query, Rest, SoFar, Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.leases.delivered import WIDE, Delivered, Kind, Portion, Refused
from snowmelt.client.leases.steps import (
    PIECES_MAX,
    Answer,
    Going,
    Late,
    LeaseSteps,
    Seen,
    Word,
    ask_anybody,
    delay_of,
    shown,
)
from snowmelt.client.overlay.options import Wanted
from snowmelt.client.overlay.parts import (
    done_of,
    late,
    parts_of,
    positions_of,
    ranks_of,
    receipts_of,
    refused_of,
)
from snowmelt.client.priority.sorting import Prioritized, ranked_parcels, sorted_parcel
from snowmelt.client.queue.bodies import Parcel, packed_headers, parcel
from snowmelt.client.queue.ranks import Ranks, checked_priority
from snowmelt.client.together.joint import Asked
from snowmelt.client.together.joint_puts import One, Puts
from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.errors import (
    DiskFull,
    NoSuchQueue,
    OutcomeUnknown,
    QueueExists,
    SnowmeltError,
    Unavailable,
    Unreachable,
)
from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.names import Address, NodeId, contact, queue_name
from snowmelt.protocols.calling import FIRST_WAIT
from snowmelt.protocols.priority.calls import (
    GET_ITEMS,
    Counted,
    Get,
    Leased,
    Open,
    Opened,
    Peek,
    Peeked,
    Purge,
    Put,
    PutDone,
    Queues,
    Receipt,
    Redrive,
    Select,
    Settle,
    Settled,
    Statistics,
    Status,
    Via,
)
from snowmelt.protocols.priority.messages import Piece
from snowmelt.protocols.priority.settings import ANY, QueueSettings
from snowmelt.runtime.clock import steady_now

DOOR: Final = seconds(10)
"""For so long a door is taken for the right one (rule 2)."""
FAR: Final = seconds(30)
"""For so long a home that can't be reached is not asked for (rule 3)."""
HOME_SECONDS: Final = 2.0
"""So long it is waited for, or half of what a call has left."""
_WEIGHT: Final = 1 << 20
_WEIGHT_MAX: Final = 4 << 20
_MISSING_PAUSE: Final = 0.2


class Door(msgspec.Struct, frozen=True):
    """Whom to ask, as calls name them, and until when that is taken for true."""

    via: Via
    target: NodeId
    settings: QueueSettings
    until: Instant


Make = Callable[[Door, Wait], Any]


class OverlayStatus(msgspec.Struct, frozen=True):
    """How a queue on the overlay is."""

    queue: str
    settings: QueueSettings
    anchor: NodeId
    """The node that gives positions just now."""
    ready: int
    ready_of: tuple[int, ...]
    """By priority; empty where any number is one."""
    delayed: int
    leased: int
    dead: int
    short_of_copies: int
    """Items on fewer nodes than they should be."""


class OverlaySteps(LeaseSteps):
    """One queue on the overlay as one user knows it; with `fifo`, one of a single priority."""

    place_bits = WIDE

    def __init__(self, name: str, wanted: Wanted | None, *, fifo: bool = False) -> None:
        super().__init__(queue_name(name))
        self._settings = wanted.settings if wanted else None
        self._said = wanted.said if wanted else ()
        self._fifo = fifo
        self._known: QueueSettings | None = None
        """As it was when it was last opened."""
        self._usual = QueueSettings(queue=self.name, priorities=1 if fifo else ANY, replicas=0)
        """As it is made when nothing is said."""
        self._door: Door | None = None
        self._heard = Instant(0)
        """When the last answer came (rule 2)."""
        self._far = Instant(0)
        """Until when the queue's home is left alone (rule 3)."""

    # --- items in ---------------------------------------------------------------------------------

    def one(
        self,
        body: Buffer,
        priority: float,
        headers: Mapping[str, str | bytes] | None,
        delay: float,
        timeout: float,
    ) -> Asked:
        own = checked_priority(priority)
        one = One(parcel(body).blob, packed_headers(headers), delay_of(delay), own)
        return Puts.asked(one, Wait(timeout), (one.headers, one.delay, timeout))

    def put(self, some: Sequence[One], wait: Wait) -> Steps[list[int]]:
        """Items of one call, alike in headers and delay; their positions within priorities."""
        ranks = yield from self._ranks(wait)
        own = ranks.ranks([one.priority for one in some])
        items = sorted_parcel([one.body for one in some], own, ranks)
        where = yield from self._put(items, ranks, some[0].headers, some[0].delay, wait)
        places = [place for one in where for place in one]
        order = items.order or range(len(some))
        return [place for _, place in sorted(zip(order, places, strict=True))]

    def put_many(
        self,
        items: Iterable[Buffer] | Iterable[Prioritized] | Batch,
        priority: float | None,
        headers: Mapping[str, str | bytes] | None,
        delay: float,
        timeout: float,
    ) -> Steps[tuple[Interval, ...]]:
        """Many items; where they are within their priorities, each call's most urgent first."""
        label, held = packed_headers(headers), delay_of(delay)
        ranks = yield from self._ranks(Wait(timeout))
        calls: Iterator[Parcel] = ranked_parcels(items, priority, ranks)
        where, count = list[Interval](), 0
        with SoFar("the first {} bodies are in the queue", 0) as so_far:
            for some in calls:
                so_far.asked = True
                where += yield from self._put(some, ranks, label, held, Wait(timeout))
                so_far.asked = False
                count += some.count
                so_far.told = (count,)
        return tuple(where)

    def _put(
        self, items: Parcel, ranks: Ranks, headers: bytes, delay: Duration, wait: Wait
    ) -> Steps[list[Interval]]:
        """One call."""
        parts = parts_of(items)

        def make(door: Door, wait: Wait) -> Put:
            if ranks_of(door.settings) != ranks:
                kind = door.settings.kind
                raise QueueExists(f"queue {self.name} was made with priorities={kind} meanwhile")
            return Put(self.name, door.via, parts, headers, delay, wait.patience)

        done: PutDone
        done, _ = yield from self._ask(make, wait, len(items.blob), once=True)
        self.copies = done.copies
        return positions_of(done)

    def _ranks(self, wait: Wait) -> Steps[Ranks]:
        """Rule 5."""
        going = Going(wait)
        while self._known is None:
            try:
                opened: Opened = yield Query(Open(self.name, None, False), wait.left)
            except NoSuchQueue:
                return ranks_of(self._settings or self._usual)
            except (OutcomeUnknown, Unavailable, Unreachable) as error:
                yield going.after(error)
            else:
                return ranks_of(opened.settings)
        return ranks_of(self._known)

    # --- items out --------------------------------------------------------------------------------

    def ask_lease(
        self,
        items_max: int,
        bytes_max: int,
        wait: Wait,
        words: Sequence[Word],
        *,
        ahead: bool,
        before: int,
    ) -> Steps[Answer | None]:
        """Asks for the most urgent items once; as `LeaseSteps.ask_lease`.

        A queue that is not there yet is waited for, like its items. Where there is something to be
        told of it first, there was one: then nobody who knows it can be reached.
        """
        assert before < 0, "an overlay's queue is not asked for what is more urgent"
        most = min(items_max, GET_ITEMS)
        settle = done_of(self.name, words) if words else None

        def make(door: Door, wait: Wait) -> Get:
            patience, heard = wait.patience, seconds(max(0.001, wait.left))
            several = ahead and self.deliveries_max > 1
            return Get(
                self.name,
                door.via,
                1 if ahead and not several else most,
                patience,
                settle,
                bytes_max,
                gathered=True,
                heard=heard,
                ahead=several,
            )

        while True:
            leased: Leased
            try:
                weight = min(bytes_max, _WEIGHT_MAX)
                leased, asked = yield from self._ask(make, wait, weight, to_make=False)
            except NoSuchQueue:
                if wait.over and settle is not None:
                    text = f"no node knows queue {self.name} just now: it was not told what is done"
                    raise Unavailable(text) from None
                if wait.over:
                    return None
                yield Rest(min(_MISSING_PAUSE, wait.left))
                continue
            return Answer(leased, asked, late(leased.lost))

    def delivered(self, leased: Leased, asked: Instant, bytes_max: int) -> Steps[Delivered | None]:
        del bytes_max
        yield from ()
        parts = tuple([self._stretch(piece) for piece in leased.pieces])
        return Delivered(leased.token, parts, leased.lease, later(asked, leased.lease))

    def tell(self, delivered: Delivered, word: Word) -> Steps[tuple[Instant, Refused | None]]:
        """Tells one word, through any node."""
        settled = *word.done, *word.back  # to renew those would be refused
        renewed = _without(delivered.open_in(None), settled) if word.extend else ()
        lost: list[Receipt] = []
        first: Instant | None = None
        for at in range(0, max(1, len(renewed)), PIECES_MAX):
            settle = self._settle(word, renewed[at : at + PIECES_MAX])
            told: Settled
            told, asked = yield from self._ask(_just(settle), Wait(0), to_make=False)
            lost.extend(told.lost)
            first, word = asked if first is None else first, Word(word.token)
        assert first is not None
        return first, next(iter(late(lost).values()), None)

    def tell_done(self, words: Sequence[Word], wait: Wait) -> Steps[Late]:
        """Tells what is done, of any leases."""
        settled: Settled
        settled, _ = yield from self._ask(_just(done_of(self.name, words)), wait, to_make=False)
        return late(settled.lost)

    def joins(self, token: int) -> Hashable:
        """All of them are one queue's."""
        del token
        return self.name

    def own(self, token: int, refused: Refused, done: tuple[Interval, ...]) -> Refused | None:
        """What of these is not held any more."""
        held = IntervalSet(done)
        lost = [one for gone in refused.lost or () for one in held.common(gone)]
        return refused_of(token, tuple(lost))

    def _settle(self, word: Word, renewed: Iterable[Interval]) -> Settle:
        return Settle(
            self.name,
            receipts_of(word.token, word.done),
            receipts_of(word.token, word.back),
            word.delay,
            word.reason,
            receipts_of(word.token, renewed),
            dead=word.dead,
        )

    # --- the queue as a whole ---------------------------------------------------------------------

    def peek(self, count: int, dead: bool, timeout: float) -> Steps[list[Seen]]:
        ask = Peek(self.name, min(count, GET_ITEMS), dead)
        peeked: Peeked = yield from self._about(lambda *_: ask, timeout)
        return shown([self._stretch(piece) for piece in peeked.pieces])[:count]

    def select(self, rank: int, share: float | None, timeout: float) -> Steps[Seen | None]:
        """The item of a rank, from 1 on, or at a part of all; None when there is none."""
        ask = Select(self.name, rank, share)
        peeked: Peeked = yield from self._about(_just(ask), timeout)
        return next(iter(shown([self._stretch(piece) for piece in peeked.pieces])), None)

    def purge(self, dead: bool, timeout: float) -> Steps[int]:
        counted: Counted = yield from self._about(
            lambda door, _: Purge(self.name, door.via, dead), timeout
        )
        return counted.count

    def redrive(self, timeout: float) -> Steps[int]:
        """Brings the dead back; how many."""
        counted: Counted = yield from self._about(
            lambda door, _: Redrive(self.name, door.via), timeout
        )
        return counted.count

    def stats(self, timeout: float) -> Steps[OverlayStatus]:
        told: Status = yield from self._about(_just(Statistics(self.name)), timeout)
        ready = {one.priority: one.count for one in told.ready}
        keyed = told.settings.keyed
        return OverlayStatus(
            queue=self.name,
            settings=told.settings,
            anchor=told.anchor,
            ready=sum(ready.values()),
            ready_of=() if keyed else tuple([ready.get(p, 0) for p in range(told.settings.rows)]),
            delayed=told.held,
            leased=told.leased,
            dead=told.dead,
            short_of_copies=told.short_of_copies,
        )

    def _stretch(self, piece: Piece) -> Portion:
        start = (piece.priority << WIDE) + piece.start
        known = self._known or self._usual
        kind = Kind(known.floats, known.largest_first)
        return Portion(
            start, piece.offsets, piece.blob, piece.headers, piece.failures, piece.reason,
            piece.times, piece.keys, kind, piece.spans,
        )  # fmt: skip

    # --- asking -----------------------------------------------------------------------------------

    def _about(self, make: Make, timeout: float) -> Steps[Any]:
        """Asks about the queue as a whole: this makes none."""
        return (yield from self._ask(make, Wait(timeout), _WEIGHT, to_make=False))[0]

    def _ask(
        self, make: Make, wait: Wait, weight: int = 0, *, to_make: bool = True, once: bool = False
    ) -> Steps[tuple[Any, Instant]]:
        """Asks at the door, opening it first if need be, until the time is over.

        Returns the answer, and when that was asked for which it answers. What did not happen is
        asked again; what is open is, unless it is to happen once (rule 4).
        """
        going = Going(wait)
        while True:
            try:
                door = self._door
                if door is None or steady_now() >= door.until:
                    door = yield from self._open(wait, to_make)
                    self._door = door
            except (OutcomeUnknown, Unavailable, Unreachable) as error:
                yield going.after(error)
                continue
            began = steady_now()
            try:
                answer = yield Query(make(door, wait), wait.left, door.target, weight)
            except (DiskFull, NoSuchQueue, OutcomeUnknown, Unavailable, Unreachable) as error:
                self._door = None
                if isinstance(error, NoSuchQueue) or (once and isinstance(error, OutcomeUnknown)):
                    raise
                yield going.after(error)
            else:
                heard, self._heard = self._heard, steady_now()
                if self._heard - max(began, heard) > FIRST_WAIT:  # somebody was silent, perhaps
                    self._door = None
                return answer, began

    def _open(self, wait: Wait, to_make: bool) -> Steps[Door]:
        self._door = None
        fifo = self._fifo and self._settings is None
        try:
            opened: Opened
            try:
                ask = Open(self.name, self._settings, to_make and not fifo, self._said)
                opened = yield Query(ask, wait.left)
            except NoSuchQueue:
                if not (fifo and to_make):
                    raise
                opened = yield Query(Open(self.name, self._usual), wait.left)
        except NoSuchQueue:
            self.missing = True
            raise
        settings = opened.settings
        if self._fifo and settings.priorities != 1:
            raise QueueExists(
                f"queue {self.name} is there with priorities={settings.kind}, and no fifo: take it "
                'by cluster.priority, with ordering="overlay"'
            )
        self.missing, self._known = False, settings
        self.deliveries_max = settings.deliveries_max
        if opened.home is not None and steady_now() >= self._far:
            opened = yield from self._homed(opened, opened.home, wait)
        return Door(opened.via, contact(opened.address), settings, later(steady_now(), DOOR))

    def _homed(self, opened: Opened, home: Address, wait: Wait) -> Steps[Opened]:
        """What the queue's home answers to the same; what was answered before if it is silent."""
        ask, limit = Open(self.name, None, False), min(HOME_SECONDS, wait.left / 2)
        try:
            nearer: Opened = yield Query(ask, limit, contact(home))
        except SnowmeltError:
            nearer = opened
        if nearer.home is not None:  # another answered in its place
            self._far = later(steady_now(), FAR)
        return nearer


def _just(body: Any) -> Make:
    """The same, wherever it is asked."""
    return lambda *_: body


def overlay_queues(timeout: float) -> Steps[dict[str, QueueSettings]]:
    """All queues on the overlay, by their names."""
    told = yield from ask_anybody(Queues(), Wait(timeout))
    return {one.queue: one for one in told.settings}


def _without(places: Iterable[Interval], removed: Collection[Interval]) -> tuple[Interval, ...]:
    left = IntervalSet(places)
    left.remove_all(removed)
    return tuple(left)
