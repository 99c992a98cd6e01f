"""What can be asked of a priority queue, as steps: no socket, no thread, no wait.

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
5. A put that a queue would refuse makes no such queue, since what is made is made for good. So who
   has not opened the queue yet holds what is put against what would be made; if that would refuse
   it, the queue must be there.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from snowmelt.client.connection.steps import Query, Rest, SoFar, Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.leases.delivered import (
    WIDE,
    Delivered,
    Kind,
    Portion,
    Refused,
    told_interval,
)
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
from snowmelt.client.priority.options import Wanted
from snowmelt.client.priority.parts import (
    Prioritized,
    Some,
    by_priority,
    calls_of,
    checked_priority,
    parts_of,
)
from snowmelt.client.queue.bodies import packed_headers, parcel
from snowmelt.client.together.joint import Asked
from snowmelt.client.together.joint_puts import One, Puts
from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.errors import (
    BadOption,
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
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.calls import (
    GET_ITEMS,
    Counted,
    Get,
    Leased,
    Open,
    Opened,
    Part,
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


class PriorityStatus(msgspec.Struct, frozen=True):
    """How a priority queue is."""

    queue: str
    settings: QueueSettings
    anchor: NodeId
    """The node that gives positions just now."""
    ready: int
    ready_by_priority: dict[int, int]
    """Of a queue with any priorities there is none: they have no bound."""
    delayed: int
    leased: int
    dead: int
    staged: int
    short_of_copies: int
    """Items on fewer nodes than they should be."""


class PrioritySteps(LeaseSteps):
    """One priority queue as one user knows it; with `fifo`, one of a single priority."""

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
        ordered, order = by_priority([(one.priority, one.body) for one in some])
        done = yield from self.put_parts((ordered,), some[0].headers, some[0].delay, wait)
        places = [at for share in done.shares for one in share.intervals for at in one]
        return [place for _, place in sorted(zip(order, places, strict=True))]

    def put_many(
        self,
        items: Iterable[Buffer] | Iterable[Prioritized] | Batch,
        priority: float | None,
        headers: Mapping[str, str | bytes] | None,
        delay: float,
        timeout: float,
    ) -> Steps[int]:
        label, held, calls = packed_headers(headers), delay_of(delay), calls_of(items, priority)
        count = 0
        with SoFar("the first {} bodies are in the queue", 0) as so_far:
            for parts in calls:
                so_far.asked = True
                done = yield from self.put_parts(parts, label, held, Wait(timeout))
                so_far.asked = False
                count += sum(share.total for share in done.shares)
                so_far.told = (count,)
        return count

    def put_parts(
        self,
        several: tuple[Some, ...],
        headers: bytes,
        delay: Duration,
        wait: Wait,
        hold: Duration = Duration(0),  # noqa: B008 - an int
    ) -> Steps[PutDone]:
        """One put, of items that are packed already."""
        made: dict[QueueSettings, tuple[Part, ...]] = {}
        if self._known is None:
            yield from self._check_fitting(several, made, wait)

        def make(door: Door, wait: Wait) -> Put:
            settings = door.settings
            if settings not in made:
                made[settings] = parts_of(several, settings)
            return Put(self.name, door.via, made[settings], headers, delay, wait.patience, hold)

        weight = sum(len(some.blob) for some in several)
        done: PutDone
        done, _ = yield from self._ask(make, wait, weight, once=True)
        self.copies = done.copies
        return done

    def _check_fitting(
        self, several: tuple[Some, ...], made: dict[QueueSettings, tuple[Part, ...]], wait: Wait
    ) -> Steps[None]:
        """Rule 5."""
        settings, going = self._settings or self._usual, Going(wait)
        try:
            made[settings] = parts_of(several, settings)
        except BadOption as refused:
            while True:
                try:
                    yield Query(Open(self.name, None, False), wait.left)
                except NoSuchQueue:
                    raise refused from None
                except (OutcomeUnknown, Unavailable, Unreachable) as error:
                    yield going.after(error)
                else:
                    return

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
        settle = _done(self.name, words) if words else None

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
            return Answer(leased, asked, _late(leased.lost))

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
        return first, next(iter(_late(tuple(lost)).values()), None)

    def tell_done(self, words: Sequence[Word], wait: Wait) -> Steps[Late]:
        """Tells what is done, of any leases."""
        settled: Settled
        settled, _ = yield from self._ask(_just(_done(self.name, words)), wait, to_make=False)
        return _late(settled.lost)

    def joins(self, token: int) -> Hashable:
        """All of them are one queue's."""
        del token
        return self.name

    def own(self, token: int, refused: Refused, done: tuple[Interval, ...]) -> Refused | None:
        """What of these is not held any more."""
        held = IntervalSet(done)
        return _refused(
            token, tuple([one for lost in refused.lost or () for one in held.common(lost)])
        )

    def _settle(self, word: Word, renewed: Iterable[Interval]) -> Settle:
        return Settle(
            self.name,
            _receipts(word.token, word.done),
            _receipts(word.token, word.back),
            word.delay,
            word.reason,
            _receipts(word.token, renewed),
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

    def stats(self, timeout: float) -> Steps[PriorityStatus]:
        told: Status = yield from self._about(lambda *_: Statistics(self.name), timeout)
        ready = {one.priority: one.count for one in told.ready}
        by_priority = {} if told.settings.keyed else ready
        return PriorityStatus(
            queue=self.name,
            settings=told.settings,
            anchor=told.anchor,
            ready=sum(ready.values()),
            ready_by_priority=by_priority,
            delayed=told.held,
            leased=told.leased,
            dead=told.dead,
            staged=told.staged,
            short_of_copies=told.short_of_copies,
        )

    def ask_about(self, ask: Any, timeout: float) -> Steps[Any]:
        """Asks what may be asked twice, through any node."""
        return (yield from self._about(lambda *_: ask, timeout))

    @property
    def known(self) -> QueueSettings:
        """As it was when it was last opened; until then, as it would be made."""
        return self._known or self._usual

    def _stretch(self, piece: Piece) -> Portion:
        start = (piece.priority << WIDE) + piece.start
        kind = Kind(self.known.floats, self.known.largest_first)
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
                "by cluster.priority"
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


def list_priority_queues(timeout: float) -> Steps[list[str]]:
    told = yield from ask_anybody(Queues(), Wait(timeout))
    return [one.queue for one in told.settings]


def _without(places: Iterable[Interval], removed: Collection[Interval]) -> tuple[Interval, ...]:
    left = IntervalSet(places)
    left.remove_all(removed)
    return tuple(left)


def _done(queue: str, words: Sequence[Word]) -> Settle:
    return Settle(queue, tuple([one for word in words for one in _receipts(word.token, word.done)]))


def _receipts(token: int, places: Iterable[Interval]) -> tuple[Receipt, ...]:
    """Places as the nodes name them, each priority by itself."""
    by_priority: dict[int, list[Interval]] = {}
    for one in places:
        own = told_interval(one, WIDE)
        by_priority.setdefault(one.start >> WIDE, []).append(own)
    shares = tuple([Share(one, tuple(by_priority[one])) for one in sorted(by_priority)])
    return (Receipt(token, shares),) if shares else ()


def _late(lost: tuple[Receipt, ...]) -> Late:
    places: dict[int, list[Interval]] = {}
    for receipt in lost:
        own = places.setdefault(receipt.token, [])
        for share in receipt.shares:
            base = share.priority << WIDE
            own += [Interval(base + one.start, base + one.stop) for one in share.intervals]
    told = {token: _refused(token, tuple(places[token])) for token in places}
    return {token: refused for token, refused in told.items() if refused is not None}


def _refused(token: int, places: tuple[Interval, ...]) -> Refused | None:
    if not places:
        return None
    first, count = places[0], sum(one.size for one in places)
    text = (
        f"position {told_interval(first, WIDE).start} of priority {first.start >> WIDE}"
        f"{f' and {count - 1} more' if count > 1 else ''} are not held any more: the lease of "
        f"token {token} ran out, or they lie with a node that is away"
    )
    return Refused(text, places)
