"""What can be asked of a fifo, as steps (see `steps.py`): no socket, no thread, no wait.

The cluster grants where to put and where to get (`Opened`). The grant is taken for true until
something speaks against it: an error, or an answer that took so long that somebody must have been
asked again. Then the next call asks for it anew.

A put has its number before it is first sent and keeps it through all retries, so it is put once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final

import msgspec

from snowmelt.client.bodies import Parcel, packed_headers, parcel, parcels
from snowmelt.client.delivered import (
    Delivered,
    label_of,
    part_bodies,
    part_items,
    runs,
    shortened,
)
from snowmelt.client.fetching import Fetching
from snowmelt.client.queue_options import Producer, seconds_of
from snowmelt.client.steps import Query, Rest, SoFar, Steps
from snowmelt.client.waits import ANSWER_SECONDS as ANSWER_SECONDS  # noqa: PLC0414 - staging takes it
from snowmelt.client.waits import LATE, Wait
from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.errors import (
    BadOption,
    Closed,
    DiskFull,
    LeaseLost,
    NoSuchQueue,
    OutcomeUnknown,
    SnowmeltError,
    TooLarge,
    Unavailable,
    Unreachable,
)
from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.interval import Interval, Position
from snowmelt.core.names import NodeId, contact
from snowmelt.protocols.calling import FIRST_WAIT
from snowmelt.protocols.fifo.calls import (
    PIECES_MAX,
    Changed,
    Describe,
    Get,
    Leased,
    ListQueues,
    Open,
    Opened,
    Part,
    Pause,
    Peek,
    Peeked,
    Purge,
    Put,
    PutDone,
    QueueStatus,
    Redrive,
    Settle,
)
from snowmelt.protocols.fifo.settings import DELAY_LONGEST, QueueSettings, queue_name
from snowmelt.runtime.clock import steady_now

PUT_LONGEST: Final = 8 * 3600.0
"""For so long at most the nodes remember what became of a put's attempts."""
BYTES_MAX: Final = 16 << 20
BYTES_HIGHEST: Final = 64 << 20
ITEMS_HIGHEST: Final = 1_000_000
PEEK_BYTES: Final = 4 << 20
_WEIGHT_MAX: Final = 4 << 20
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
_MISSING_PAUSE: Final = 0.2
_DELAY_SECONDS: Final = DELAY_LONGEST / 1e9
_DAMAGED: Final = "no copy could be read"


class Seen(msgspec.Struct, frozen=True):
    """An item as `peek` shows it: nobody's, and still in the queue."""

    body: bytes
    position: Position
    headers: dict[str, str]
    failures: int
    """How often it was delivered in vain."""
    reason: str
    """Why the last of those deliveries failed."""


def _portions(settle: Settle) -> Iterator[Settle]:
    """In as many calls as it takes, since one names no more than so many intervals.

    >>> one = Settle("q", 7, done=(Interval(0, 1),), back=(Interval(2, 3),), extend=True)
    >>> list(_portions(one)) == [one]
    True
    """
    if len(settle.done) + len(settle.back) <= PIECES_MAX:
        yield settle
        return
    extend = settle.extend  # with the first: the others take their time
    for at in range(0, len(settle.done), PIECES_MAX):
        done = settle.done[at : at + PIECES_MAX]
        yield msgspec.structs.replace(settle, done=done, back=(), extend=extend)
        extend = False
    for at in range(0, len(settle.back), PIECES_MAX):
        back = settle.back[at : at + PIECES_MAX]
        yield msgspec.structs.replace(settle, done=(), back=back, extend=extend)
        extend = False


class Grant(msgspec.Struct, frozen=True):
    """Whom to ask, as calls name them."""

    master: NodeId
    store: NodeId


_master: Final[Callable[[Grant], NodeId]] = attrgetter("master")
_store: Final[Callable[[Grant], NodeId]] = attrgetter("store")


class FifoSteps:
    """One queue as one user knows it: its name, its grant, its producer."""

    def __init__(self, name: str, settings: QueueSettings | None, producer: Producer) -> None:
        self.name = queue_name(name)
        self._settings = settings
        self.producer = producer
        self.missing = False
        """Whether there was no such queue when it was last asked for."""
        self._grant: Grant | None = None
        self._lease = Duration(0)

    # --- items in ---------------------------------------------------------------------------------

    def put(
        self,
        body: Buffer,
        headers: Mapping[str, str] | None,
        delay: float,
        timeout: float,
        sequence: int | None,
    ) -> Steps[Position]:
        """One item; its position, -1 when it was put before and is no longer remembered."""
        done = yield from self._put(
            parcel(body), packed_headers(headers), due_of(delay), timeout, sequence
        )
        return Position(done.start if done.stop else -1)

    def put_many(
        self,
        bodies: Iterable[Buffer] | Batch,
        headers: Mapping[str, str] | None,
        delay: float,
        timeout: float,
        sequence: int | None,
    ) -> Steps[Interval]:
        """Many items; from the first one's position to behind the last one's."""
        packed, due = packed_headers(headers), due_of(delay)
        calls = parcels(bodies)
        first = next(calls, None)
        if first is None:
            return Interval(0, 0)
        following = next(calls, None)
        if following is not None and sequence is not None:
            raise TooLarge(
                "these bodies need several calls, and a sequence number names one: give at most "
                "8 MiB and 32768 bodies with each number"
            )
        done = yield from self._put(first, packed, due, timeout, sequence)
        whole, count = Interval(done.start, max(done.start, done.stop)), first.count
        with SoFar("the first {} bodies are in the queue, in {}") as so_far:
            while following is not None:
                so_far.told = count, whole
                so_far.asked = True
                done = yield from self._put(following, packed, due, timeout, None)
                so_far.asked = False
                start = whole.start if whole.size else done.start
                whole, count = Interval(start, max(start, done.stop)), count + following.count
                so_far.told = count, whole
                following = next(calls, None)
        return whole

    def _put(
        self, items: Parcel, headers: bytes, due: int, timeout: float, sequence: int | None
    ) -> Steps[PutDone]:
        wait = Wait(timeout, longest=PUT_LONGEST)
        put = Put(
            self.name,
            self.producer.name,
            self.producer.number(sequence),
            items.offsets,
            items.blob,
            headers,
            due,
            wait.patience,
            caller=self.producer.caller,
            turn=self.producer.turn(),
        )
        done: PutDone
        done, _ = yield from self._ask(put, wait, _store, len(items.blob))
        return done

    # --- items out --------------------------------------------------------------------------------

    def get_many(
        self,
        items_max: int,
        bytes_max: int,
        timeout: float,
        settle: Settle | None = None,
        least: Duration = LATE,
    ) -> Steps[tuple[Delivered | None, str]]:
        """Leases items; None when nothing came. And why `settle` was refused, if it was.

        A queue that is not there yet is waited for, like its items.
        """
        wait, refused = Wait(timeout, least), ""
        while True:
            get = Get(self.name, items_max, bytes_max, wait.patience, settle)
            weight = min(bytes_max, _WEIGHT_MAX)
            leased: Leased
            try:
                leased, asked = yield from self._ask(get, wait, _master, weight, make=False)
            except NoSuchQueue:
                if wait.over:
                    return None, refused
                yield Rest(min(_MISSING_PAUSE, wait.left))
                continue
            refused, settle = refused or leased.refused, None
            if not leased.token:
                return None, refused
            parts = leased.parts
            if leased.spans:
                parts = yield from self._complete(leased, bytes_max)
            if parts:
                ends = later(asked, leased.lease)
                delivered = Delivered(leased.token, parts, self._lease or leased.lease, ends)
                if (yield from self._held(delivered)):
                    return delivered, refused

    def _held(self, delivered: Delivered) -> Steps[bool]:
        """Whether a lease is held; one that was long on its way is extended, to know it.

        A lease says how much of it was left when it was told. That is counted from when it was
        asked for, since an answer may have lain anywhere for any time.
        """
        if delivered.ends - steady_now() > delivered.lease // 2:
            return True
        try:
            yield from self.extend(delivered)
        except LeaseLost:
            return False
        except SnowmeltError:
            pass  # it may be held; whoever works on it will see
        return True

    def _complete(self, leased: Leased, bytes_max: int) -> Steps[tuple[Part, ...]]:
        """The parts that came along and those fetched; what nobody can give goes back."""
        fetching = Fetching(self.name, bytes_max)
        yield from fetching.fetch(leased.spans)
        if fetching.unread:
            back = Settle(self.name, leased.token, back=runs(fetching.unread), reason=_DAMAGED)
            try:
                for one in _portions(back):
                    yield from self._ask(one, Wait(0), _master, make=False)
            except LeaseLost:
                return ()  # fetching took so long that all of them are others' by now
            except SnowmeltError:
                pass  # they go back when the lease ends
        return tuple(sorted((*leased.parts, *fetching.parts), key=lambda part: part.start))

    def ack(self, delivered: Delivered, where: Interval | None) -> Steps[None]:
        """These are done; nothing is sent when they are settled already."""
        delivered.check_process()
        done = delivered.open_in(where)
        if done:
            yield from self.settle(delivered, Settle(self.name, delivered.token, done=done))

    def give_back(
        self, delivered: Delivered, where: Interval | None, delay: float, reason: str
    ) -> Steps[None]:
        """These go back; without a reason it doesn't count as a delivery that failed."""
        delivered.check_process()
        back = delivered.open_in(where)
        if back:
            due, why = due_of(delay), shortened(reason)
            settle = Settle(self.name, delivered.token, back=back, due=due, reason=why)
            yield from self.settle(delivered, settle)

    def extend(self, delivered: Delivered) -> Steps[None]:
        """What is left of the lease lasts its whole time again."""
        delivered.check_process()
        yield from self.settle(delivered, Settle(self.name, delivered.token, extend=True))

    def get_after(
        self, before: Delivered | None, items_max: int, bytes_max: int, timeout: float
    ) -> Steps[Delivered | None]:
        """Leases items, and with the same call says that an earlier lease's are done."""
        if before is None:
            return (yield from self.get_many(items_max, bytes_max, timeout))[0]
        before.check_process()
        done = before.open_in(None)
        if len(done) > PIECES_MAX:  # more than one call may name
            yield from self.ack(before, None)
            done = ()
        settle = Settle(self.name, before.token, done=done) if done else None
        delivered, refused = yield from self.get_many(items_max, bytes_max, timeout, settle)
        if refused:
            before.lost = refused
        else:
            before.settled(done)
        return delivered

    def settle(self, delivered: Delivered, settle: Settle) -> Steps[None]:
        """Says something about a lease, and keeps the books of it."""
        if delivered.lost:
            raise LeaseLost(delivered.lost)
        for one in _portions(settle):
            try:
                _, asked = yield from self._ask(one, Wait(0), _master, make=False)
            except LeaseLost as error:
                delivered.lost = str(error)
                raise
            delivered.settled(one.done)
            delivered.settled(one.back)
            if one.extend:
                delivered.extended(asked)

    def empty(self, timeout: float) -> str:
        """What is said when nothing came."""
        why = "; there is no such queue yet, the first put makes it" if self.missing else ""
        return f"nothing came into {self.name} in {timeout:g} s{why}"

    def peek(self, count: int, dead: bool, timeout: float) -> Steps[list[Seen]]:
        """The first items, taking none of them."""
        seen: list[Seen] = []
        start = 0
        while len(seen) < count:
            ask = Peek(self.name, count - len(seen), PEEK_BYTES, start, dead)
            peeked: Peeked = yield from self.ask_about(ask, timeout, PEEK_BYTES)
            if not (peeked.parts or peeked.spans):
                break
            fetching = Fetching(self.name, BYTES_HIGHEST)
            yield from fetching.fetch(peeked.spans)
            parts = sorted((*peeked.parts, *fetching.parts), key=lambda part: part.start)
            for part in parts:
                seen += _shown(part)
            ends = [part.start + part_items(part) for part in peeked.parts]
            start = max(ends + [span.stop for span in peeked.spans])
        return seen

    # --- the queue as a whole ---------------------------------------------------------------------

    def purge(self, dead: bool, timeout: float) -> Steps[int]:
        """Removes what waits, or what is dead; how many."""
        changed: Changed = yield from self.ask_about(Purge(self.name, dead), timeout)
        return changed.items

    def pause(self, paused: bool, timeout: float) -> Steps[None]:
        """Stops handing out, or goes on."""
        yield from self.ask_about(Pause(self.name, paused), timeout)

    def redrive(self, per_second: int, timeout: float) -> Steps[int]:
        """Brings the dead back; how many."""
        changed: Changed = yield from self.ask_about(Redrive(self.name, per_second), timeout)
        return changed.items

    def stats(self, timeout: float) -> Steps[QueueStatus]:
        """How the queue is."""
        status: QueueStatus = yield from self.ask_about(Describe(self.name), timeout)
        return status

    # --- asking -----------------------------------------------------------------------------------

    def _ask(
        self,
        body: Any,
        wait: Wait,
        where: Callable[[Grant], NodeId],
        weight: int = 0,
        *,
        make: bool = True,
    ) -> Steps[tuple[Any, Instant]]:
        """Asks where the grant says, asking for that first if need be, until the time is over.

        Returns the answer, and when that was asked for which it answers. What did not happen since
        nobody was there for it, and what is open, is asked again: that is how a master's death
        looks until another has its place. Asking again is harmless, as each call names what it is
        about: a put its number, a word about items their lease.
        """
        going = Going(wait)
        while True:
            try:
                if self._grant is None:
                    yield from self._open(wait, make)
                    body = _in_time(body, wait)
                assert self._grant is not None
                began = steady_now()
                answer = yield Query(body, wait.left, where(self._grant), weight)
            except (DiskFull, OutcomeUnknown, Unavailable, Unreachable) as error:
                self._grant = None
                yield going.after(error)
            else:
                if steady_now() - began > FIRST_WAIT:  # somebody was silent, perhaps
                    self._grant = None
                return answer, began

    def _open(self, wait: Wait, make: bool) -> Steps[None]:
        try:
            opened: Opened = yield Query(Open(self.name, self._settings, make), wait.left)
        except NoSuchQueue:
            self.missing = True
            raise
        self._grant = Grant(contact(opened.master.address), contact(opened.store.address))
        self.missing, self._lease = False, opened.settings.lease

    def ask_store(self, body: Any, timeout: float, weight: int) -> Steps[Any]:
        """Asks the node that was granted for putting; the queue is made if it isn't there."""
        return (yield from self._ask(body, Wait(timeout), _store, weight))[0]

    def ask_about(self, body: Any, timeout: float, weight: int = 0) -> Steps[Any]:
        """Asks the master, through anybody when it isn't known: this makes no queue."""
        wait = Wait(timeout)
        if self._grant is None:
            return (yield from ask_anybody(body, wait, weight))
        return (yield from self._ask(body, wait, _master, weight, make=False))[0]


class Going:
    """Goes on asking after failures that may end, until the time is over."""

    def __init__(self, wait: Wait) -> None:
        self._wait = wait
        self._pause = _FIRST_PAUSE
        self._open: OutcomeUnknown | None = None

    def after(self, error: SnowmeltError) -> Rest:
        """How long to wait before it is asked again; raises when it is not to be.

        An attempt whose fate is open may yet happen: no refusal of a later one is definite then.
        """
        if isinstance(error, Closed | DiskFull) and self._open is None:
            raise error
        if isinstance(error, OutcomeUnknown):
            self._open = error
        left = self._wait.left
        if isinstance(error, Closed | DiskFull) or not left:
            raise self._open or error
        pause, self._pause = min(self._pause, left), min(2 * self._pause, _LONGEST_PAUSE)
        return Rest(pause)


def ask_anybody(body: Any, wait: Wait, weight: int = 0) -> Steps[Any]:
    """Asks whoever answers, and goes on until the time is over."""
    going = Going(wait)
    while True:
        try:
            return (yield Query(body, wait.left, None, weight))
        except (OutcomeUnknown, Unavailable, Unreachable) as error:
            yield going.after(error)


def _in_time(body: Any, wait: Wait) -> Any:
    """The same call, with the patience that is left."""
    if type(body) is Get or (type(body) is Put and not body.hold):
        return msgspec.structs.replace(body, patience=wait.patience)
    return body


def list_queues(timeout: float) -> Steps[list[str]]:
    """The names of all queues."""
    told = yield from ask_anybody(ListQueues(), Wait(timeout))
    return list(told.names)


def checked_count(option: str, value: int, highest: int) -> int:
    """A count from 1 to a bound; raises `BadOption`.

    >>> checked_count("items_max", 0, 10)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: items_max is 0; allowed: 1 to 10
    """
    if type(value) is int and 1 <= value <= highest:
        return value
    raise BadOption(option, value, f"1 to {highest}")


def due_of(delay: float) -> int:
    """So many seconds, as a call tells them: below 0, for no clock here may say when that is."""
    return -seconds_of("delay", delay, 0, _DELAY_SECONDS)


def _shown(part: Part) -> list[Seen]:
    return [
        Seen(body, Position(position), label_of(part, position)[1], part.failures, part.reason)
        for position, body in enumerate(part_bodies(part), start=part.start)
    ]
