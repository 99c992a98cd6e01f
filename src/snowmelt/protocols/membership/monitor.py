"""The deciding node's side of membership: rules 1 to 6 of the package."""

from enum import Enum
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, since, spelled
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Note, Persisted, PersistFailed, Reply, Send, SetTimer
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.membership.coordinator import Coordinator
from snowmelt.protocols.membership.messages import (
    Accepted,
    Adopt,
    Forget,
    Forgotten,
    Heartbeat,
    Join,
    Leave,
    LeftView,
    Refused,
)
from snowmelt.protocols.membership.settings import MembershipSettings
from snowmelt.protocols.membership.view import (
    EPOCHS_AHEAD,
    OTHER_CLUSTER,
    Admit,
    FreeId,
    Ledger,
    Member,
    Remove,
    Surpass,
    identity_of,
)

Effects = list[Effect[object]]


NOBODYS: Final = NodeId("")


class PossibleLease(msgspec.Struct, frozen=True):
    """Until when a start of a node that was left out may be current."""

    start: int
    end: Instant


class KeeperTimer(Enum):
    SWEEP = "membership.sweep"


class MemberMonitor:
    """Hears the members, and proposes what should change."""

    def __init__(
        self, settings: MembershipSettings, coordinator: Coordinator, joins: type[Join] = Join
    ) -> None:
        self._settings = settings
        self._joins = joins
        self._coordinator = coordinator
        self._heard: dict[NodeId, Instant] = {}
        self._joining: dict[NodeId, tuple[NodeId, Join]] = {}
        self._leaving: dict[NodeId, tuple[NodeId, Leave]] = {}
        self._forgetting: dict[NodeId, list[OperationId]] = {}
        self._leapt = self._surpassed = 0
        """By how much views were surpassed in this life, and up to which."""
        self._sweep_due: Instant | None = None
        self._doubts: dict[NodeId, PossibleLease] = {}
        """Who may be current though the view lacks them; under no name, whoever it may be."""

    def begin(
        self,
        now: Instant,
        heard: Instant | None = None,
        doubt: tuple[NodeId, PossibleLease] | None = None,
    ) -> Effects:
        """Gives every member the whole time to be heard, from now or from `heard` on.

        But not whom it has a `doubt` about, who led before (rule 26).
        """
        decided = self._coordinator.decided
        self._heard = {member.id: heard or now for member in decided.view.members}
        self._doubts[NOBODYS] = PossibleLease(0, later(now, decided.unsure))
        if doubt is not None:
            node, one = doubt
            self._doubts[node] = one
            if node in self._heard:
                self._heard[node] = Instant(one.end - self._settings.patience)
        self._coordinator.unsure = self.unsure(now)
        return self._sweep_later(now)

    def unsure(self, now: Instant) -> Duration:
        """For how long somebody may be current whom the view lacks (rule 27)."""
        self._doubts = {node: one for node, one in self._doubts.items() if one.end > now}
        ends = [one.end for one in self._doubts.values()]
        return since(now, max(ends, default=now))

    def severed(self, node: NodeId, now: Instant) -> Effects:
        """Rule 27: a hint that a member is no more."""
        view = self._coordinator.decided.view
        member = view.member(node)
        if member is None or node == view.coordinator or self._going(node, member.start):
            return []
        self._doubts[node] = PossibleLease(
            member.start, later(self._heard[node], self._settings.patience)
        )
        self._coordinator.unsure = unsure = self.unsure(now)
        text = f"{node} refuses connections -> propose a view without it"
        return [
            Note(f"{text}, unsure for {spelled(unsure)}"),
            *self._coordinator.propose(Remove(node, member.start)),
        ]

    @property
    def epoch(self) -> int:
        return self._coordinator.decided.view.epoch

    def check(self) -> None:
        """Whoever is in the view is listened for, and nobody else is."""
        members = [member.id for member in self._coordinator.decided.view.members]
        assert sorted(self._heard) == members, (sorted(self._heard), members)

    def silent(self, now: Instant) -> dict[NodeId, int]:
        """For how long each member has not been heard, in nanoseconds."""
        return {node: max(0, since(self._heard[node], now)) for node in sorted(self._heard)}

    # --- what members say -------------------------------------------------------------------------

    def join(self, source: NodeId, join: Join, now: Instant) -> Effects:
        # Rule 2.
        return self._alarm(source, join) or [
            *self._surpassing(join),
            *self._joined(source, join, now),
        ]

    def _joined(self, source: NodeId, join: Join, now: Instant) -> Effects:
        ledger = self._coordinator.decided
        member = join.member
        if member.id != source:  # the network vouches for the source, nobody for the rest
            return [Note(f"{source} asks to join as {member.id} -> passed over")]
        refusal = refused(join, ledger, self._joins)
        if refusal is not None:
            return [
                Note(f"{member.id} asks to join: {refusal.reason} -> refused"),
                Send(source, refusal),
            ]
        if ledger.view.member(member.id) == member:
            self._heard[member.id] = max(self._heard[member.id], now)
            if not self._going(member.id, member.start):
                return [Send(source, self._accepted(join, now))]
        if self._doubted(member, now):
            return [Note(f"{member.id} asks to join, and may not know that it is out -> it waits")]
        self._joining[member.id] = source, join
        return [
            Note(f"{member.id} asks to join with start {member.start} -> propose it"),
            *self._coordinator.propose(Admit(member, join.run)),
        ]

    def heartbeat(self, source: NodeId, beat: Heartbeat, now: Instant) -> Effects:
        # Rule 3.
        return self._alarm(source, beat) or [
            *self._surpassing(beat),
            *self._beaten(source, beat, now),
        ]

    def _beaten(self, source: NodeId, beat: Heartbeat, now: Instant) -> Effects:
        ledger = self._coordinator.decided
        known = ledger.bound(source)
        if beat.cluster != ledger.view.cluster:
            return [Send(source, _other_cluster(beat, ledger))]
        if known is not None and (known.birth, known.start) == (beat.birth, beat.start):
            if known.run != beat.run:
                return [Send(source, _used_twice(beat.run, source))]
            if self._going(source, beat.start):
                return [Note(f"{source} is being left out, its heartbeat came late -> no answer")]
            if ledger.view.member(source) is not None:
                self._heard[source] = max(self._heard[source], now)
                return [Send(source, self._accepted(beat, now))]
        if known is not None and known.birth == beat.birth and known.start > beat.start:
            return [Send(source, _superseded(beat.run, source, known.start))]
        reason = f"{source} is not in view {ledger.view.epoch}"
        return [
            Note(f"{reason}, its heartbeat came late -> it must join again"),
            Send(source, Refused(beat.run, reason, final=False, number=beat.number)),
        ]

    def _alarm(self, source: NodeId, word: Join | Heartbeat) -> Effects:
        """Rule 6: no view is made above one that nobody can have counted to.

        Nor by many words, each a little ahead: what a disk has missed is missed once.
        """
        view = self._coordinator.decided.view
        room = EPOCHS_AHEAD - self._leapt
        alarm = view.alarm(word.epoch, source, room) if word.cluster == view.cluster else ""
        if not alarm:
            return []
        reason = (
            f"this disk knows view {word.epoch}, far above view {view.epoch} of this cluster: start"
            " the coordinator with its latest disk"
        )
        return [
            Note(f"{alarm} -> refused, and no view is made above it"),
            Send(source, Refused(word.run, reason, final=True)),
        ]

    def _surpassing(self, word: Join | Heartbeat) -> Effects:
        """Rule 6: whoever speaks may know more views than this disk."""
        view = self._coordinator.decided.view
        other = word.epoch == view.epoch and word.mark not in (0, view.mark)
        if word.cluster != view.cluster or not (word.epoch > view.epoch or other):
            return []
        text = f"view {word.epoch} is known, and {view.epoch} is the last here: the disk is a copy"
        note = Note(f"{text} -> propose a view above it")
        self._leapt += max(0, word.epoch - max(view.epoch, self._surpassed))
        self._surpassed = max(self._surpassed, word.epoch)
        return [note, *self._coordinator.propose(Surpass(word.epoch))]

    def leave(self, source: NodeId, leave: Leave) -> Effects:
        # Rule 6.
        ledger = self._coordinator.decided
        if leave.cluster != ledger.view.cluster:
            return [Send(source, _other_cluster(leave, ledger))]
        present = ledger.view.member(source)
        if present is None or present.start != leave.start:
            return [Send(source, LeftView(leave.run))]
        known = ledger.bound(source)
        if known is not None and known.run != leave.run:
            return [Send(source, _used_twice(leave.run, source))]
        self._leaving[source] = source, leave
        return [
            Note(f"{source} leaves in order -> propose a view without it"),
            *self._coordinator.propose(Remove(source, leave.start)),
        ]

    def forget(self, operation: OperationId, forget: Forget) -> Effects:
        # Rule 6.
        ledger = self._coordinator.decided
        if ledger.view.member(forget.node) is not None:
            return [Reply(operation, _present(forget.node, ledger.view.epoch))]
        if ledger.bound(forget.node) is None:
            return [Reply(operation, Forgotten(forget.node))]
        self._forgetting.setdefault(forget.node, []).append(operation)
        return self._coordinator.propose(FreeId(forget.node))

    # --- what time and the disk say ---------------------------------------------------------------

    def swept(self, now: Instant) -> Effects:
        # Rules 4 and 5.
        assert self._sweep_due is not None
        late = since(self._sweep_due, now)
        if late > self._settings.interval:
            self._heard = {node: max(heard, now) for node, heard in self._heard.items()}
            note = Note(f"the sweep came {spelled(late)} late -> all members get the whole time")
            return [note, *self._sweep_later(now)]
        effects: Effects = []
        self._coordinator.unsure = self.unsure(now)
        view = self._coordinator.decided.view
        for member in view.members:
            silence = since(self._heard[member.id], now)
            itself = member.id == view.coordinator
            if silence >= self._settings.patience and not itself:
                text = f"{member.id} silent for {spelled(silence)} -> propose a view without it"
                effects.append(Note(text))
                effects += self._coordinator.propose(Remove(member.id, member.start))
        return [*effects, *self._sweep_later(now)]

    def settled(self, event: Persisted | PersistFailed, now: Instant) -> Effects | None:
        """A decision is safe: now, and not before, it is told (rule 1)."""
        before = self._coordinator.decided.view
        decision = self._coordinator.settle(event)
        if decision is None:
            return None
        view = decision.ledger.view
        self._heard = {
            # A joiner counts from its admission, a member from what was last heard of it.
            member.id: self._heard.get(member.id, now) if member in before.members else now
            for member in view.members
        }
        for member in view.members:  # of two starts of one node the first has ended
            if member.id in self._doubts and self._doubts[member.id].start < member.start:
                del self._doubts[member.id]
        effects: Effects = []
        if view != before:
            effects.append(Note(f"decided {view}"))
            effects += [Send(one.id, Adopt(view, self.unsure(now))) for one in view.members]
        return [*effects, *self._answers(now), *decision.effects]

    def _answers(self, now: Instant) -> Effects:
        """Answers whoever waited for a decision that has now been made."""
        ledger = self._coordinator.decided
        effects: Effects = []
        for node, (source, join) in list(self._joining.items()):
            known = ledger.bound(node)
            if ledger.view.member(node) == join.member and known and known.run == join.run:
                del self._joining[node]
                effects.append(Send(source, self._accepted(join, now)))
        for node, (source, leave) in list(self._leaving.items()):
            present = ledger.view.member(node)
            if present is None or present.start != leave.start:
                del self._leaving[node]
                effects.append(Send(source, LeftView(leave.run)))
        for node, operations in list(self._forgetting.items()):
            answer: Forgotten | Declined
            if ledger.bound(node) is None:
                answer = Forgotten(node)
            elif ledger.view.member(node) is not None:  # it joined first
                answer = _present(node, ledger.view.epoch)
            else:
                continue
            del self._forgetting[node]
            effects += [Reply(operation, answer) for operation in operations]
        return effects

    # --- small decisions --------------------------------------------------------------------------

    def _doubted(self, member: Member, now: Instant) -> bool:
        """Whether this very start was left out, and may be current (rule 27).

        This may be an old word of it; and nobody comes back into a view who was in the one before
        all the time.
        """
        known = self._coordinator.decided.bound(member.id)
        if known is None or known.start != member.start:
            return False
        doubts = (self._doubts.get(who) for who in (member.id, NOBODYS))
        return any(one is not None and one.end > now for one in doubts)

    def _going(self, node: NodeId, start: int) -> bool:
        """Whether it may be out of the view at any moment: to accept it now would be a lie."""
        return self._coordinator.undecided(Remove(node, start))

    def _accepted(self, word: Join | Heartbeat, now: Instant) -> Accepted:
        view = self._coordinator.decided.view
        newer = view if view.epoch > word.epoch else None
        return Accepted(word.number, word.run, view.epoch, newer, self.unsure(now))

    def _sweep_later(self, now: Instant) -> Effects:
        soonest = min(self._heard.values(), default=now)
        due = later(soonest, self._settings.patience)
        # Whoever is overdue was proposed for removal; look again whether that came to be. A look
        # every interval, though nobody can be overdue yet, shows a sleep or a leap (rule 5).
        look = due if due > now else later(now, self._settings.grace)
        self._sweep_due = min(look, later(now, self._settings.interval))
        return [SetTimer(KeeperTimer.SWEEP, self._sweep_due)]


def refused(join: Join, ledger: Ledger, joins: type[Join]) -> Refused | None:
    """Why a node may not come in, or not yet (rule 2); `joins` are of who has the same decider."""
    member, known = join.member, ledger.bound(join.member.id)
    if join.cluster not in (0, ledger.view.cluster):
        return _other_cluster(join, ledger)
    if type(join) is not joins:
        decider = "a disk" if joins is Join else "etcd"
        reason = f"{decider} decides here: start with the same --coordinator as the other nodes"
        return Refused(join.run, reason, final=True)
    last, first = ledger.left_out
    if last < join.epoch < first:  # rule 23
        reason = (
            f"this disk was in view {join.epoch}, and the cluster was founded anew by disks that "
            f"knew {last} at most: keep this folder, and found the cluster once more with it among "
            "the others (snowmelt rescue), or start a node of another --id on a new folder"
        )
        return Refused(join.run, reason, final=True)
    if known is None:
        return None
    if known.birth != member.birth:
        reason = (
            f"the id {member.id} belongs to another disk; start with that disk, choose another"
            f" id, or free it with: snowmelt forget {member.id}"
        )
        return Refused(join.run, reason, final=True)
    if member.start < known.start:
        return _superseded(join.run, member.id, known.start)
    if member.start == known.start and join.run != known.run:
        return _used_twice(join.run, member.id)
    return None


def _present(node: NodeId, epoch: int) -> Declined:
    return Declined("StateError", f"{node} is present in view {epoch}; stop it first")


def _other_cluster(word: Join | Heartbeat | Leave, ledger: Ledger) -> Refused:
    reason = (
        f"this disk is of cluster {identity_of(word.cluster)}, and {ledger.view.coordinator} is of"
        f" {ledger.view.identity}: {OTHER_CLUSTER}"
    )
    return Refused(word.run, reason, final=True)


def _superseded(run: int, node: NodeId, start: int) -> Refused:
    reason = f"{node} began again (start {start}) since this process began"
    return Refused(run, reason, final=True, superseded=True)


def _used_twice(run: int, node: NodeId) -> Refused:
    reason = f"the id {node} is used by another process on a copy of this disk"
    return Refused(run, reason, final=True, superseded=True)
