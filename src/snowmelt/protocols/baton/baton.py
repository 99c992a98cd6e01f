"""One baton as the clients of one node have it: who waits, who holds, and for how long: rule 13."""

from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.instant import Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announce, Effect, Reply, Send
from snowmelt.protocols.baton import calls
from snowmelt.protocols.baton.arrows import Arrows
from snowmelt.protocols.baton.calls import SaveValue, ValueSaved
from snowmelt.protocols.baton.context import NodeContext
from snowmelt.protocols.baton.ended_holds import EndedHolds, EndReason
from snowmelt.protocols.baton.messages import (
    BatonGot,
    BatonState,
    BatonTaken,
    Forgo,
    Predecessor,
    Stored,
    Version,
)
from snowmelt.protocols.baton.relay import Effects, Relay
from snowmelt.protocols.baton.retired_names import NameRecord
from snowmelt.protocols.baton.token import Holder, Token
from snowmelt.protocols.baton.waiters import BatonWaiter, BatonWaiters
from snowmelt.protocols.calling import Declined

NUMBERS: Final = 2**60
WAITING_MAX: Final = 100
"""More are of callers who have asked again since."""


class UnsavedValue(msgspec.Struct, frozen=True):
    """A value that a holder wants to be saved; the baton carries it once the disk does."""

    version: Version
    value: bytes
    number: int
    """Which of its hold it is, as its holder counts; 0 when it does not."""


class PendingSave:
    """Values of one hold on their way to the root's disk, and who waits for its word (rule 14)."""

    def __init__(self, chance: Random) -> None:
        self.newest: UnsavedValue | None = None
        """The last that was asked for, until the baton carries it, or its hold is over."""
        self._chance = chance
        self._waiting: dict[int, tuple[OperationId, Version]] = {}

    def given(self, call: SaveValue, token: Token) -> UnsavedValue | None:
        """What a holder wants to be saved; None when that is older than what it wanted since."""
        newest = self.newest
        if newest is not None and newest.version.fence == call.fence and call.number:
            if call.number < newest.number:
                return None
            if call.number == newest.number:
                return newest
        return UnsavedValue(token.next_version(), call.value, call.number)

    def add(self, operation: OperationId, given: UnsavedValue) -> int:
        """Another call; returns the number under which the root is to answer."""
        number = self._chance.randrange(1, NUMBERS)
        self._waiting[number] = operation, given.version
        while len(self._waiting) > WAITING_MAX:
            del self._waiting[next(iter(self._waiting))]
        self.newest = given
        return number

    def stored(self, stored: Stored, relay: Relay) -> list[Effect[Any]]:
        """The root has it on its disk, or can't: if it is the newest, the baton carries it now."""
        operation, version = self._waiting.pop(stored.number, (None, None))
        if operation is None:
            return []
        if stored.error:
            return [Reply(operation, Declined(stored.error, stored.text))]
        token, newest = relay.token, self.newest
        if token is None or token.holder is None or newest is None:
            return [Reply(operation, ValueSaved())]
        if newest.version == version and token.fence == version.fence:
            token.version, token.value = newest.version, newest.value
            relay.newest.learn(newest.version, newest.value)
            relay.newest.kept(token.version)
        return [Reply(operation, ValueSaved())]


DOUBLINGS_MAX: Final = 3
"""So often the wait before another place is asked for doubles: where the baton is long with one
holder, and a chain is torn, no number of places helps."""
PLACES_MAX: Final = 8
"""So many of a want are kept, the last ones."""


class LocalBaton:
    """One name at one node."""

    def __init__(self, name: str, here: NodeContext, ways: Arrows, line: NameRecord) -> None:
        self.name: Final = name
        self.relay: Final = Relay(name, here, ways, line)
        self.wants: Final = BatonWaiters()
        self._here = here
        self._ways = ways
        self.saving: Final = PendingSave(here.chance)
        self.endings: Final = EndedHolds(name, here, line.fence)
        self.due: Instant | None = None
        """When something here is over, or sooner; never later."""

    @property
    def busy(self) -> bool:
        return self.relay.busy or len(self.wants) > 0

    def status(self) -> calls.BatonStatus:
        token = self.relay.token
        return calls.BatonStatus(
            name=self.name,
            node=self._here.me,
            state=(token.standing if token is not None else BatonState.NOTHING).value,
            fence=self.relay.fence,
            waiting=len(self.wants),
            points_at=self._ways.points_at(self.name),
        )

    # --- what clients ask ---------------------------------------------------------------------

    def acquire(self, operation: OperationId, call: calls.Acquire, now: Instant) -> Effects:
        """Waits for the baton, or is told again that it is held."""
        holder = self._held_by(call.ticket)
        if holder is not None:
            self._renew(holder, operation, now)
            return [Reply(operation, self._granted())]
        if self.endings.get(call.ticket) is not None:
            return [self.endings.lost(operation, call.ticket)]
        want = self.wants.get(call.ticket)
        new = want is None
        if want is None:
            want = BatonWaiter(call.ticket)
            self.wants.add(want)
        self._by(self.wants.called(want, operation, call, now))
        effects = self._want(want, now) if new else []
        return effects + hurried(self, call.ticket, now)

    def keep(self, operation: OperationId, call: calls.Renew | calls.Holding, now: Instant) -> bool:
        """The holder works on; whether it is one still."""
        holder = self.holder(call)
        if holder is not None:
            self._renew(holder, operation, now)
        return holder is not None

    def save(self, operation: OperationId, call: calls.SaveValue, now: Instant) -> Effects:
        holder = self.holder(call)
        if holder is None:
            return [self.endings.not_held(operation, call)]
        self._until(holder, later(now, self._here.settings.patience))  # its client is who keeps it
        token = self.relay.token
        assert token is not None
        given = self.saving.given(call, token)
        if given is None:
            text = "a newer value was saved since"
            return [Reply(operation, Declined("OutcomeUnknown", text))]
        number = self.saving.add(operation, given)
        return [self.relay.backup(given.version, given.value, number)]

    def release(self, operation: OperationId, call: calls.Release, now: Instant) -> Effects:
        done = Reply(operation, calls.Released())
        if not call.fence:
            dropped = self.drop(call.ticket, None, now)
            self.endings.add(call.ticket, EndReason.GIVEN_UP)  # what asked for it may come only now
            return [*dropped, done]
        if self.holder(call) is not None:
            return [*self.drop(call.ticket, call.value, now), done]
        token = self.relay.token
        held = token is not None and token.holder is not None
        if self.endings.gave_up(call, self.relay.fence - held):
            return [done]  # its answer was lost
        return [self.endings.not_held(operation, call)]

    def gone(self, client: NodeId, now: Instant) -> Effects:
        """All connections of a client have ended: who waits is out, who holds has a moment left."""
        for want in self.wants.of(client):
            self.give_up(want.ticket, now)
        token = self.relay.token
        holder = None if token is None else token.holder
        if holder is not None and holder.client == client and holder.expires is not None:
            self._until(holder, min(holder.expires, later(now, self._here.settings.grace)))
        return self.settle(now)

    # --- what other machines of this node ask -------------------------------------------------

    def seek(self, ticket: int, now: Instant) -> Effects:
        if self.wants.get(ticket) is not None or self._held_by(ticket) is not None:
            return []
        want = BatonWaiter(ticket)
        self.wants.add(want)
        return self._want(want, now)

    def drop(self, ticket: int, value: bytes | None, now: Instant) -> Effects:
        if self._held_by(ticket) is None:
            self.give_up(ticket, now)
            return self.settle(now)
        backup = [] if value is None else self.relay.change(value)
        return [*self._end(EndReason.GIVEN_UP, now), *backup]

    def lose(self, why: EndReason) -> Effects:
        token, self.relay.token = self.relay.token, None
        if token is None or token.holder is None:
            return []
        self.endings.add(token.holder.ticket, why, token.fence)
        if token.holder.client is None:
            return [Announce(BatonTaken(self.name, token.holder.ticket))]
        return []

    # --- whose turn it is ---------------------------------------------------------------------

    def settle(self, now: Instant) -> Effects:
        """After anything that may have moved the token: passes it on, and grants it."""
        effects = self.relay.pass_on(now)
        if self.relay.walks:
            self._by(now)
        if (ticket := self.relay.offered) is not None:
            want = self.give_up(ticket, now)
            assert want is not None, f"a turn of {self.name} is for {ticket}, who is not here"
            return effects + self._grant(want, now)
        return effects

    def _want(self, want: BatonWaiter, now: Instant) -> Effects:
        return self._ask(want, now) + self.settle(now)

    def _ask(self, want: BatonWaiter, now: Instant) -> Effects:
        place, effects = self.relay.ask(want.ticket, now)
        self.relay.renounce(want.places[: 1 - PLACES_MAX], now)
        want.places, want.asked = (*want.places[1 - PLACES_MAX :], place), now
        return effects

    def _grant(self, want: BatonWaiter, now: Instant) -> Effects:
        token = self.relay.token
        assert token is not None
        if want.client is None:
            token.holder = Holder(want.ticket, None, None)
            got = BatonGot(self.name, want.ticket, token.fence, token.made, token.value)
            return [Announce(got)]
        if want.operation is None:  # it will call again at once; if not, the baton goes on
            token.holder = Holder(want.ticket, want.client, None)
            self._until(token.holder, later(now, calls.PATIENCE))
            return []
        token.holder = Holder(want.ticket, want.client, None)
        self._renew(token.holder, want.operation, now)
        return [Reply(want.operation, self._granted())]

    def _end(self, why: EndReason, now: Instant) -> Effects:
        """The hold is over; the baton stays, or goes to whoever is next."""
        token = self.relay.token
        assert token is not None
        assert token.holder is not None
        self.endings.add(token.holder.ticket, why, token.fence)
        token.holder = None
        self._ways.wake(self.name, now)  # a hold may have been longer than edges are watched
        given, self.saving.newest = self.saving.newest, None
        if given is None or given.version <= token.version:
            return self.settle(now)
        # Nobody knows whether that save came to be: what is carried goes on, on the disk too.
        return [*self.relay.change(token.value, anew=True), *self.settle(now)]

    def give_up(self, ticket: int, now: Instant) -> BatonWaiter | None:
        want = self.wants.take(ticket)
        if want is not None:
            self.relay.renounce(want.places, now)
        return want

    # --- time ---------------------------------------------------------------------------------

    def expire(self, now: Instant) -> Effects:
        """Answers who has waited enough, and takes the baton from who was silent too long."""
        answers, over = self.wants.expire(now)
        effects: Effects = list(answers)
        for want in over:
            self.give_up(want.ticket, now)
        token = self.relay.token
        holder = None if token is None else token.holder
        if holder is not None and holder.expires is not None and holder.expires <= now:
            effects += self._end(EndReason.EXPIRED, now)
        effects += self.settle(now)
        token = self.relay.token
        holder = None if token is None else token.holder
        walks = now if self.relay.walks else None
        ends = (self.wants.due(), None if holder is None else holder.expires, walks)
        self.due = min((one for one in ends if one is not None), default=None)
        return effects

    def beat(self, now: Instant) -> Effects:
        """Rule 9: a find may have been lost, or ignored; then another place is asked for."""
        effects: Effects = []
        timeout = self._here.settings.arrow.timeout
        for want in self.wants.all():
            if not self._here.steps:
                break  # the others on the next beat
            patience = timeout << min(len(want.places) - 1, DOUBLINGS_MAX)
            if now - want.asked >= patience and not self.relay.stands(want.places[-1], now):
                self._here.steps -= 1
                effects += self._ask(want, now)
        return effects + self.relay.beat(now) + self.settle(now)

    # --- inside -------------------------------------------------------------------------------

    def _held_by(self, ticket: int) -> Holder | None:
        token = self.relay.token
        return None if token is None else token.held_by(ticket)

    def holder(
        self, call: calls.Holding | calls.Renew | calls.SaveValue | calls.Release
    ) -> Holder | None:
        token = self.relay.token
        if token is None or token.fence != call.fence:
            return None
        return token.held_by(call.ticket)

    def _renew(self, holder: Holder, operation: OperationId, now: Instant) -> None:
        holder.client = operation.client
        self._until(holder, later(now, self._here.settings.patience))

    def _until(self, holder: Holder, end: Instant) -> None:
        holder.expires = end
        self._by(end)

    def _by(self, end: Instant) -> None:
        if self.due is None or end < self.due:
            self.due = end

    def _granted(self) -> calls.Granted:
        token = self.relay.token
        assert token is not None
        lease = self._here.settings.lease
        return calls.Granted(token.fence, token.made, token.value, lease, self._here.place)


def behind(baton: LocalBaton, word: Predecessor, now: Instant) -> Effects:
    """One of this node's places learns which one is before it."""
    baton.relay.turns.put_behind(word.place, word.before, now, taken=word.taken)
    return hurried(baton, baton.relay.turns.wanted(word.place), now)


def hurried(baton: LocalBaton, ticket: int | None, now: Instant) -> Effects:
    """Answers a call that may not wait, once its baton is known to be taken."""
    want = baton.wants.get(ticket)
    if want is None or not baton.relay.turns.taken(want.places):
        return []
    baton.wants.hurry(want, now)
    return baton.expire(now)


def knows(baton: LocalBaton, ticket: int) -> bool:
    """Whether somebody waits under this ticket, or holds the baton, or did."""
    token = baton.relay.token
    held = token is not None and token.held_by(ticket) is not None
    return held or baton.wants.get(ticket) is not None or baton.endings.get(ticket) is not None


def concerns(baton: LocalBaton, client: NodeId) -> bool:
    """Whether a client waits here, or holds. O(what it waits for)."""
    token = baton.relay.token
    holder = None if token is None else token.holder
    if holder is not None and holder.client == client:
        return True
    return bool(baton.wants.of(client))


def refused(baton: LocalBaton, root: NodeId, text: str, now: Instant) -> Effects:
    """What the baton carried can't be read; another machine of this node does without."""
    effects: Effects = []
    for want in baton.wants.all():
        if want.client is None:
            effects.append(Send(root, Forgo(baton.name)))
            continue
        baton.give_up(want.ticket, now)
        if want.operation is not None:
            effects.append(Reply(want.operation, Declined("StoreDamaged", text)))
    return effects
