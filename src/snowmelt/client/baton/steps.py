"""What can be asked of a baton, as steps (`connection.steps`): no socket, no thread, no wait.

An `AcquireRequest` asks under one ticket, at one node (`CurrentNode`), until it is granted or gives
up its place; a `BatonHold` is what comes of it.

1. A hold may be believed in until its lease is over, counted from when the last request that was
   answered well was *sent*: the node counts from when it came, which is never earlier. What is over
   once stays over, whatever an answer says that comes late.
2. It belongs to the process that asked for it, and to no child of that one.
3. A save that failed, or was broken off, may have come all the same. So a caller that began one
   says with the release which value goes on: the one that was set, or, when the holder failed, the
   one that was got, or last saved.
4. A release may be repeated, and means the same: one that is broken off is said again by another
   task or thread.
5. A wait ends 0.2 s after its time at most, an answer that is on its way counted in, and
   not before a second: what is free is had without waiting, and the way there takes a while.
"""

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from snowmelt.client.connection.forking import Origin
from snowmelt.client.connection.session import TIMEOUT, checked
from snowmelt.client.connection.steps import Query, Sleep, Steps
from snowmelt.client.connection.waits import within
from snowmelt.core.batch import Buffer
from snowmelt.core.errors import (
    BatonLost,
    Closed,
    NotGranted,
    OutcomeUnknown,
    SnowmeltError,
    Unavailable,
    Unreachable,
)
from snowmelt.core.instant import SECOND, Duration, Instant, later, seconds
from snowmelt.core.names import NodeId, contact
from snowmelt.protocols.baton import calls
from snowmelt.protocols.baton.settings import baton_name, baton_value
from snowmelt.protocols.calling import SLOWEST
from snowmelt.protocols.membership import GetStatus, Member, Status
from snowmelt.runtime.clock import seconds_until, steady_now

TURN_SECONDS: Final = 30.0
"""How long a baton is waited for where nothing else is said."""
ANSWER_SECONDS: Final = 2.0
"""How long an answer may be on its way, above the time the node itself is given."""
UNHURRIED: Final = int(SLOWEST * (calls.POLL / SECOND + ANSWER_SECONDS))
"""The weight of a call that only one node can answer, or that it may answer after `POLL`: silence
means nothing for longer than that and `ANSWER_SECONDS`, so nobody else is asked meanwhile."""
LATE_SECONDS: Final = 0.2
LEAST_SECONDS: Final = 1.0
KEEPS_IN_LEASE: Final = 5
KEEP_SECONDS: Final = 0.5
"""How long one request to keep may take: others wait behind it."""
SAVE_SECONDS: Final = 1.0
_PAUSE: Final = 0.05
_GOODBYE: Final = 0.05
_ASK_SECONDS: Final = 2.0


class BatonHold:
    """One hold of a baton: what was granted, what is to be passed on, and whether it is over."""

    def __init__(
        self,
        name: str,
        ticket: int,
        granted: calls.Granted,
        asked: Instant,
        origin: Origin | None = None,
    ) -> None:
        self.name = name
        self.ticket = ticket
        self.fence = granted.fence
        self.made = granted.made
        self.where: calls.HeldAt = granted.where
        self.lease = granted.lease
        self.until = later(asked, granted.lease)
        self.value = granted.value
        self.over = ""
        """Why it is over; nothing while it is held."""
        self.lost = False
        """Whether it ended in another way than by being given up."""
        self.settled = False
        """Whether no node needs to hear any more that it is over."""
        self.word: object = None
        """What is left when its holder is dropped; none is left any more once it is settled."""
        self._origin = origin or Origin()
        self._watching: list[Callable[[], None]] = []
        self._got = self._safe = granted.value
        self._safe_number = 0  # of the save that it was; 0 for what was got
        self._saves = 0
        self._last: calls.Release | None = None

    @property
    def seconds_left(self) -> float:
        """How long it may be believed in, if nothing more is heard."""
        return 0.0 if self.over or self._origin.left else seconds_until(self.until)

    @property
    def renewal(self) -> Instant:
        """When it is to be renewed."""
        return Instant(self.until - self.lease + self.lease // KEEPS_IN_LEASE)

    def look(self) -> None:
        """Finds out whether the lease is over by now, or this process never had it."""
        if not self.over and self._origin.left:
            # Whoever watches waits in the parent, and may hold a lock for ever here.
            self.lost, self._watching = True, []
            self._settle()
            self.over = f"baton {self.name!r} is held by the process that this one was forked from"
        if not self.over and steady_now() >= self.until:
            self.lose(f"baton {self.name!r} could not be renewed before its lease was over")

    def check(self) -> None:
        """Raises `BatonLost` when it is over."""
        self.look()
        if self.over:
            raise BatonLost(self.over)

    def lose(self, why: str) -> None:
        """It is another's by now, or may be."""
        if not self.over:
            self.lost = True
            self._end(why)

    def watch(self, told: Callable[[], None]) -> None:
        """Calls this once it is over, in whichever thread finds out; at once if it is."""
        self._watching.append(told)
        if self.over:
            told()

    def unwatch(self, told: Callable[[], None]) -> None:
        with suppress(ValueError):
            self._watching.remove(told)

    def set_value(self, value: Buffer) -> None:
        checked_value = baton_value(value)
        self.check()
        self.value = checked_value

    def keep(self) -> Steps[bool]:
        """Asks for another lease; whether there was an answer."""
        self.look()
        if self.over:
            return True
        keep = calls.Renew(self.name, self.ticket, self.fence, self.where)
        asked = steady_now()
        try:
            kept: calls.Renewed = yield Query(keep, KEEP_SECONDS, self.place, UNHURRIED)
        except BatonLost as error:
            self.lose(str(error))
        except SnowmeltError:
            self.look()
            return False
        else:
            self.kept(asked, kept.lease)
        return True

    def kept(self, asked: Instant, lease: Duration) -> None:
        """It was renewed, by a request that was sent then: rule 1."""
        self.until = max(self.until, later(asked, lease))

    def save(self, value: Buffer, timeout: float) -> Steps[None]:
        """Puts a value on the root's disk; the next holder gets it, if no other is set.

        No attempt takes long: renewals wait behind it, and a word that is lost between the nodes is
        not said again by them.
        """
        safe = baton_value(value)
        end = later(steady_now(), seconds(max(0.0, checked(timeout))))
        self.check()
        self._saves = number = self._saves + 1
        save = calls.SaveValue(self.name, self.ticket, self.fence, self.where, safe, number)
        while True:
            self.check()
            span = min(max(seconds_until(end), _PAUSE), SAVE_SECONDS)
            try:
                yield Query(save, span, self.place, UNHURRIED)
            except BatonLost as error:
                self.lose(str(error))
                raise
            except (OutcomeUnknown, Unavailable, Unreachable):
                if not seconds_until(end):
                    raise
            else:
                self._saved(number, safe)
                return
            yield Sleep(_PAUSE)

    def _saved(self, number: int, value: bytes) -> None:
        """Of two at a time the later one counts, whichever is answered first."""
        if number > self._safe_number:
            self.value = self._safe = value
            self._safe_number = number

    def release(self, *, changed: bool = True) -> Steps[None]:
        """Gives it up, with the value that was set; unless `changed`, with the one last safe."""
        self.check()
        left = max(self.seconds_left, KEEP_SECONDS)
        release = self._given_up(changed=changed)
        try:
            yield Query(release, left, self.place, UNHURRIED)
        except BatonLost as error:
            self.lost, self.over = True, str(error)
            self._settle()
            raise
        except Unreachable as error:
            self.lost = True
            self.over = f"baton {self.name!r} could not be given up before its lease was over"
            raise BatonLost(f"{self.over}: {error}") from error
        self._settle()

    def give_back(self) -> Steps[None]:
        """Nobody has it any more: it goes on at once, if a node can be told; else with its lease.

        What was broken off is said again (rule 4); a holder that vanished has failed.
        """
        self.look()
        if self.settled:
            return
        release = self._last or self._given_up(changed=False)
        self._settle()
        with suppress(SnowmeltError):
            yield Query(release, KEEP_SECONDS, self.place, UNHURRIED)

    def _settle(self) -> None:
        self.settled, self.word = True, None

    def _given_up(self, *, changed: bool) -> calls.Release:
        """It is over from now on, whether or not a node hears of it. Rule 3."""
        value = self.value if changed else self._safe
        passed = value if self._saves or value != self._got else None
        self._last = calls.Release(self.name, self.ticket, self.fence, self.where, passed)
        if not self.over:
            self._end(f"baton {self.name!r} was given up already")
        return self._last

    @property
    def place(self) -> NodeId:
        return contact(self.where.address)

    def _end(self, why: str) -> None:
        self.over = why
        for told in list(self._watching):
            told()


def keep_many(holds: Sequence[BatonHold]) -> Steps[bool]:
    """Asks for another lease of all these, which are at one node; whether there was an answer."""
    for hold in holds:
        hold.look()
    kept = [one for one in holds if not one.over]
    if not kept:
        return True
    where = kept[0].where
    holdings = tuple(calls.Holding(one.name, one.ticket, one.fence) for one in kept)
    asked = steady_now()
    try:
        query = Query(calls.RenewMany(holdings, where), KEEP_SECONDS, kept[0].place, UNHURRIED)
        told: calls.RenewedMany = yield query
    except BatonLost as error:
        told = calls.RenewedMany(Duration(0), tuple((at, str(error)) for at in range(len(kept))))
    except SnowmeltError:
        for hold in kept:
            hold.look()
        return False
    lost = dict(told.lost)
    for at, hold in enumerate(kept):
        if at in lost:
            hold.lose(f"baton {hold.name!r} is lost: {lost[at]}")
        else:
            hold.kept(asked, told.lease)
    return True


def new_ticket() -> int:
    """One that nobody else has."""
    return secrets.randbits(63)


class CurrentNode:
    """The node that a client asks for turns: one that was current when it was last looked for.

    It is kept, for a place in the line is a place at one node.
    """

    def __init__(self) -> None:
        self._target: NodeId | None = None

    def target(self) -> Steps[NodeId]:
        """It, looked for when it is not known."""
        return self._target or (yield from self.find())

    def find(self) -> Steps[NodeId]:
        """The same again, or another when that one is silent or cut off."""
        before, self._target = self._target, None
        status: Status = yield Query(GetStatus(), ANSWER_SECONDS, before)
        view = status.view
        if view is None:
            raise Unavailable(f"{status.node} has had no view of the cluster yet")
        member = view.member(status.node if status.standing == "current" else view.coordinator)
        if member is None:
            raise Unavailable(f"{status.node} is not in the cluster's view")
        self._target = contact(member.address)
        return self._target


class AcquireRequest:
    """One wish for a baton; its place in the line is that of its ticket."""

    def __init__(
        self, home: CurrentNode, name: str, timeout: float, tickets: Callable[[], int] = new_ticket
    ) -> None:
        self.open = False
        """Whether a node may know of it."""
        self._home = home
        self._name = name
        self._timeout = max(0.0, checked(timeout))
        self._tickets = tickets
        self._ticket = tickets()
        self._origin = Origin()  # whoever asked: a child that goes on from here holds nothing
        self._target: NodeId | None = None

    def granted(self) -> Steps[BatonHold]:
        """Asks until it is granted, or the time is over: rule 5."""
        longest = max(self._timeout + LATE_SECONDS, LEAST_SECONDS)
        try:
            return (yield from within(self._granted(), longest))
        except OutcomeUnknown as error:
            raise self._refusal(error) from None

    def _granted(self) -> Steps[BatonHold]:
        end = later(steady_now(), seconds(self._timeout))
        look = self._home.target
        while True:
            failure: SnowmeltError | None = None
            try:
                yield from self._go(look())
                hold = yield from self._ask(Duration(max(0, end - steady_now())))
            except BatonLost:  # it was granted, and nobody here heard of that in time
                self._ticket = self._tickets()
                continue
            except Closed:
                raise
            except (OutcomeUnknown, Unavailable, Unreachable) as error:
                failure = error
            else:
                if hold is not None:
                    return hold
            look = self._home.find
            if not seconds_until(end):
                if failure is None:  # else nobody would answer this in time either
                    yield from self.withdraw()
                raise self._refusal(failure)
            if failure is not None:
                yield Sleep(_PAUSE)

    def _go(self, looked: Steps[NodeId]) -> Steps[None]:
        """To the node to be asked. One that is left is told: it would give a turn to nobody."""
        left, self._target = self._target, (yield from looked)
        if self.open and left is not None and left != self._target:
            release = calls.Release(self._name, self._ticket, 0, None, None)
            with suppress(SnowmeltError):
                yield Query(release, _GOODBYE, left, UNHURRIED)

    def withdraw(self) -> Steps[None]:
        """Gives up the place, and a grant that comes all the same; if nobody hears it, it lapses.

        `open` stays true then, and the owner of the connection should end it.
        """
        if not self.open:
            return
        release = calls.Release(self._name, self._ticket, 0, None, None)
        try:
            yield Query(release, ANSWER_SECONDS, self._target, UNHURRIED)
        except BatonLost:
            pass  # that is all that was wanted
        except SnowmeltError:
            return
        self.open = False

    def _ask(self, left: Duration) -> Steps[BatonHold | None]:
        """Waits for as long as a node lets one wait; None when it is not granted."""
        wait = min(left, calls.POLL)
        asked = steady_now()
        self.open = True
        acquire = calls.Acquire(self._name, self._ticket, wait)
        answer: calls.Granted | calls.Queued
        answer = yield Query(acquire, wait / SECOND + ANSWER_SECONDS, self._target, UNHURRIED)
        if type(answer) is not calls.Granted:
            return None
        hold = BatonHold(self._name, self._ticket, answer, asked, self._origin)
        if steady_now() < hold.renewal:
            return hold
        yield from hold.keep()  # it took long, and little may be left of the lease
        hold.look()
        if hold.over:
            yield from self.withdraw()
            raise BatonLost(hold.over)
        return hold

    def _refusal(self, failure: SnowmeltError | None) -> SnowmeltError:
        if isinstance(failure, Unavailable | Unreachable):
            return failure
        why = f" ({failure})" if failure is not None else ""
        return NotGranted(f"no turn within {self._timeout:g} s at baton {self._name!r}{why}")


class MemberAnswer(msgspec.Struct, frozen=True):
    """How a member of the cluster sees a baton."""

    member: Member
    status: calls.BatonStatus | None
    """None when it did not answer."""


def sights(name: str, timeout: float = TIMEOUT) -> Steps[list[MemberAnswer]]:
    """How each member sees a baton, in the order of the view."""
    get = calls.GetBaton(baton_name(name))
    end = later(steady_now(), seconds(max(0.0, checked(timeout))))
    found: list[MemberAnswer] = []
    for member in (yield from _members(end)):
        told: calls.BatonStatus | None = None
        with suppress(SnowmeltError):  # that it says nothing is what is told of it
            told = yield _asked_of(member, get, end)
        if told is not None and told.node != member.id:
            told = None  # another answered in its place
        found.append(MemberAnswer(member, told))
    return found


def statuses(name: str, timeout: float) -> Steps[list[calls.BatonStatus]]:
    """How those members see a baton that answer."""
    seen = yield from sights(name, timeout)
    return [one.status for one in seen if one.status is not None]


def list_batons(timeout: float = TIMEOUT) -> Steps[list[str]]:
    """The names of all batons that some member knows of, in order."""
    end = later(steady_now(), seconds(max(0.0, checked(timeout))))
    names = set[str]()
    for member in (yield from _members(end)):
        after = ""
        while True:
            told: calls.BatonNames = yield _asked_of(member, calls.ListBatons(after), end)
            names.update(told.names)
            if not told.names or told.names[-1] <= after:
                break
            after = told.names[-1]
    return sorted(names)


def _members(end: Instant) -> Steps[tuple[Member, ...]]:
    status: Status = yield Query(GetStatus(), seconds_until(end))
    if status.view is None:
        raise Unavailable(f"{status.node} has had no view of the cluster yet")
    return status.view.members


def _asked_of(member: Member, body: calls.GetBaton | calls.ListBatons, end: Instant) -> Query:
    return Query(body, min(_ASK_SECONDS, seconds_until(end)), contact(member.address))
