"""What a queue of several partitions is asked, as steps: puts, gets, and words about leases.

1. Each partition is a queue of its own, with a leader that takes its puts and answers questions
   about it. Positions count over all of them.
2. What has a key, or a uniqueness key, lies in the partition in which that lives (`names.py`). A
   call whose items have several keys is one call to each of their partitions; so its number is
   used in each, once. Any other whose producer has a name lies in the partition of that name. The
   rest is put as `order.py` says, with a producer for each partition.
3. A put without such a partition that finds its own full, or away, is tried in the others before
   it waits. So `Full` says of each of them that it had no room when it was asked. In a queue with a
   bound these puts of a client go one after the other, so that none passes one that looks for room.
   In any other a put that stands behind others of its client goes where they went.
4. A get is asked of any node, which answers with a lease of each partition that gave something.
   They are one lease here (`SharedToken`), and updates of it go to the partitions concerned.
5. A get waits for the puts that its client asked before, for half of its time. In a queue with a
   bound that is for a moment, since a put may wait for the very room that this get makes.
6. A partition that is not there any more was deleted, and with it the queue.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from snowmelt.client.connection.steps import Sleep, Steps, all_of, at_once
from snowmelt.client.connection.waits import Wait
from snowmelt.client.leases.delivered import LateRefusal, LeasedItems, positions_of
from snowmelt.client.leases.steps import LeaseReply, LeaseUpdate, both
from snowmelt.client.queue.bodies import NOT_UNIQUE, PutItems, Unique, chosen
from snowmelt.client.queue.options import Key, ProducerSequence, as_key
from snowmelt.core.errors import (
    BadOption,
    DiskFull,
    Full,
    NoSuchQueue,
    SnowmeltError,
    Unavailable,
)
from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.protocols.queue.api.calls import Get, PutDone
from snowmelt.protocols.queue.api.gathered import Gathered, PartitionLease
from snowmelt.protocols.queue.api.labels import keys_in, picked
from snowmelt.protocols.queue.api.partition_names import home_of
from snowmelt.protocols.queue.api.settings import PARTITIONS_MAX, QueueSettings
from snowmelt.runtime.clock import steady_now

ROUND: Final = 0.5
"""So many seconds a put waits in one full partition before it looks at the others again."""
MOMENT: Final = 0.1
"""So many a get of a queue with a bound waits for earlier puts."""
T = TypeVar("T")
_NOT_HERE: Final = (DiskFull, Full, Unavailable)
"""So ends a put that another partition may take."""
_PAUSE: Final = 0.001
_PAUSE_LONGEST: Final = 0.02
_WEIGHT_MAX: Final = 4 << 20
_EARLIER: Final = milliseconds(200)
"""So much earlier, or a fifth of its time, a get ends its wait: all partitions are asked once more
before it hears that there is nothing."""


class LeasedPartition(msgspec.Struct, frozen=True, eq=False):
    """What one partition gave, and under which token of its own."""

    part: int
    token: int
    places: IntervalSet

    def common(self, some: Iterable[Interval]) -> tuple[Interval, ...]:
        """What of these places it gave."""
        return tuple([each for one in some for each in self.places.common(one)])

    def word(self, whole: LeaseUpdate, left: Sequence[Interval]) -> LeaseUpdate | None:
        """What a word about all says of this; None for nothing. `left` is what is held still."""
        done, back = self.common(whole.done), self.common(whole.back)
        extend = whole.extend and len(self.common(left)) > 0
        if not (done or back or extend):
            return None
        return msgspec.structs.replace(whole, token=self.token, done=done, back=back, extend=extend)


class SharedToken(int):
    """The number of such a lease, unlike that of any other, and what it is made of.

    >>> held = [LeasedPartition(part, token, IntervalSet()) for part, token in ((2, 7), (5, 7))]
    >>> SharedToken.of(held) == SharedToken.of(held[:1]), SharedToken.of(held[:1]) >> 6
    (False, 7)
    """

    held: tuple[LeasedPartition, ...]

    @classmethod
    def of(cls, held: Sequence[LeasedPartition]) -> "SharedToken":
        """That of what these partitions gave together."""
        token = cls(max([one.token * PARTITIONS_MAX + one.part for one in held]))
        token.held = tuple(held)
        return token


def held_of(token: int) -> tuple[LeasedPartition, ...]:
    """What a lease is made of."""
    assert isinstance(token, SharedToken), "leases of several partitions have these"
    return token.held


def together(pieces: Sequence[tuple[int, LeasedItems]]) -> LeasedItems:
    """What several partitions gave, as one lease: it ends with the first of theirs."""
    leases = [one for _, one in pieces]
    token = SharedToken.of(
        [
            LeasedPartition(part, one.token, IntervalSet(positions_of(one.parts)))
            for part, one in pieces
        ]
    )
    parts = sorted([part for one in leases for part in one.parts], key=lambda part: part.start)
    lease, ends = min([one.lease for one in leases]), min([one.ends for one in leases])
    return LeasedItems(token, tuple(parts), lease, ends)


class PartitionSteps(Protocol):
    """One partition, as a queue of its own."""

    name: str

    def put_parcel(
        self,
        items: PutItems,
        headers: bytes,
        due: int,
        wait: Wait,
        sequence: int | None,
        *,
        eager: bool = False,
        unique: Unique = NOT_UNIQUE,
    ) -> Steps[PutDone]:
        """Puts the items of one call; with `eager` it does not wait for nodes that are away."""

    def delivered(
        self, leased: Any, asked: Instant, bytes_max: int
    ) -> Steps[LeasedItems | None]: ...

    def tell(
        self, delivered: LeasedItems, word: LeaseUpdate
    ) -> Steps[tuple[Instant, LateRefusal | None]]:
        """Tells one word of a lease."""

    def tell_done(self, word: LeaseUpdate, wait: Wait) -> Steps[LateRefusal | None]: ...

    def ask_about(self, body: Any, timeout: float, weight: int = 0) -> Steps[Any]: ...


class AnyNode(Protocol):
    """Any node, for what is asked of all partitions at once."""

    since: int
    away_parts: tuple[int, ...]

    def ask_door(self, body: Any, wait: Wait, weight: int) -> Steps[tuple[Any, Instant]]:
        """Asks it; the answer, and when that was asked for which it answers."""

    def ended(self, error: NoSuchQueue, *, of_lease: bool = False) -> SnowmeltError:
        """The error to raise when there is no such queue any more."""


class GotPieces(msgspec.Struct, frozen=True):
    """What a get brought, from several partitions."""

    token: int
    """0 when that is nothing."""
    pieces: tuple[PartitionLease, ...]


class PartitionedQueue:
    """The partitions of one queue."""

    def __init__(
        self, name: str, door: AnyNode, parts: Sequence[PartitionSteps], producer: ProducerSequence
    ) -> None:
        self.name = name
        self.all = tuple(parts)
        self.bounded = False
        """Whether a put may have to wait for room."""
        self._door = door
        self._producer = producer

    def home(self, key: bytes) -> int:
        """In which of them this key lives."""
        return home_of(key, len(self.all))

    def about(self, steps: Steps[T], *, of_lease: bool = False) -> Steps[T]:
        """Whatever is asked of partitions (rule 6)."""
        try:
            return (yield from steps)
        except NoSuchQueue as error:
            raise self._door.ended(error, of_lease=of_lease) from None

    # --- items in ---------------------------------------------------------------------------------

    def put(
        self,
        items: PutItems,
        headers: bytes,
        due: int,
        wait: Wait,
        sequence: int | None,
        unique: Unique = NOT_UNIQUE,
    ) -> Steps[PutDone]:
        """Puts the items of one call (rules 2 and 3)."""
        keys = keys_in(headers)
        if unique.key:
            if keys is not None:
                raise _of_two_keys(self.name, unique)
            own = self.all[self.home(unique.key)]
            steps = own.put_parcel(items, headers, due, wait, sequence, unique=unique)
            return self.about(self._noted(steps))
        if keys is not None:
            return self.about(self._put_by_keys((items, headers, due), keys, wait, sequence))
        return self.about(self._put(items, headers, due, wait, sequence))

    def _noted(self, steps: Steps[T]) -> Steps[T]:
        """A put of this client is asked, into whatever partition."""
        number, _ = self._producer.order.begin(len(self.all))
        try:
            return (yield from steps)
        finally:
            self._producer.order.end(number)

    def _put_by_keys(
        self,
        call: tuple[PutItems, bytes, int],
        keys: Sequence[bytes | None],
        wait: Wait,
        sequence: int | None,
    ) -> Steps[PutDone]:
        """Each item where its key lives; those without one by themselves."""
        items, headers, due = call
        homes: dict[int, list[int]] = {}
        for at, key in enumerate(keys):
            homes.setdefault(-1 if key is None else self.home(key), []).append(at)
        asks: list[Steps[PutDone]] = []
        for home, some in homes.items():
            own = items, headers
            if len(homes) > 1:
                own = chosen(items, some), picked(headers, [Interval(at, at + 1) for at in some])
            if home < 0:
                asks.append(self._put(*own, due, wait, sequence))
            else:
                asks.append(self._noted(self.all[home].put_parcel(*own, due, wait, sequence)))
        if len(asks) == 1:
            return (yield from asks[0])
        ends = yield from at_once(asks)
        done = [one for one in ends if isinstance(one, PutDone)]
        try:
            return _together(all_of(ends))
        except SnowmeltError as error:
            if done:
                error.add_note(
                    f"of {items.count} items of this call those are in the queue whose keys live "
                    f"in {len(done)} of {len(asks)} partitions"
                )
            raise

    def _put(
        self, items: PutItems, headers: bytes, due: int, wait: Wait, sequence: int | None
    ) -> Steps[PutDone]:
        order, count = self._producer.order, len(self.all)
        number, part = order.begin(count)
        call = items, headers, due
        try:
            if self._producer.named:
                own = self.all[self.home(self._producer.name.encode())]
                return (yield from own.put_parcel(*call, wait, sequence))
            alone, first = order.alone(number), wait
            if self.bounded:
                if not alone:
                    yield from self._behind_others(number, wait.patience)
                    part, alone = order.turn(count), True
                first = wait.impatient
            try:
                return (yield from self.all[part].put_parcel(*call, first, None, eager=alone))
            except _NOT_HERE:
                return (yield from self._put_elsewhere(call, part, wait))
        finally:
            order.end(number)

    def _behind_others(self, number: int, longest: Duration) -> Steps[None]:
        """Until all puts of this client before that number are answered, or it was so long."""
        end = later(steady_now(), longest)
        while (before := self._producer.order.before(number)) and steady_now() < end:
            yield Sleep(min(before * _PAUSE, _PAUSE_LONGEST))

    def _put_elsewhere(
        self, call: tuple[PutItems, bytes, int], part: int, wait: Wait
    ) -> Steps[PutDone]:
        """In the next partition that has room, once one has (rule 3)."""
        count, asked = len(self.all), 0
        while True:
            part, asked = (part + 1) % count, asked + 1
            last = asked % count == 0
            one = wait.sooner(ROUND) if last and not wait.over else wait.impatient
            try:
                done = yield from self.all[part].put_parcel(*call, one, None, eager=True)
            except _NOT_HERE as error:
                if last and wait.over:
                    raise _of_all(self.name, count, error) from None
                if last and isinstance(error, Unavailable):
                    yield Sleep(min(ROUND, wait.left))
            else:
                self._producer.order.went(part)
                return done

    # --- items out --------------------------------------------------------------------------------

    def ask_lease(
        self,
        items_max: int,
        bytes_max: int,
        wait: Wait,
        word: LeaseUpdate | None,
        ahead: bool,
        before: int,
    ) -> Steps[LeaseReply]:
        """Tells `word`, and then asks for items once (rules 4 and 5)."""
        late = None if word is None else (yield from self.tell_done(word, Wait(0)))
        longest = min(MOMENT, wait.left / 2) if self.bounded else wait.left / 2
        yield from self._behind_others(self._producer.order.next, seconds(longest))
        since = self._door.since
        patience = Duration(wait.patience - min(wait.patience // 5, _EARLIER))
        get = Get(self.name, items_max, bytes_max, patience, None, ahead, before, since)
        gathered: Gathered
        gathered, asked = yield from self._door.ask_door(get, wait, min(bytes_max, _WEIGHT_MAX))
        self._door.away_parts = gathered.away
        pieces = tuple([one for one in gathered.pieces if one.leased.token])
        return LeaseReply(GotPieces(len(pieces), pieces), asked, late)

    def delivered(
        self, gain: GotPieces, asked: Instant, bytes_max: int
    ) -> Steps[LeasedItems | None]:
        """What several partitions leased, as one lease; None when all of it was lost."""
        some = [self.all[one.part].delivered(one.leased, asked, bytes_max) for one in gain.pieces]
        ends = all_of((yield from at_once(some)))
        came = [
            (piece.part, one)
            for piece, one in zip(gain.pieces, ends, strict=True)
            if one is not None
        ]
        return together(came) if came else None

    # --- words about leases -----------------------------------------------------------------------

    def tell(
        self, delivered: LeasedItems, word: LeaseUpdate
    ) -> Steps[tuple[Instant, LateRefusal | None]]:
        """Tells one word, to each partition what concerns it."""
        return self.about(self._tell(delivered, word), of_lease=True)

    def _tell(
        self, delivered: LeasedItems, word: LeaseUpdate
    ) -> Steps[tuple[Instant, LateRefusal | None]]:
        left = delivered.open_in(None) if word.extend else ()
        words = [(held, own) for held in held_of(word.token) if (own := held.word(word, left))]
        told = [self.all[held.part].tell(delivered, own) for held, own in words]
        first, late = steady_now(), None
        ends = all_of((yield from at_once(told)))
        for (held, own), (asked, refused) in zip(words, ends, strict=True):
            first = min(first, asked)
            if refused is not None:
                whole = own.done + own.back + (held.common(left) if own.extend else ())
                late = both(late, _named(refused, whole))
        return first, late

    def each(self, word: LeaseUpdate) -> list[tuple[PartitionSteps, LeaseUpdate]]:
        """What a word says of each partition, but for what it extends."""
        held = held_of(word.token)
        return [(self.all[one.part], own) for one in held if (own := one.word(word, ()))]

    def tell_done(self, word: LeaseUpdate, wait: Wait) -> Steps[LateRefusal | None]:
        """Tells what is done of a lease."""
        return self.about(self._tell_done(word, wait), of_lease=True)

    def _tell_done(self, word: LeaseUpdate, wait: Wait) -> Steps[LateRefusal | None]:
        words = self.each(word)
        told = [part.tell_done(own, wait) for part, own in words]
        late: LateRefusal | None = None
        for (_, own), refused in zip(words, all_of((yield from at_once(told))), strict=True):
            if refused is not None:
                late = both(late, _named(refused, own.done))
        return late


def place_of(parts: PartitionedQueue | None, since: int, key: Key | None) -> Hashable:
    """What puts of one call have in common here: with several partitions where their key lives.

    Where it is not known yet whether there are several, it is the key.
    """
    if key is None or (parts is None and since):
        return None
    return as_key(key) if parts is None else parts.home(as_key(key))


def _together(done: Sequence[PutDone]) -> PutDone:
    """What several partitions said of one call."""
    whole = [one for one in done if one.stop]
    if len(whole) < len(done):
        return next(one for one in done if not one.stop)
    places = sorted([(where.start, where.stop) for one in done for where in one.where])
    edges = [edge for where in places for edge in where]
    return PutDone(
        edges[0],
        edges[1],
        min([one.copies for one in done]),
        all(one.flushed for one in done),
        all(one.repeated for one in done),
        tuple(edges[2:]),
    )


def _of_two_keys(queue: str, unique: Unique) -> BadOption:
    allowed = (
        f"none beside a key: in {queue}, which has several partitions, each of the two lives in "
        "one; make the key a part of unique, and leave out key"
    )
    return BadOption("unique", unique.key, allowed)


def is_bounded(settings: QueueSettings) -> bool:
    """Whether a put may have to wait for room."""
    return settings.items_max > 0 or settings.bytes_max > 0


def _named(refused: LateRefusal, whole: tuple[Interval, ...]) -> LateRefusal:
    """Of one partition's lease all that was said of it is lost, where it does not say what."""
    return refused if refused.lost is not None else LateRefusal(refused.why, whole)


def _of_all(queue: str, count: int, error: SnowmeltError) -> SnowmeltError:
    if isinstance(error, Unavailable):
        return error
    return type(error)(f"none of the {count} partitions of {queue!r} has room; the last: {error}")
