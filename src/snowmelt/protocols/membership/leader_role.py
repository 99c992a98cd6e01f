"""The office of the leader, where etcd decides: how a node comes to it, holds it, and loses it.

Rules, which go on from those of `election.py`:

17. A node whose disk or `--cluster` says another cluster than the prefix does not stand; it halts
    if it was never accepted, and says so if it was. So does whoever finds no cluster there: nobody
    founds one by starting a node (rule 29), since what looks new may have lost its data.
18. Who is elected reads all records, and then decides on a view that has itself in it, with its
    present start, as the coordinator. Only when that is kept does it hear members, each with the
    whole time to be heard (but see 26), and the homes of queues, and what batons need,
    are decided on.
19. An etcd that was put back from a backup may know less than the members. That is the case of a
    coordinator on an older disk (rule 6): who leads takes a number above its own view's, and
    surpasses what others know.
20. Who leaves in order takes itself out of the view, then takes the leader's key away. A view
    without its coordinator makes every member look.
25. Who leads can't be left out by somebody who waits for its silence: it hears itself. So it is
    current only while it is sure (rule 15), from when it asks that the ledger name it. What another
    accepts counts for it again when that one is known to have led later: it was found in etcd
    since, or decides on views above its own.
26. So who comes to lead need not wait the whole time of rule 4 for its predecessor, whom the ledger
    names. That one was sure no longer than four fifths of a lease after its last refresh, which
    came before this election, however early the lease ended. It is left out a grace after that, if
    nothing is heard of it, and until then views are unsure (27). All others may have been accepted
    by it last thing, and have the whole time from then on.
28. A node that gets the hint of rule 27 about who leads looks in etcd who does, and ends that one's
    lease, whose number stands with its key. What follows is what follows when a lease ends early:
    a lease elects and never protects (12), and rules 15, 25 and 26 reckon with it. It does so to
    one process seldom, since it may be itself who is walled in. Whoever is elected leaves the dead
    one out at the same hint, in the view in which it comes to lead.
31. A record that can't be read ends no node. The leader's key is rule 16's. The cluster's is
    written anew with the ledger, by who knows from its own disk and from the ledger which cluster
    it is. Without the ledger nobody can lead: all ask again every so often until it is put back,
    and whoever leads meanwhile goes on until it has a view to decide.

What etcd says late, twice, or not at all, and what happens then:

- No answer to a look, a grant, a try to stand: asked again after 2 s, from the look on (14, 16).
- No answer to a change: asked again every 2 s, and done once, whichever came through (12, 13).
- A change comes through when another leads: it compares the leader's key, and does nothing (12).
- A change comes through when its leader has given up, and nobody leads: it is a decision that
  nobody was told of, and the next leader reads it (18).
- The lease ended without the leader knowing: nothing that it decides comes through (12).
- The lease is prolonged, by a new leader of etcd: nobody leads for as long. Members are cut off
  after `misses` heartbeats, and go on as soon as somebody does.
- No answers at all: the leader is unsure after four fifths of its lease, and cut off; members are
  `misses` heartbeats after that at the latest; until then all goes on but for changes.
- No room: leases and reads go on, so members stay current; changes wait, and a note says why.
- History is compacted, a watch lags or breaks: nothing here reads history, or watches.
- Older records, from a backup: rule 19.
- Somebody else changes what is under the prefix: the leader steps down, and says which record.
- What is there can't be read: rule 31, and of queues rule 16 of the controller.
"""

from collections.abc import Iterator
from enum import Enum
from itertools import count
from random import Random
from typing import Final

import msgspec

from snowmelt.core.errors import StoreDamaged
from snowmelt.core.instant import START, Duration, Instant, later, since
from snowmelt.core.names import NodeId, contact
from snowmelt.core.node import Announce, Effect, Halt, Note, Persisted, Send, SetTimer
from snowmelt.core.record import decoded
from snowmelt.protocols.etcd import Answer
from snowmelt.protocols.membership.coordinator import EtcdCoordinator
from snowmelt.protocols.membership.disk import StoredMembership
from snowmelt.protocols.membership.election import Election, ElectionStage, ElectionState
from snowmelt.protocols.membership.facts import KeepRecord, Leads, LeadsNoMore, RecordsKept
from snowmelt.protocols.membership.member import MemberRole, MemberState
from snowmelt.protocols.membership.messages import Adopt, JoinByEtcd
from snowmelt.protocols.membership.monitor import MemberMonitor, PossibleLease, refused
from snowmelt.protocols.membership.records import (
    BATONS,
    CLUSTER,
    HOMES,
    LEADER,
    LEDGER,
    Change,
    Founded,
    LeaderRecord,
    Records,
)
from snowmelt.protocols.membership.settings import MembershipSettings
from snowmelt.protocols.membership.view import (
    OTHER_CLUSTER,
    Ledger,
    Member,
    Remove,
    Surpass,
    Unsure,
    identity_of,
)

Effects = list[Effect[object]]

ENDS_APART: Final = 4
"""In so many times of being current a node ends the lead of one process once."""
_TAKEN_UP = 0
"""The ticket of what is kept on coming to office."""
UNFOUNDED: Final = (
    "etcd has no cluster under this prefix: to begin a new one, say snowmelt found with the same"
    " --coordinator first; if there was one, put etcd's data back; if a move to etcd was cut off,"
    " run snowmelt migrate again"
)


class OfficeTimer(Enum):
    """When there may be something to look for, or to say."""

    LOOK = "membership.look"


class LeaderRole:
    """One node's part in leading; while it leads, a keeper hears the members."""

    def __init__(
        self,
        follower: MemberRole,
        settings: MembershipSettings,
        chance: Random,
        tickets: Iterator[int],
        name: str,
    ) -> None:
        self.keeper: MemberMonitor | None = None
        self._follower = follower
        self._settings = settings
        self._tickets = tickets
        self._name = name
        # What was answered to another process of this node is no answer to this one.
        self._numbers = count(1 + chance.getrandbits(48))
        self._election = Election(settings, chance, self._numbers)
        self._records: Records | None = None
        self._taking_up: Ledger | None = None
        self._predecessor: tuple[NodeId, Member] | None = None
        self._severed: NodeId | None = None
        """Who leads, and seems to be dead (rule 28)."""
        self._suspects: dict[NodeId, Instant] = {}
        """Who seems to be dead, since when; it is forgotten in time."""
        self._ended: dict[tuple[NodeId, int], Instant] = {}
        """Which starts of nodes lost their lead by this one, and when."""
        self._set_at: Instant | None = None

    def begin(self, found: StoredMembership) -> Effects:
        """What is on the disk must go with etcd."""
        if found.ledger is None:
            return []
        how = "snowmelt migrate --data … --coordinator etcd://…, with all nodes stopped"
        if found.moved:
            return [Halt(f"the move of this cluster to etcd has not ended: run again {how}")]
        return [
            Halt(
                "this disk decides for its cluster by itself: start without --coordinator, or have"
                f" the cluster move to etcd: {how}"
            )
        ]

    def check(self) -> None:
        """Members are heard only by who was elected and has read all records."""
        elected = self._election.step is ElectionStage.ELECTED
        assert elected or self._records is None
        assert self.keeper is None or (self._records is not None and self._records.complete)
        for part in (self._records, self.keeper):
            if part is not None:
                part.check()

    # --- before and after every event -------------------------------------------------------------

    def before(self, now: Instant) -> Effects:
        """Rule 15: looked at before every event, since a node that slept wakes with any of them."""
        if self._election.step is not ElectionStage.ELECTED:
            return []
        view, keeper = self._follower.view, self.keeper
        other = view and view.coordinator != self._follower.identity.id
        if keeper and view and other and view.epoch > keeper.epoch:
            return self._deposed(f"{view.coordinator} decided on view {view.epoch}")
        return [] if self._election.sure(now) else self._deposed("not sure to lead any more")

    def after(self, now: Instant) -> Effects:
        """Says and asks what is due, and sets when to be woken."""
        follower, election = self._follower, self._election
        if follower.standing is MemberState.WAKING:
            return []
        if follower.standing is MemberState.LEFT:  # rule 20
            return self._deposed("it left") if election.step is ElectionStage.ELECTED else []
        effects = election.refresh(now)
        decides = self._decides
        if decides is not None and election.sure(now):  # rule 25
            follower.currency.decides(election.sure_until, decides)
            effects += follower.counted()
        if self._records is not None:
            effects += self._records.tick(now)
        elif self._discontent(now):
            effects += election.look(now)
        due = election.due(now)
        if self._set_at is None or due < self._set_at or self._set_at <= now:
            self._set_at = due
            effects.append(SetTimer(OfficeTimer.LOOK, due))
        return effects

    @property
    def _decides(self) -> int | None:
        """Rule 25: the view from which on this node decides, while it does."""
        if self._taking_up is not None:
            return self._taking_up.view.epoch
        return None if self.keeper is None else self.keeper.epoch

    def severed(self, node: NodeId, now: Instant) -> Effects:
        """Rules 27 and 28: a hint that a node is no more."""
        follower = self._follower
        if self.keeper is not None:
            return self.keeper.severed(node, now)
        self._suspects[node] = now
        view = follower.view
        led = view is not None and view.coordinator == node != follower.identity.id
        if led and follower.standing is MemberState.CURRENT:
            self._severed = node
            self._election.hurry()
            return [Note(f"{node}, who leads, refuses connections -> look who does")]
        return []

    def _may_end(self, leader: LeaderRecord, now: Instant) -> bool:
        apart, life = Duration(ENDS_APART * self._settings.lease), (leader.node, leader.start)
        self._ended = {one: at for one, at in self._ended.items() if later(at, apart) > now}
        return self._ended.setdefault(life, now) == now

    def _discontent(self, now: Instant) -> bool:
        """Rule 14: whether who leads is not heard, or not there at all."""
        follower = self._follower
        view = follower.view
        if self._severed is not None:
            return True
        if view is None or follower.standing is not MemberState.CURRENT:
            return True
        if view.coordinator == follower.identity.id or view.member(view.coordinator) is None:
            return True
        return 2 * (now - follower.heard) >= 3 * self._settings.interval

    # --- answers ----------------------------------------------------------------------------------

    def answered(self, answer: Answer, now: Instant) -> Effects:
        effects: Effects = []
        records = self._records
        if records is not None:
            kept, effects = records.answered(answer, now)
            if records.deposed:
                return [*effects, *self._deposed(records.deposed)]
            effects += self._kept(kept, now)
            if records.complete and self.keeper is None and self._taking_up is None:
                effects += self._take_up(records, now)
        found, more = self._election.answered(answer, self._leader(), now)
        effects += more
        if found is not None:
            effects += self._found(found, now)
        if self._election.step is ElectionStage.ELECTED and self._records is None:
            self._records = Records(self._election.mine, self._numbers)
            effects += self._records.read(now)
        return effects

    def keep(self, asked: KeepRecord, now: Instant) -> Effects:
        """A part of this node that leads decided something."""
        if self._records is None or self.keeper is None:
            return []  # it is told that this node leads no more
        return self._records.keep([Change(asked.ticket, asked.key, asked.value)], now)

    def _found(self, found: ElectionState, now: Instant) -> Effects:
        follower, leader = self._follower, found.leader
        barrier = "" if CLUSTER in found.unread else self._barrier(found.founded)
        if barrier:
            return self._barred(barrier)
        if LEADER in found.unread:  # rule 16
            note = Note("who leads can't be read in etcd: that record is erased")
            return [note, *self._election.clear(found.value, now)]
        if leader is None and CLUSTER in found.unread and not follower.cluster:
            return self._waits(CLUSTER, now)
        if leader is None:
            self._severed = None
            effects = follower.direct(None, now)
            if follower.standing is not MemberState.LEAVING:
                effects += self._election.stand(now)
            return effects
        own, severed, self._severed = follower.member, self._severed, None
        if leader.node == severed and leader.lease and self._may_end(leader, now):  # rule 28
            return [Note(f"ends the lead of {severed}"), *self._election.end(leader, now)]
        if (leader.node, leader.birth) == (own.id, own.birth) and leader.start <= own.start:
            return self._election.clear(found.value, now)
        if leader.address == own.address:
            return []  # of another life of this node: it is waited for, until its lease ends
        return follower.direct(contact(leader.address), now)

    def _barrier(self, founded: Founded | None) -> str:
        """Rule 17: why this node does not belong to what is under the prefix."""
        mine = self._follower.cluster
        if founded is None:
            if not mine:
                return UNFOUNDED
            return (
                f"this disk is of cluster {identity_of(mine)}, and etcd has none under this prefix:"
                " give the prefix of the cluster, put etcd's data back, or found the cluster anew"
                " from its nodes' folders (snowmelt rescue); keep this one"
            )
        if founded.name != self._name:
            return (
                f"the prefix in etcd belongs to the cluster {founded.name!r}, and this node was"
                f" told {self._name!r}: give it another prefix, or the same --cluster"
            )
        if mine not in (0, founded.cluster):
            theirs = identity_of(founded.cluster)
            return (
                f"this disk is of cluster {identity_of(mine)}, and the prefix in etcd of {theirs}:"
                f" {OTHER_CLUSTER}"
            )
        return ""

    def _waits(self, key: str, now: Instant) -> Effects:
        """Rule 31."""
        text = f"the record {key!r} under this prefix can't be read: put it back in etcd, or found"
        text = f"{text} the cluster anew from its nodes' folders (snowmelt rescue)"
        effects = [Note(f"{text} -> go on asking"), *self._deposed(text)]
        self._election.rest(now)
        return effects

    def _barred(self, reason: str) -> Effects:
        effects = self._deposed(reason)
        if self._follower.heard:
            return [*effects, Note(f"{reason} -> go on asking")]
        return [*effects, Halt(reason)]

    # --- coming to office, and losing it ----------------------------------------------------------

    def _leader(self) -> LeaderRecord:
        own = self._follower.member
        return LeaderRecord(own.id, own.address, own.birth, own.start, nonce=0)

    def _take_up(self, records: Records, now: Instant) -> Effects:
        """Rules 17 to 19: all records are read."""
        follower, written = self._follower, records.values.get(LEDGER)
        if written is None:
            return self._barred("the ledger is gone from under this prefix: put etcd's data back")
        try:
            ledger = Ledger.read(written)
        except StoreDamaged:
            return self._waits(LEDGER, now)
        application = follower.application(0)
        refusal = refused(application, ledger, JoinByEtcd)
        if refusal is not None:
            return [*self._deposed(refusal.reason), *follower.refused(refusal, now)]
        if follower.view is not None and follower.view.epoch > ledger.view.epoch:
            ledger = ledger.after(Surpass(follower.view.epoch))
        before = ledger.view.coordinator
        member = None if before == application.member.id else ledger.view.member(before)
        self._predecessor = None if member is None else (before, member)
        severed = later(self._suspects.get(before, START), self._settings.lease) > now
        if member is not None and severed:  # rule 28
            ledger = ledger.after(Remove(before, member.start))
        ledger = ledger.led(application.member, application.run)
        if self._doubt is not None:  # who comes next, should this one die, has it from the ledger
            unsure = max(ledger.unsure, since(now, self._doubt[1].end))
            ledger = msgspec.structs.replace(ledger, unsure=unsure)
        self._taking_up = ledger
        kept = [Change(_TAKEN_UP, LEDGER, ledger.written())]
        if not _sound(records.values.get(CLUSTER)):  # rule 31
            founded = msgspec.msgpack.encode(Founded(ledger.view.cluster, self._name))
            kept.append(Change(_TAKEN_UP, CLUSTER, founded))
        return records.keep(kept, now)

    def _kept(self, kept: tuple[Change, ...], now: Instant) -> Effects:
        effects: Effects = []
        homes, batons = (
            tuple(one.ticket for one in kept if one.key.startswith(kind))
            for kind in (HOMES, BATONS)
        )
        for change in kept:
            if change.key.startswith((HOMES, BATONS)):
                continue
            if self.keeper is not None:
                effects += self.keeper.settled(Persisted(change.ticket), now) or []
            elif change.key == LEDGER:
                effects += self._taken_up(now)
        if homes or batons:
            effects.append(Announce(RecordsKept(homes, batons)))
        return effects

    def _taken_up(self, now: Instant) -> Effects:
        """Rule 18: from now on this node decides."""
        ledger, records = self._taking_up, self._records
        assert ledger is not None
        assert records is not None
        me, self._taking_up = self._follower.identity.id, None
        homes, batons = records.under(HOMES), records.under(BATONS)
        records.values.clear()
        coordinator = EtcdCoordinator(ledger, self._tickets, me)
        self.keeper = MemberMonitor(self._settings, coordinator, JoinByEtcd)
        begun = self.keeper.begin(now, self._election.others_sure_until, self._doubt)
        unsure = self.keeper.unsure(now)
        return [
            Note(f"leads with {ledger.view}"),
            *begun,
            *(Send(one.id, Adopt(ledger.view, unsure)) for one in ledger.view.members),
            *([Announce(Unsure(later(now, unsure)))] if unsure else []),
            Announce(Leads(homes, batons)),
            *self._follower.direct(me, now),
        ]

    @property
    def _doubt(self) -> tuple[NodeId, PossibleLease] | None:
        # Rule 26.
        if self._predecessor is None:
            return None
        node, member = self._predecessor
        end = later(self._election.others_sure_until, self._settings.grace)
        return node, PossibleLease(member.start, end)

    def _deposed(self, reason: str) -> Effects:
        led = self.keeper is not None
        self._follower.currency.decides_no_more()
        self.keeper = self._records = self._taking_up = None
        effects: Effects = [Note(f"{reason} -> leads no more")] if led else []
        effects += self._election.step_down()
        if led:
            effects.append(Announce(LeadsNoMore()))
        return effects


def _sound(founded: bytes | None) -> bool:
    """Whether it is known whose the prefix is; nothing there is for another rule (17)."""
    try:
        return founded is None or bool(decoded(founded, Founded))
    except StoreDamaged:
        return False
