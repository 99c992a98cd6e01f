"""The membership machine: a follower, and on the deciding node a keeper beside it."""

from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Final

from snowmelt.core.instant import Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import (
    Announced,
    Effect,
    Event,
    Expired,
    Halt,
    Note,
    Persisted,
    PersistFailed,
    Received,
    Reply,
    Requested,
    Send,
    Started,
)
from snowmelt.protocols.calling import Declined, Elsewhere
from snowmelt.protocols.etcd import (
    ETCD,
    Answer,
    EtcdFailed,
    LeaseGranted,
    Refreshed,
    Revoked,
    Transacted,
)
from snowmelt.protocols.membership import messages
from snowmelt.protocols.membership.coordinator import DiskCoordinator
from snowmelt.protocols.membership.disk import VIEW, Unreadable, kept
from snowmelt.protocols.membership.facts import HandedOver, KeepRecord
from snowmelt.protocols.membership.leader_role import LeaderRole
from snowmelt.protocols.membership.member import MemberRole, MemberState, MemberTimer
from snowmelt.protocols.membership.monitor import KeeperTimer, MemberMonitor
from snowmelt.protocols.membership.settings import Identity, MembershipSettings
from snowmelt.protocols.membership.view import Severed

Effects = list[Effect[object]]

UNFOUNDED: Final = (
    "this folder is of no cluster: to join one, name nodes of it with --join; to begin a new one,"
    " say snowmelt found first; if the node was a member, its disk is missing here: mount it"
)


class MembershipNode:
    """One node's whole part in membership.

    With `etcd`, the cluster's name, any node may come to decide; else who has the disk does on
    which the cluster was founded. With `hands_over` another machine of the node hands over what
    only this node has before it leaves (rule 30).

    >>> from snowmelt.core.names import Address, node_id
    >>> from snowmelt.core.record import Record
    >>> from snowmelt.protocols.membership.founding import on_disk
    >>> identity = Identity(id=node_id("n1"), address=Address("127.0.0.1", 4410))
    >>> node = MembershipNode(identity, MembershipSettings(), Random(1))
    >>> found = Started(tuple(Record(one.key, one.value) for one in on_disk(7, "n1")))
    >>> [type(effect).__name__ for effect in node.handle(found, Instant(0))]
    ['Persist', 'SetTimer']
    """

    def __init__(
        self,
        identity: Identity,
        settings: MembershipSettings,
        chance: Random,
        etcd: str = "",
        *,
        hands_over: bool = False,
    ) -> None:
        self._settings = settings
        self._chance = chance
        self._tickets: Iterator[int] = count(1)
        joins = messages.JoinByEtcd if etcd else messages.Join
        follower = self._follower = MemberRole(
            identity, settings, chance, self._tickets, joins, hands_over=hands_over
        )
        self._office = LeaderRole(follower, settings, chance, self._tickets, etcd) if etcd else None
        self._own_keeper: MemberMonitor | None = None

    @property
    def _keeper(self) -> MemberMonitor | None:
        """Who hears the members, while this node decides."""
        return self._own_keeper if self._office is None else self._office.keeper

    def handle(self, event: Event[messages.Message | messages.Request], now: Instant) -> Effects:
        if self._office is None:
            return self._handled(event, now)
        effects = [*self._office.before(now), *self._handled(event, now)]
        if effects and isinstance(effects[-1], Halt):
            return effects
        return [*effects, *self._office.after(now)]

    def _handled(self, event: Event[messages.Message | messages.Request], now: Instant) -> Effects:
        effects = self._follower.expire(now)
        match event:
            case Received(source, messages.Accepted() | messages.Adopt() as word) if self._alarm(
                source, word
            ):
                return [*effects, Note(f"{self._alarm(source, word)} -> passed over")]
            case Received(source, message):
                return effects + self._received(source, message, now)
            case Expired(MemberTimer.SPEAK):
                return effects + self._follower.speak(now)
            case Expired(KeeperTimer.SWEEP) if self._keeper is not None:
                return effects + self._keeper.swept(now)
            case Persisted() | PersistFailed():
                return effects + self._settled(event, now)
            case Announced(Severed(node)):
                return effects + self._severed(node, now)
            case Announced(HandedOver() as word):
                return effects + self._follower.handed_over(word, now)
            case Requested(operation, request):
                return effects + self._requested(operation, request, now)
            case Started():
                return self._started(event, now)
            case _:
                return effects

    def check(self) -> None:
        self._follower.check()
        if self._own_keeper is not None:
            self._own_keeper.check()
        if self._office is not None:
            self._office.check()

    def _started(self, event: Started, now: Instant) -> Effects:
        try:
            found = kept(event)
        except Unreadable as error:
            return [Halt(str(error))]
        if found.moved and self._office is None:
            moved = f"etcd decides for this cluster: start with --coordinator {found.moved}"
            return [Halt(moved)]
        alone = self._office is None and not self._follower.identity.contacts
        lonely = found.ledger is None and alone
        if lonely and VIEW in event.damaged:
            return [Halt("the view on this disk can't be read; name a member of its cluster")]
        if lonely and found.view is None:
            return [Halt(UNFOUNDED)]
        effects = self._follower.begin(found)
        if isinstance(effects[-1], Halt):
            return effects
        if self._office is not None:
            return self._office.begin(found) or effects
        if found.ledger is not None:
            decides = DiskCoordinator(found.ledger, self._tickets)
            self._own_keeper = MemberMonitor(self._settings, decides)
            effects += self._own_keeper.begin(now)
        return effects

    def _received(
        self,
        source: NodeId,
        message: messages.Message | messages.Request | Answer | KeepRecord,
        now: Instant,
    ) -> Effects:
        match message:
            case LeaseGranted() | Refreshed() | Revoked() | Transacted() | EtcdFailed():
                known = source == ETCD and self._office is not None
                return self._office.answered(message, now) if known and self._office else []
            case KeepRecord():
                known = source == self._follower.identity.id and self._office is not None
                return self._office.keep(message, now) if known and self._office else []
            case messages.Accepted():
                own = self._office is not None and source == self._follower.identity.id
                return self._follower.accepted(message, now, own=own)
            case messages.Adopt(view, unsure):
                self._follower.doubts.told(view.epoch, later(now, unsure))
                return self._follower.adopt(view) if self._follower.view else []
            case messages.Refused():
                return self._follower.refused(message, now)
            case messages.Redirected():
                return self._follower.redirected(message, now)
            case messages.LeftView():
                return self._follower.left(message)
            case messages.Join():
                if self._keeper is None:
                    return self._redirect(source, message)
                return self._keeper.join(source, message, now)
            case messages.Heartbeat() if self._keeper is not None:
                return self._keeper.heartbeat(source, message, now)
            case messages.Leave() if self._keeper is not None:
                return self._keeper.leave(source, message)
            case _:
                return []  # meant for a coordinator, which this node is not; it will be said again

    def _alarm(self, source: NodeId, word: messages.Accepted | messages.Adopt) -> str:
        """Rule 6, of a member: whether it is told of a view that nobody can have counted to."""
        epochs = [] if word.view is None else [word.view.epoch]
        epochs += [] if isinstance(word, messages.Adopt) else [word.epoch]
        view = self._follower.view
        return "" if view is None else view.alarm(max(epochs), source)

    def _redirect(self, source: NodeId, join: messages.Join) -> Effects:
        view = self._follower.view
        decider = view.member(view.coordinator) if view else None
        if decider is None or decider.id == self._follower.identity.id:
            return []  # nobody is known, or it was this node, which leads no more
        return [Send(source, messages.Redirected(join.run, decider.id, decider.address))]

    def _severed(self, node: NodeId, now: Instant) -> Effects:
        # Rules 27 and 28.
        if self._office is not None:
            return self._office.severed(node, now)
        return [] if self._own_keeper is None else self._own_keeper.severed(node, now)

    def _settled(self, event: Persisted | PersistFailed, now: Instant) -> Effects:
        if self._keeper is not None:
            effects = self._keeper.settled(event, now)
            if effects is not None:
                return effects
        return self._follower.settled(event, now)

    def _requested(
        self, operation: OperationId, request: messages.Message | messages.Request, now: Instant
    ) -> Effects:
        match request:
            case messages.GetStatus():
                return [Reply(operation, self._status(now))]
            case messages.Forget() if self._keeper is not None:
                return self._keeper.forget(operation, request)
            case messages.Forget():
                return [Reply(operation, self._elsewhere())]
            case messages.Depart() if self._own_keeper is not None:
                text = "the coordinator can't leave: views are decided on its disk; stop it instead"
                return [Reply(operation, Declined("StateError", text))]
            case messages.Depart(patience):
                return self._follower.depart(operation, patience, now)
            case _:
                text = f"{type(request).__name__} is between nodes"
                return [Reply(operation, Declined("MessageError", text))]

    def _status(self, now: Instant) -> messages.Status:
        follower = self._follower
        silent = self._keeper.silent(now) if self._keeper else {}
        view = follower.view if follower.standing is not MemberState.WAKING else None
        return messages.Status(follower.identity.id, follower.standing.value, view, silent)

    def _elsewhere(self) -> Elsewhere | Declined:
        view = self._follower.view
        decider = view.member(view.coordinator) if view else None
        if decider is None or decider.id == self._follower.identity.id:
            return Declined("Unavailable", "this node knows nobody who decides just now")
        return Elsewhere(decider.id, decider.address)
