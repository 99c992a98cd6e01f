"""Every node's side of membership: rules 7 to 10 of the package."""

from collections.abc import Iterator
from enum import Enum
from random import Random
from typing import Final

import msgspec

from snowmelt.core.instant import START, Duration, Instant, later
from snowmelt.core.names import NodeId, OperationId, contact
from snowmelt.core.node import (
    Announce,
    CancelTimer,
    Effect,
    Halt,
    Note,
    Persist,
    Persisted,
    PersistFailed,
    Reply,
    Send,
    SetTimer,
)
from snowmelt.core.record import Change, Write
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.membership import messages
from snowmelt.protocols.membership.disk import SELF, VIEW, Self, StoredMembership, twice
from snowmelt.protocols.membership.facts import HandedOver, Leaving
from snowmelt.protocols.membership.lease import MembershipLease
from snowmelt.protocols.membership.settings import Identity, MembershipSettings
from snowmelt.protocols.membership.view import Current, CutOff, Member, Unsure, View

Effects = list[Effect[object]]


class Doubts:
    """Until when the newest view is unsure, and what was announced of that.

    >>> doubts = Doubts()
    >>> doubts.told(7, Instant(50)); doubts.told(7, Instant(40)); doubts.told(6, Instant(90))
    >>> view = View(1, 7, "n1", ())
    >>> doubts.announced(view, Instant(39))[0]
    Announce(fact=Unsure(until=40))
    >>> len(doubts.announced(view, Instant(40)))
    1
    """

    def __init__(self) -> None:
        self._epoch = 0
        self._until: Instant = START
        self._announced: Instant = START

    def told(self, epoch: int, until: Instant) -> None:
        """Of what is told of a view more than once, what ends first is true."""
        if epoch > self._epoch:
            self._epoch, self._until = epoch, until
        elif epoch == self._epoch:
            self._until = min(self._until, until)

    def announced(self, view: View, now: Instant) -> list[Effect[object]]:
        """A view, and before it until when it is unsure; or that it is sure, when one was not."""
        until = self._until if self._epoch >= view.epoch else START
        if max(until, self._announced) <= now:
            return [Announce(view)]
        self._announced = until
        return [Announce(Unsure(until)), Announce(view)]


class MemberTimer(Enum):
    """When to speak next, and when what was accepted ends."""

    SPEAK = "membership.speak"
    LEASE = "membership.lease"


class MemberState(Enum):
    """Where this node stands.

    waking --own record safe--> outside --accepted--> current <--lease ends / accepted--> cut off;
    refused: outside again; told to depart: leaving, then left.
    """

    WAKING = "waking"
    OUTSIDE = "outside"
    CURRENT = "current"
    CUT_OFF = "cut off"
    LEAVING = "leaving"
    LEFT = "left"


START_BITS: Final = 20
"""How wide the coordinator's gap is."""


class MemberRole:
    def __init__(
        self,
        identity: Identity,
        settings: MembershipSettings,
        chance: Random,
        tickets: Iterator[int],
        joins: type[messages.Join] = messages.Join,
        *,
        hands_over: bool = False,
    ) -> None:
        self.identity = identity
        self.heard: Instant = START
        """When this node was accepted last."""
        self._joins = joins
        self._hands_over = hands_over
        """With which word this node asks to be let in; it says who decides."""
        self._directed: NodeId | None = None
        """Who leads, where etcd says so; without it the view does."""
        self._decides = False
        """Whether it is this node, by its disk."""
        self.standing = MemberState.WAKING
        self.view: View | None = None
        self._settings = settings
        self._chance = chance
        self._tickets = tickets
        self._run = chance.getrandbits(63)
        self._self = Self(identity.id, chance.getrandbits(63), 0)
        self._waking: int | None = None
        self._adopting: tuple[int, View] | None = None
        self.doubts = Doubts()
        self.currency = MembershipLease(settings.lease)
        self._lease_end: Instant = START
        self._redirects = 0
        self._attempt = 0
        self._departing: list[OperationId] = []

    def check(self) -> None:
        """A current node stands in its own view; a view it adopts is newer than the one it has."""
        if self.standing is MemberState.CURRENT:
            assert self.view is not None
            assert self.view.has(self.member), f"current, but not in {self.view}"
        if self._adopting is not None and self.view is not None:
            assert self._adopting[1].epoch > self.view.epoch

    @property
    def member(self) -> Member:
        own = self._self
        return Member(self.identity.id, self.identity.address, own.birth, own.start)

    @property
    def cluster(self) -> int:
        """Of which cluster this node is; 0 when it is of none yet."""
        return self._self.cluster

    # --- beginning --------------------------------------------------------------------------------

    def begin(self, kept: StoredMembership) -> Effects:
        """Counts this start, and keeps the count before the first word goes out.

        Others' counts are vouched for by the coordinator. Nobody vouches for its own: its disk may
        have been put back from an older copy, and a start that was there before would come again,
        with all that is named after it. So it leaves a gap, drawn at random.
        """
        if kept.id not in ("", self.identity.id):
            return [Halt(f"this disk belongs to node {kept.id}, not to {self.identity.id}")]
        self._decides = kept.ledger is not None and self._joins is messages.Join
        own, decided = kept.self or self._self, kept.ledger and kept.ledger.view.epoch
        gap = self._chance.getrandbits(START_BITS) if decided else 0
        self._self = Self(own.id, own.birth, own.start + 1 + gap, kept.cluster)
        self.view = kept.view
        self._waking = next(self._tickets)
        return [Persist(self._waking, twice(SELF, msgspec.msgpack.encode(self._self)))]

    def settled(self, event: Persisted | PersistFailed, now: Instant) -> Effects:
        """The disk answered: for this start, or for a view."""
        if event.ticket == self._waking:
            self._waking = None
            if isinstance(event, PersistFailed):
                return [Halt(f"the disk can't keep this node's start: {event.reason}")]
            self.standing = MemberState.OUTSIDE
            return self.speak(now)
        if self._adopting is None or event.ticket != self._adopting[0]:
            return []
        view = self._adopting[1]
        self._adopting = None
        if isinstance(event, PersistFailed):
            return [Note(f"view {view.epoch} could not be kept ({event.reason}) -> still the old")]
        return self._adopted(view, now)

    # --- speaking ---------------------------------------------------------------------------------

    def speak(self, now: Instant) -> Effects:
        """Says what this standing asks for, and sets when to speak again."""
        short = Duration(self._settings.interval // 3)
        match self.standing:
            case MemberState.WAKING | MemberState.LEFT:
                return []
            case MemberState.OUTSIDE:
                self._redirects = 0
                return [self._join(self._next_contact(), now), self._speak_after(short, now)]
            case MemberState.CURRENT | MemberState.CUT_OFF:
                assert self.view is not None
                beat = self._heartbeat(self.view, now)
                return [beat, self._speak_after(self._settings.interval, now)]
            case MemberState.LEAVING:
                assert self.view is not None
                leave = messages.Leave(self._run, self._self.start, self.view.cluster)
                decider = self._directed or self.view.coordinator
                return [Send(decider, leave), self._speak_after(short, now)]

    def direct(self, leader: NodeId | None, now: Instant) -> Effects:
        """Who leads is found in etcd, or not: it is spoken to at once."""
        self._directed = leader
        if leader is None:
            return []
        self.currency.finds_who_leads()
        return self.speak(now)

    def _join(self, target: NodeId, now: Instant) -> Effect[object]:
        return Send(target, self.application(self.currency.said(now)))

    def application(self, number: int) -> messages.Join:
        view = self.view
        known = (self.cluster, 0, 0) if view is None else (view.cluster, view.epoch, view.mark)
        return self._joins(number, self._run, self.member, *known)

    def _heartbeat(self, view: View, now: Instant) -> Effect[object]:
        own = self._self
        number = self.currency.said(now)
        known = view.cluster, view.epoch, view.mark
        beat = messages.Heartbeat(number, self._run, own.birth, own.start, *known)
        return Send(self._directed or view.coordinator, beat)

    def _speak_after(self, wait: Duration, now: Instant) -> Effect[object]:
        # A tenth of jitter, always early, keeps a thousand members from beating as one.
        early = Duration(self._chance.randrange(wait // 10))
        return SetTimer(MemberTimer.SPEAK, later(now, Duration(wait - early)))

    def _next_contact(self) -> NodeId:
        """The coordinator last known, then whoever was named, then the members last known."""
        if self._directed is not None:
            return self._directed
        if self._decides:  # whether a view lists it or not, and before there is any
            return self.identity.id
        names = list(self.identity.contacts)
        if self.view is not None:
            first = [one for one in self.view.members if one.id == self.view.coordinator]
            names = [one.id for one in first] + names + [one.id for one in self.view.members]
        names = [name for name in names if name != self.identity.id] or [self.identity.id]
        self._attempt += 1
        return names[(self._attempt - 1) % len(names)]

    # --- hearing ----------------------------------------------------------------------------------

    def accepted(self, word: messages.Accepted, now: Instant, *, own: bool = False) -> Effects:
        """Rules 8 and 25: the lease counts from when the accepted word was sent.

        `own` is the acceptance of a node that leads, where any may, by itself.
        """
        counts = self.currency.counts(word.number, word.epoch, own=own)
        if word.run != self._run or not counts or self.standing is MemberState.LEFT:
            return []
        if not self.currency.accepted(word.number, now, own=own):
            return [Note(f"word {word.number} was accepted too late to count -> speak again")]
        self.heard = now
        effects = self.counted()
        self.doubts.told(word.epoch, later(now, word.unsure))
        if word.view is not None:
            effects += self.adopt(word.view)
        known = (
            self.view is not None and self.view.epoch >= word.epoch and self.view.has(self.member)
        )
        if known and self._adopting is None:
            effects += self._now_current(now)
        return effects

    def counted(self) -> Effects:
        """Says until when this node is current, when that has changed."""
        end = self.currency.end
        if end == self._lease_end:
            return []
        self._lease_end = end
        return [SetTimer(MemberTimer.LEASE, end), Announce(Current(end))]

    def adopt(self, view: View) -> Effects:
        """Rule 7: a newer view of the same cluster goes to the disk first."""
        newest = self._adopting[1] if self._adopting else self.view
        if self.cluster not in (0, view.cluster) or (newest and view.epoch <= newest.epoch):
            return []
        ticket = next(self._tickets)
        self._adopting = ticket, view
        changes: tuple[Change, ...] = (Write(VIEW, msgspec.msgpack.encode(view)),)
        if not self.cluster:
            self._self = msgspec.structs.replace(self._self, cluster=view.cluster)
            changes += twice(SELF, msgspec.msgpack.encode(self._self))
        return [Persist(ticket, changes)]

    def _adopted(self, view: View, now: Instant) -> Effects:
        before, self.view, self._directed = self.view, view, None
        if not view.has(self.member):
            if self.standing in (MemberState.CURRENT, MemberState.CUT_OFF):
                return self._outside(f"view {view.epoch} is without this node", now)
            return []
        effects = self._now_current(now)
        if self.standing is MemberState.CURRENT and not effects:
            effects += self.doubts.announced(view, now)
        if before is not None and before.coordinator != view.coordinator:
            effects += self.speak(now)  # what another accepted has not long to go
        return effects

    def _now_current(self, now: Instant) -> Effects:
        arriving = self.standing in (MemberState.OUTSIDE, MemberState.CUT_OFF)
        if not arriving or now >= self._lease_end:
            return []
        assert self.view is not None
        note = Note(f"{self.standing.value}, accepted -> current in view {self.view.epoch}")
        self.standing = MemberState.CURRENT
        pause = self._speak_after(self._settings.interval, now)
        return [note, *self.doubts.announced(self.view, now), pause]

    def expire(self, now: Instant) -> Effects:
        """Rule 8: looked at before every event, since a node that slept wakes with any of them."""
        if self.standing is not MemberState.CURRENT or now < self._lease_end:
            return []
        assert self.view is not None
        self.standing = MemberState.CUT_OFF
        note = f"nothing accepted for {self._settings.misses} heartbeats -> cut off"
        return [Note(note), Announce(CutOff(self.view.epoch)), *self.speak(now)]

    def refused(self, word: messages.Refused, now: Instant) -> Effects:
        # Rule 10.
        if word.run != self._run or self.standing is MemberState.LEFT:
            return []
        if word.superseded or (word.final and not self.currency.newest):
            return [Note(f"refused: {word.reason} -> halt"), Halt(word.reason)]
        if word.final:
            return [Note(f"refused: {word.reason} -> go on asking")]
        if word.number <= self.currency.newest:  # said before what was accepted since
            return []
        return self._outside(word.reason, now)

    def _outside(self, reason: str, now: Instant) -> Effects:
        if self.standing is MemberState.LEAVING:  # out is where it wants to be
            return self.left(messages.LeftView(self._run))
        was = self.standing
        self.standing = MemberState.OUTSIDE
        self._lease_end = START
        self.currency.none()
        effects: Effects = [Note(f"{reason} -> join again")]
        if was is MemberState.CURRENT:
            assert self.view is not None
            effects += [Announce(CutOff(self.view.epoch)), CancelTimer(MemberTimer.LEASE)]
        return effects if was is MemberState.OUTSIDE else [*effects, *self.speak(now)]

    def redirected(self, word: messages.Redirected, now: Instant) -> Effects:
        """Asks there at once; only once a turn, lest two nodes that point at each other spin it."""
        if word.run != self._run or self.standing is not MemberState.OUTSIDE or self._redirects:
            return []
        if word.address == self.member.address:  # an earlier life of this node led: nobody does now
            return []
        self._redirects += 1
        return [self._join(contact(word.address), now)]

    # --- leaving ----------------------------------------------------------------------------------

    def depart(self, operation: OperationId, patience: Duration, now: Instant) -> Effects:
        """Leaves in order; answered when the coordinator has decided (rule 30)."""
        if self.standing is MemberState.WAKING:  # not a word before its start is safe
            text = "this node is still beginning; ask again, or stop it"
            return [Reply(operation, Declined("Unavailable", text))]
        if self.standing is MemberState.LEFT or self.view is None:
            self.standing = MemberState.LEFT
            return [Reply(operation, messages.Departed())]
        self._departing.append(operation)
        if not self._hands_over or self.standing is MemberState.LEAVING:
            return self.handed_over(HandedOver(), now)
        return [Announce(Leaving(later(now, patience)))] if len(self._departing) == 1 else []

    def handed_over(self, word: HandedOver, now: Instant) -> Effects:
        """What only this node had is elsewhere; or it may not leave."""
        if not self._departing or self.standing in (MemberState.LEAVING, MemberState.LEFT):
            return []
        if word.refused:
            asked, self._departing = self._departing, []
            return [Reply(operation, Declined("StateError", word.refused)) for operation in asked]
        effects: Effects = []
        if self.standing is MemberState.CURRENT:
            assert self.view is not None
            fact = CutOff(self.view.epoch, leaving=True)
            effects = [Announce(fact), CancelTimer(MemberTimer.LEASE)]
        self.standing = MemberState.LEAVING
        return [*effects, *self.speak(now)]

    def left(self, word: messages.LeftView) -> Effects:
        if word.run != self._run or self.standing is not MemberState.LEAVING:
            return []
        self.standing = MemberState.LEFT
        replies = [Reply(operation, messages.Departed()) for operation in self._departing]
        return [CancelTimer(MemberTimer.SPEAK), *replies]
