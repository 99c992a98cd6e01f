"""What is asked about leased items, as steps.

Items, loops and their renewals know a queue by `LeaseSteps` alone: how items are leased, and how an
update about them is sent. What else a queue is asked stands on top of it (`fifo/`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from snowmelt.client.connection.steps import Query, Sleep, Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.leases.delivered import (
    LateRefusal,
    LeasedItems,
    label_of,
    part_bodies,
    position_of,
    priority_of,
    put_at_of,
    shortened,
)
from snowmelt.client.queue.options import seconds_of
from snowmelt.core.errors import (
    LEASE_ENDED,
    BadOption,
    Closed,
    DiskFull,
    LeaseLost,
    OutcomeUnknown,
    SnowmeltError,
    Unavailable,
    Unreachable,
)
from snowmelt.core.headers import Headers
from snowmelt.core.instant import Duration, Instant
from snowmelt.core.interval import Interval, Position
from snowmelt.protocols.queue.api.calls import ItemRun
from snowmelt.protocols.queue.api.settings import DELAY_LONGEST, LEASE_LONGEST
from snowmelt.runtime.clock import steady_now

BYTES_MAX: Final = 16 << 20
BYTES_HIGHEST: Final = 64 << 20
ITEMS_HIGHEST: Final = 1_000_000
PIECES_MAX: Final = 16_384
"""So many intervals one call names at most."""
_DELAY_SECONDS: Final = DELAY_LONGEST / 1e9
_LEASE_SECONDS: Final = LEASE_LONGEST / 1e9
_FIRST_PAUSE: Final = 0.05
_LAST: Final = 0.1
"""With fewer seconds left nobody is asked again who said why not: he could not answer in time."""
_LONGEST_PAUSE: Final = 1.0


class LeaseUpdate(msgspec.Struct, frozen=True):
    """An update of a lease: these are done, those go back, and the rest is worked on still."""

    token: int
    done: tuple[Interval, ...] = ()
    back: tuple[Interval, ...] = ()
    delay: Duration = Duration(0)
    """For how long what goes back is held."""
    reason: str = ""
    """Why it goes back; empty when nothing failed."""
    extend: bool = False
    dead: bool = False
    """What failed is not delivered again."""
    lease: Duration = Duration(0)
    """For how long it is extended; 0: as before."""
    alone: tuple[Interval, ...] = ()
    """Only these are extended."""


class LeaseOptions(msgspec.Struct, frozen=True):
    """How items are leased."""

    length: Duration = Duration(0)
    """For how long; 0: as the queue is set."""
    together: bool = False
    """Whether several of one key may come at once, where they are in order."""


class ReturnOptions(msgspec.Struct, frozen=True):
    """How items go back."""

    delay: float = 0.0
    """For so many seconds nobody gets them."""
    reason: str = ""
    """Without one it doesn't count as a delivery that failed."""
    dead: bool = False


class Seen(msgspec.Struct, frozen=True):
    """An item as `peek` shows it: nobody's, and still in the queue."""

    body: bytes
    position: Position
    headers: Headers
    failures: int
    """How many deliveries of it failed."""
    reason: str
    """Why the last of those deliveries failed."""
    priority: int | float = 0
    put_at: datetime | None = None
    """When it was put, by the clock of the node that took it."""
    key: bytes | None = None
    left: float = 0.0
    """Of one that is leased, or delayed: for so many seconds still."""
    held: float = 0.0
    """For how many seconds it has been leased, as the queue's leader knows it."""
    program: str = ""
    """Which program has it; nothing where none does, or where you may not know it."""
    pid: int = 0
    host: str = ""


Heard: TypeAlias = Callable[[LateRefusal | None], object]
"""Hears that an update was sent, and whether it came too late."""
_NOBODY: Final[Heard] = bool
AS_SET: Final = LeaseOptions()
RELEASED: Final = ReturnOptions()


class LeaseReply(msgspec.Struct, frozen=True):
    leased: Any
    """In the words of its protocol; without a token when there is nothing."""
    asked: Instant
    """When that was asked for which it answers."""
    late: LateRefusal | None = None
    """Whether the update that was sent with it came too late."""


class LeaseSteps(ABC):
    """One queue as its items, loops and renewers know it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.missing = False
        """Whether there was no such queue when it was last asked for."""
        self.copies = 0
        """On how many nodes the last put was when it was answered; 0 before one was."""
        self.away = 0
        """How many items nobody could have, when it was last asked: their nodes are away."""
        self.deliveries_max = 0
        """How often the delivery of an item may fail; 0 until that was heard."""

    @abstractmethod
    def ask_lease(
        self,
        items_max: int,
        bytes_max: int,
        wait: Wait,
        word: LeaseUpdate | None = None,
        *,
        ahead: bool,
        before: int,
        how: LeaseOptions = AS_SET,
    ) -> Steps[LeaseReply | None]:
        """Asks for items once, and sends `word` first; None when there was no queue in time.

        What is leased `ahead` waits for its turn (`suspects.py`). With the place of an item, only
        what is more urgent is leased, and nobody waits for that; -1 for any.
        """

    @abstractmethod
    def delivered(self, leased: Any, asked: Instant, bytes_max: int) -> Steps[LeasedItems | None]:
        """What an answer leased, to be handed out; None when it was lost on its way."""

    @abstractmethod
    def tell(
        self, delivered: LeasedItems, word: LeaseUpdate
    ) -> Steps[tuple[Instant, LateRefusal | None]]:
        """Sends one update; returns when the answered request was sent, and what was too late."""

    @abstractmethod
    def tell_done(self, word: LeaseUpdate, wait: Wait) -> Steps[LateRefusal | None]:
        """Acknowledges items of a lease; returns what came too late."""

    def lease(  # noqa: PLR0913 - what a get says, and what goes with it
        self,
        items_max: int,
        bytes_max: int,
        wait: Wait,
        word: LeaseUpdate | None = None,
        heard: Heard = _NOBODY,
        *,
        ahead: bool = False,
        before: int = -1,
        how: LeaseOptions = AS_SET,
    ) -> Steps[tuple[LeasedItems | None, LateRefusal | None]]:
        """Leases items; None when nothing came. And whether `word`, sent first, came too late.

        The caller hears that nothing came when the time is over, and not before
        (`connection/waits.py`).

        An update that arrived counts. When the items that came with it were lost, and no more can
        be asked for, that is no failure: the caller would take it for a failed update. An interrupt
        is raised even so; `heard` is called before.
        """
        late: LateRefusal | None = None
        told = False
        while True:
            try:
                left = None if told else word
                answer = yield from self.ask_lease(
                    items_max, bytes_max, wait, left, ahead=ahead, before=before, how=how
                )
                if not told:
                    late, told = None if answer is None else answer.late, True
                    heard(late)
                if answer is None or not answer.leased.token:
                    if answer is not None and not wait.over:
                        continue
                    yield from wait.out()
                    return None, late
                delivered = yield from self.delivered(answer.leased, answer.asked, bytes_max)
                if delivered is not None and how.length:
                    delivered.lease = how.length
                if delivered is not None and (yield from self.held(delivered)):
                    return delivered, late
                if self.away and wait.over:
                    yield from wait.out()
                    return None, late
            except SnowmeltError:
                if word is not None and told:
                    return None, late
                raise

    def get_after(
        self,
        before: LeasedItems | None,
        items_max: int,
        bytes_max: int,
        timeout: float,
        how: LeaseOptions = AS_SET,
    ) -> Steps[LeasedItems | None]:
        """Leases items, and with the same call says that an earlier lease's are done."""
        if before is None:
            wait = Wait(timeout)
            return (yield from self.lease(items_max, bytes_max, wait, how=how))[0]
        before.check_process()
        done = before.open_in(None)
        if len(done) > PIECES_MAX:  # more than one call may name
            yield from self.ack(before, None)
            done = ()
        word = LeaseUpdate(before.token, done=done) if done else None
        heard = partial(self.noted, before, done)
        asks = self.lease(items_max, bytes_max, Wait(timeout), word, heard, how=how)
        return (yield from asks)[0]

    def ack(self, delivered: LeasedItems, where: Interval | None) -> Steps[None]:
        """These are done; nothing is sent when they are settled already."""
        delivered.check_process()
        done = delivered.open_in(where)
        if done:
            yield from self.settle(delivered, LeaseUpdate(delivered.token, done=done))
        delivered.check_kept(where)

    def give_back(
        self, delivered: LeasedItems, where: Interval | None, how: ReturnOptions = RELEASED
    ) -> Steps[None]:
        """These go back."""
        delivered.check_process()
        back = delivered.open_in(where)
        if back:
            delay, reason = delay_of(how.delay), shortened(how.reason)
            dead = checked_flag("dead", how.dead)
            word = LeaseUpdate(delivered.token, back=back, delay=delay, reason=reason, dead=dead)
            yield from self.settle(delivered, word)

    def extend(self, delivered: LeasedItems, lease: float | None = None) -> Steps[None]:
        """What is left of the lease lasts its whole time again, or so many seconds."""
        delivered.check_process()
        length = lease_of(lease)
        yield from self._pass_on(delivered)
        if length:
            delivered.lease = length
        yield from self.settle(delivered, LeaseUpdate(delivered.token, extend=True, lease=length))

    def extend_alone(self, delivered: LeasedItems, where: Interval, lease: float) -> Steps[None]:
        """These of a lease end so many seconds from now; the others when they would have."""
        delivered.check_process()
        word = LeaseUpdate(delivered.token, lease=lease_of(lease), alone=delivered.open_in(where))
        if word.alone:
            _, refused = yield from self.tell(delivered, word)
            if refused is not None:  # what came with it may be held still
                delivered.refused(LateRefusal(refused.why, word.alone))
                raise LeaseLost(refused.why)
        delivered.check_kept(where)

    def _pass_on(self, delivered: LeasedItems) -> Steps[None]:
        """Nodes extend a lease as a whole: what is others' and not extended by them goes back."""
        overdue, back = delivered.overdue(steady_now())
        if not back:
            return
        try:
            yield from self.tell(
                delivered, LeaseUpdate(delivered.token, back=back, reason=LEASE_ENDED)
            )
        except SnowmeltError:
            return  # with the next extension, then
        delivered.passed_on(overdue)

    def settle(self, delivered: LeasedItems, word: LeaseUpdate) -> Steps[None]:
        """Says something about a lease; raises `LeaseLost` when it came too late."""
        refused = yield from self.told(delivered, word)
        if refused is not None:
            raise LeaseLost(refused.why)

    def told(self, delivered: LeasedItems, word: LeaseUpdate) -> Steps[LateRefusal | None]:
        """Sends an update of a lease, and notes the outcome; returns what came too late."""
        if delivered.lost:
            return LateRefusal(delivered.lost)
        late: LateRefusal | None = None
        for one in portions(word):
            asked, refused = yield from self.tell(delivered, one)
            if refused is not None:
                delivered.refused(refused)
                if refused.lost is None:
                    return refused
                late = both(late, refused)
            delivered.settled(one.done)
            delivered.settled(one.back)
            if one.extend:
                delivered.extended(asked)
        return late

    def noted(
        self, delivered: LeasedItems, done: tuple[Interval, ...], refused: LateRefusal | None
    ) -> LateRefusal | None:
        """Notes what was acknowledged; returns which of it came too late."""
        mine = refused
        if refused is not None and refused.lost is not None:  # it may be about others'
            lost = refused.of(done)
            mine = LateRefusal(refused.why, lost) if lost else None
        if mine is not None:
            delivered.refused(mine)
        if not delivered.lost:
            delivered.settled(done)
        return mine

    def held(self, delivered: LeasedItems) -> Steps[bool]:
        """Whether a lease is held; one that was long on its way is extended, to know it.

        A lease says how much of it was left when the answer was sent. That is counted from when it
        was asked for, since an answer may have lain anywhere for any time.
        """
        if delivered.ends - steady_now() > delivered.lease // 2:
            return True
        try:
            yield from self.extend(delivered)
        except LeaseLost:
            return delivered.left.total > 0 and not delivered.lost
        except SnowmeltError:
            pass  # it may be held; whoever works on it will see
        return True

    def empty(self, timeout: float) -> str:
        why = f"; {self.away} items wait for nodes that are away" if self.away else ""
        why = "; there is no such queue yet, the first put makes it" if self.missing else why
        return f"nothing came into {self.name} in {max(timeout, 0.0):g} s{why}"


def both(one: LateRefusal | None, other: LateRefusal) -> LateRefusal:
    """What came too late of two words."""
    if one is None:
        return other
    if one.lost is None or other.lost is None:
        return LateRefusal(one.why)
    return LateRefusal(one.why, (*one.lost, *other.lost))


def portions(word: LeaseUpdate) -> Iterator[LeaseUpdate]:
    """In as many calls as it takes, since one names no more than so many intervals.

    >>> one = LeaseUpdate(7, done=(Interval(0, 1),), back=(Interval(2, 3),), extend=True)
    >>> list(portions(one)) == [one]
    True
    """
    if len(word.done) + len(word.back) <= PIECES_MAX:
        yield word
        return
    extend = word.extend  # with the first: the others take their time
    for at in range(0, len(word.done), PIECES_MAX):
        done = word.done[at : at + PIECES_MAX]
        yield msgspec.structs.replace(word, done=done, back=(), extend=extend)
        extend = False
    for at in range(0, len(word.back), PIECES_MAX):
        back = word.back[at : at + PIECES_MAX]
        yield msgspec.structs.replace(word, done=(), back=back, extend=extend)
        extend = False


class CallRetries:
    """Goes on asking after failures that may end, until the time is over."""

    def __init__(self, wait: Wait) -> None:
        self._wait = wait
        self._pause = _FIRST_PAUSE
        self._open: OutcomeUnknown | None = None
        self._said: Unavailable | None = None
        """Why it did not happen, by a node's last answer: it says more than that time is over."""

    def after(self, error: SnowmeltError, *, eager: bool = False) -> Sleep:
        """How long to wait before it is asked again; raises when it is not to be.

        An `eager` one does not wait for nodes that are away.

        An attempt whose fate is open may yet happen: no refusal of a later one is definite then.
        """
        at_once = Closed | DiskFull | Unavailable if eager else Closed | DiskFull
        if isinstance(error, at_once) and self._open is None:
            raise error
        if isinstance(error, OutcomeUnknown):
            self._open = error
        if isinstance(error, Unavailable):
            self._said = error
        left = self._wait.left
        if isinstance(error, Closed | DiskFull) or left <= (_LAST if self._said else 0):
            if self._open is None or self._said is None:
                raise self._open or self._said or error
            raise OutcomeUnknown(f"{self._open}; {self._said}")
        pause, self._pause = min(self._pause, left), min(2 * self._pause, _LONGEST_PAUSE)
        return Sleep(min(pause, left - _LAST / 2) if self._said else pause)


def ask_anybody(body: Any, wait: Wait, weight: int = 0) -> Steps[Any]:
    """Asks any node that answers, and goes on until the time is over."""
    going = CallRetries(wait)
    while True:
        try:
            return (yield Query(body, wait.left, None, weight))
        except (OutcomeUnknown, Unavailable, Unreachable) as error:
            yield going.after(error)


def checked_flag(option: str, value: object) -> bool:
    """Anything that is true or false; raises `BadOption` for what is neither, as an array is."""
    try:
        return bool(value)
    except ValueError:
        raise BadOption(option, value, "True or False") from None


def checked_count(option: str, value: int, highest: int) -> int:
    """A count from 1 to a bound; raises `BadOption`.

    >>> checked_count("items_max", 0, 10)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: items_max is 0; allowed: 1 to 10
    """
    if type(value) is int and 1 <= value <= highest:
        return value
    raise BadOption(option, value, f"1 to {highest}")


def lease_of(lease: float | None) -> Duration:
    """How long a lease is to last; 0 where nothing is said.

    >>> lease_of(None), lease_of(2.5)
    (0, 2500000000)
    """
    return Duration(0) if lease is None else seconds_of("lease", lease, 0.1, _LEASE_SECONDS)


def delay_of(delay: float) -> Duration:
    """So many seconds, from when it is sent; raises `BadOption`."""
    return seconds_of("delay", delay, 0, _DELAY_SECONDS)


def shown(parts: Sequence[ItemRun]) -> list[Seen]:
    """All items of some parts, for `peek`."""
    return [
        Seen(
            body,
            Position(position_of(place)),
            headers,
            part.failures,
            part.reason,
            priority_of(part, place),
            put_at_of(part, place),
            key,
        )
        for part in parts
        for place, body in enumerate(part_bodies(part), start=part.start)
        for key, headers in (label_of(part, place),)
    ]
