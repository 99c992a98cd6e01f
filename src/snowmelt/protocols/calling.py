"""How clients call nodes: the one client machine, and the messages every family shares.

Theory of operation
-------------------
A client is a machine too. It numbers its calls, keeps asking until it is answered or its patience
ends, and asks elsewhere when one node stays silent. Every family gets the same rules:

1. A call is `Call(number, body)`; its answer is `Answer(number, body)`. Client and number together
   are the operation id, which never changes while the client asks again. A node does the work of
   one operation once (see `core.node`, rule 7).
2. Silence is answered by asking again, after a wait that doubles, at the next target in turn. A
   node that stands still is missed after some four seconds by default, and only then somebody else
   can answer: so round that time it is asked more often, and after it seldom. A call may name who
   is to be asked first; and one that is long on its way is asked again at fewer of these moments.
   Nor is it silence yet when all answers took long of late: nodes that have too much to do would
   have more of it, and whoever else is asked can do nothing before the first is missed. One that
   came quickly says that the others had to wait for something, as gets do, and not for the node.
   Nor while the target answers other calls: then silence begins with its last answer. What was lost
   on the way there is asked again all the same, `LONGEST_WAIT` after it was sent.
   Nor while bytes of one message still come from the target, or go there: a large body on a slow
   link would be sent anew, and hold up all behind it. What comes is waited for beyond its time, for
   `LONGEST_MOVE` at most: an item whose body is given up half-way would be leased to nobody.
   When whoever runs the machine knows that the way to the target has ended, that is no silence: the
   next is asked almost at once, and a little later each time.
3. `Elsewhere` says who can answer; the client asks there at once, and counts these steps, so that
   two nodes that point at each other can't keep it busy.
4. `Declined` is definite: the operation did not happen and will not. The client gives up at once.
   Only "unavailable" or "the disk is full" from a second node says nothing of what the first may
   do: the next is asked soon, and later each time, up to the wait of a silence. The next call goes
   to another node than the one that said so: it may be cut off, and say so for long.
5. When patience ends first the outcome is `Unknown`: a call that was sent may yet take effect.
6. A call that nobody waits for any more is not sent again: it could come after one that undoes it.
7. `AskAnother` promises nothing: that node had the call, and can't learn what becomes of it. It is
   as if the way there had ended. That node may be the first to know that it is cut off, so others
   point at it for a while yet, and it says "unavailable" (rule 4).
"""

from contextlib import suppress
from enum import Enum
from random import Random
from typing import Final, Generic, TypeVar

import msgspec

from snowmelt.core.ahead import Label, Text, Whole
from snowmelt.core.instant import SECOND, Duration, Instant, later, milliseconds, seconds
from snowmelt.core.names import Address, NodeId, NodeName, OperationId, contact
from snowmelt.core.node import (
    Announced,
    Effect,
    Event,
    Expired,
    Received,
    Reply,
    Requested,
    Send,
    SetTimer,
)
from snowmelt.core.outcome import Failed, Outcome, Succeeded, Unknown

B_co = TypeVar("B_co", covariant=True)

WAITS: Final = tuple(milliseconds(one) for one in (500, 1_000, 2_000, 900, 400, 400, 400, 2_000))
"""How long the silence of each asking lasts before the next (rule 2), all told 7.6 s."""
FIRST_WAIT: Final = WAITS[0]
LONGEST_WAIT: Final = seconds(5)
"""The same of all that follow."""
NO_TIME: Final = Duration(0)
LOST_WAIT: Final = milliseconds(10)
LOST_LONGEST: Final = milliseconds(80)
SLOW_FIRST: Final = milliseconds(60)
"""The first answer that takes longer is believed to take so long, and the next ones more."""
SLOW_MOST: Final = seconds(2)
"""Answers that take longer are waited for as if they took so long: then the next asking is the one
before a silent node is missed."""
SLOWEST: Final = 4 << 20  # bytes a second; whoever is slower is asked again while it still works
LONGEST_MOVE: Final = seconds(120)
"""So long at most bytes that move are waited for."""
STEPS_MAX: Final = 8
LOCAL: Final = ("Unavailable", "DiskFull")
"""Refusals that speak for the one node that says them."""


class Call(msgspec.Struct, Generic[B_co], frozen=True, tag="call", array_like=True, gc=False):
    """A client asks. The client is whoever the message comes from."""

    number: Whole
    body: B_co


class Answer(msgspec.Struct, Generic[B_co], frozen=True, tag="answer", array_like=True, gc=False):
    """A node answers the call of this number."""

    number: Whole
    body: B_co


class Elsewhere(msgspec.Struct, frozen=True, tag="elsewhere", array_like=True):
    """In an answer's body: this node can't answer, that one can."""

    node: NodeName
    address: Address


class AskAnother(msgspec.Struct, frozen=True, tag="ask-another", array_like=True):
    """In an answer's body: this node can't answer any more. What was asked may have happened."""


class Declined(msgspec.Struct, frozen=True, tag="declined", array_like=True):
    """In an answer's body: it did not happen. `error` is a name from `core.errors`."""

    error: Label
    text: Text


class Gone(msgspec.Struct, frozen=True):
    """A fact that whoever runs a node announces to it: no connection of this client is open now.

    What waits here for this client has nobody to go to. It may live on all the same, and then asks
    again, under the same number.
    """

    client: NodeId


class Came(msgspec.Struct, frozen=True):
    """A fact that whoever runs a node announces to it: a client has a connection from now on."""

    client: NodeId
    payer: str
    """Who pays for what it asks: a user, or where one token is for all, a host."""


class Payers:
    """Who pays for each client; nobody for those within this process.

    >>> payers, ann = Payers(), NodeId("c-ann")
    >>> payers.hear(Came(ann, "shop")); payers.of(ann), payers.of(NodeId("c-bob"))
    ('shop', '')
    """

    def __init__(self) -> None:
        self._of: dict[NodeId, str] = {}

    def hear(self, fact: Came | Gone) -> None:
        match fact:
            case Came(client, payer):
                self._of[client] = payer
            case Gone(client):
                self._of.pop(client, None)

    def of(self, client: NodeId) -> str:
        return self._of.get(client, "")


class Lost(msgspec.Struct, frozen=True):
    """A fact that whoever runs a client announces to it: the way to this target has ended.

    What was asked there may have arrived or not; it is asked again soon, of another.
    """

    target: NodeId
    reached: bool = True
    """Whether there was a way: else nothing can have arrived."""


class Moving(msgspec.Struct, frozen=True):
    """A fact that whoever runs a client announces to it: part of a message came, or left.

    It is said at any time before the next part comes or leaves.
    """

    target: NodeId
    comes: bool


class Abandoned(msgspec.Struct, frozen=True):
    """A fact that whoever runs a client announces to it: nobody waits for this call any more."""

    operation: OperationId


class Ask(msgspec.Struct, Generic[B_co], frozen=True, tag=True):
    """What a person hands to the client machine: a body, and how long to wait for its answer."""

    body: B_co
    patience: Duration
    target: NodeId | None = None
    """Whom to ask first, who need not be one of the usual targets; None for whoever answered."""
    weight: int = 0
    """About how many bytes travel, there or back: large ones are given longer."""

    @property
    def longer(self) -> Duration:
        """How long silence means nothing.

        >>> Ask("hello", seconds(9)).longer, Ask("hello", seconds(9), weight=8 << 20).longer
        (0, 2000000000)
        """
        return Duration(self.weight * SECOND // SLOWEST)


class CallTimer(Enum):
    NEXT = "call.next"


class _Pending(msgspec.Struct):
    body: object
    asked: Instant
    deadline: Instant
    resend: Instant
    wait: Duration
    target: NodeId
    longer: Duration
    """For so long silence means nothing."""
    following: int
    """Which of `WAITS` is next."""
    sent: Instant
    """When it was asked there."""
    steps: int = 0
    silences: int = 0
    losses: int = 0
    lost: bool = False
    """Whether the target can't answer it any more, as is known: the way there has ended, or so."""
    unasked: int = 0
    """How often there was no way to the target."""
    said: str = ""
    """Why a later one could not do it: it tells more than that nobody answered (rule 4)."""

    @property
    def again(self) -> bool:
        """Whether more than one was asked: then one refusal does not speak for all."""
        return self.silences + self.losses > self.unasked


def _wait(first: int, longer: Duration) -> tuple[Duration, int]:
    """How long the silence of an asking lasts, and which of `WAITS` is next.

    What is long on its way skips askings: those round the time when silence is missed are kept.

    >>> [_wait(at, seconds(1)) for at in (0, 2, 3, 5)]
    [(1500000000, 2), (2000000000, 3), (1300000000, 5), (2800000000, 8)]
    """
    wait, at = 0, first
    while wait <= longer:
        wait, at = wait + (WAITS[at] if at < len(WAITS) else LONGEST_WAIT), at + 1
    return Duration(wait), at


def _ask_soon(
    pending: _Pending, now: Instant, longest: Duration, least: Duration = NO_TIME
) -> None:
    """Who was asked is waited for no more; the next is asked, and later each time."""
    wait = max(min(LOST_WAIT << min(pending.losses, STEPS_MAX), longest), least)
    pending.lost = True
    pending.resend = min(pending.resend, later(now, Duration(wait)))


class Caller:
    """The client machine. `Requested(operation, Ask(…))` in, `Reply(operation, Outcome)` out.

    >>> caller = Caller([NodeId("n1")], Random(0))
    >>> operation = OperationId(NodeId("c1"), 1)
    >>> caller.handle(Requested(operation, Ask("hello", seconds(9))), Instant(0))[0]
    Send(target='n1', message=Call(number=1, body='hello'))
    >>> caller.handle(Received(NodeId("n1"), Answer(1, "hi")), Instant(1))
    [Reply(operation=OperationId(client='c1', number=1), message=Succeeded(value='hi'))]
    """

    def __init__(self, targets: list[NodeId], chance: Random) -> None:
        assert targets, "a client needs somebody to ask"
        self._targets = targets
        self._chance = chance
        self._preferred = 0
        self._pending: dict[OperationId, _Pending] = {}
        self._client: NodeId | None = None
        self._took = Duration(0)
        """How long an answer takes at least, as is known: at most twice as much with each."""
        self._heard: dict[NodeId, Instant] = {}
        """When which target last answered a call, by the name under which it was asked."""
        self._moved: dict[NodeId, Instant] = {}
        """When part of a message last came from a target, or left for it."""
        self._came: dict[NodeId, Instant] = {}
        """When it last came."""
        self._timer: Instant | None = None

    def handle(self, event: Event[object], now: Instant) -> list[Effect[object]]:
        if type(event) is Received and type(event.message) is Answer:
            answer = event.message
            return self._answered(event.source, answer.number, answer.body, now)
        if type(event) is Requested and type(event.message) is Ask:
            return self._asked(event.operation, event.message, now)
        match event:
            case Expired():
                return self._due(now)
            case Announced(Lost(target, reached)):
                return self._lost(target, reached, now)
            case Announced(Moving(target, comes)):
                self._moved[target] = now
                if comes:
                    self._came[target] = now
                return []
            case Announced(Abandoned(operation)):
                self._pending.pop(operation, None)
                return []
            case _:
                return []

    def check(self) -> None:
        """Whatever is pending has a timer at or before its next step."""
        for pending in self._pending.values():
            assert self._timer is not None
            assert self._timer <= min(pending.resend, pending.deadline)

    @property
    def unanswered(self) -> int:
        return len(self._pending)

    def _asked(
        self, operation: OperationId, ask: Ask[object], now: Instant
    ) -> list[Effect[object]]:
        self._client = operation.client
        deadline = later(now, ask.patience)
        if operation in self._pending:  # asked again by its owner: the patience is renewed
            self._pending[operation].deadline = deadline
            return self._wake()
        target = ask.target or self._targets[self._preferred % len(self._targets)]
        longer = ask.longer
        wait, following = _wait(0, max(longer, Duration(min(2 * self._took, SLOW_MOST))))
        resend = later(now, wait)
        self._pending[operation] = _Pending(
            ask.body, now, deadline, resend, wait, target, longer, following, now
        )
        send = Send(target, Call(operation.number, ask.body))
        if self._timer is not None and self._timer <= min(resend, deadline):
            return [send]
        return [send, *self._wake()]

    def _answered(
        self, source: NodeId, number: int, body: object, now: Instant
    ) -> list[Effect[object]]:
        if self._client is None:
            return []
        operation = OperationId(self._client, number)
        pending = self._pending.get(operation)
        if pending is None:  # the answer to a second asking, or one that came too late
            return []
        if type(body) is Elsewhere:
            return self._redirected(operation, pending, body, now)
        if type(body) is AskAnother:
            _ask_soon(pending, now, LOST_LONGEST)
            return self._wake()
        if type(body) is Declined and body.error in LOCAL and pending.again:
            pending.said = f"; {body.text}"  # rule 4: whoever was asked before may yet do it
            _ask_soon(pending, now, pending.wait, pending.longer)
            return self._wake()
        del self._pending[operation]
        self._took = Duration(min(now - pending.asked, max(SLOW_FIRST, 2 * self._took)))
        outcome: Outcome[object]
        if type(body) is Declined:
            outcome = Failed(f"{body.error}: {body.text}")
        else:
            outcome = Succeeded(body)
            if not pending.again:  # else it is not known who that is
                self._heard[pending.target] = now
        with suppress(ValueError):  # others may change whom the list names meanwhile
            self._preferred = self._targets.index(source)
        if type(body) is Declined and body.error in LOCAL:
            self._preferred += 1
        return [Reply(operation, outcome)]

    def _redirected(
        self, operation: OperationId, pending: _Pending, to: Elsewhere, now: Instant
    ) -> list[Effect[object]]:
        pending.steps += 1
        if pending.steps > STEPS_MAX:  # rule 3: wait for the retry instead
            return []
        pending.target, pending.lost, pending.sent = contact(to.address), False, now
        pending.resend = later(now, pending.wait)
        return [Send(pending.target, Call(operation.number, pending.body)), *self._wake()]

    def _lost(self, target: NodeId, reached: bool, now: Instant) -> list[Effect[object]]:
        """Rule 2: no use in waiting for one who can't answer."""
        self._heard.pop(target, None)
        self._moved.pop(target, None)
        self._came.pop(target, None)
        for pending in self._pending.values():
            if pending.target == target and not pending.lost:
                pending.unasked += not reached
                _ask_soon(pending, now, LOST_LONGEST)
        return self._wake()

    def _due(self, now: Instant) -> list[Effect[object]]:
        effects: list[Effect[object]] = []
        for operation, pending in list(self._pending.items()):
            if pending.deadline <= now:
                self._prolong(pending)
            if pending.deadline <= now:
                del self._pending[operation]
                reason = f"no answer to call {operation.number} in the time given{pending.said}"
                effects.append(Reply(operation, Unknown(reason)))
            elif pending.resend <= now and not self._busy(pending, now):
                effects.append(self._again(operation, pending, now))
        return [*effects, *self._wake()]

    def _busy(self, pending: _Pending, now: Instant) -> bool:
        """Whether the target has answered others since, or bytes move: then it is waited for."""
        heard = self._heard.get(pending.target, pending.sent)
        moved = self._moved.get(pending.target, pending.sent)
        if pending.lost or max(heard, moved) <= pending.sent:
            return False
        if heard > pending.sent:
            pending.resend = min(later(heard, pending.wait), later(pending.sent, LONGEST_WAIT))
        if moved > pending.sent:
            move = min(later(moved, pending.wait), later(pending.sent, LONGEST_MOVE))
            pending.resend = max(pending.resend, move)
        return pending.resend > now

    def _prolong(self, pending: _Pending) -> None:
        """What comes is waited for beyond its time (rule 2)."""
        came = self._came.get(pending.target, pending.sent)
        if came > pending.sent and not pending.lost:
            end = min(later(came, pending.wait), later(pending.sent, LONGEST_MOVE))
            pending.deadline = max(pending.deadline, end)

    def _again(self, operation: OperationId, pending: _Pending, now: Instant) -> Effect[object]:
        self._preferred += 1
        pending.target = self._targets[self._preferred % len(self._targets)]
        pending.steps = 0
        if pending.lost:
            pending.losses += 1
        else:
            pending.silences += 1
            pending.wait, pending.following = _wait(pending.following, pending.longer)
        pending.lost, pending.sent = False, now
        # An eighth of jitter, always early: so no two askings are further apart than is said.
        early = Duration(self._chance.randrange(pending.wait // 8))
        pending.resend = later(now, Duration(pending.wait - early))
        return Send(pending.target, Call(operation.number, pending.body))

    def _wake(self) -> list[Effect[object]]:
        """Sets the timer to the next step of any call; none when nothing is pending."""
        if not self._pending:
            self._timer = None
            return []
        self._timer = min(min(each.resend, each.deadline) for each in self._pending.values())
        return [SetTimer(CallTimer.NEXT, self._timer)]
