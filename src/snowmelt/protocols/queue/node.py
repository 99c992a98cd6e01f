"""The machine of a node: who hears what. All else is in its parts.

Every event goes the same way. It is given to the part it is for. What the parts say to each other
within this node is worked off. Then each queue that was touched makes a step, and the disk, if it
is free, begins to write.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from heapq import nsmallest
from random import Random
from typing import Any, Final, assert_never

from snowmelt.core.instant import Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import (
    Announced,
    Effect,
    Event,
    Expired,
    Loaded,
    Persist,
    Persisted,
    PersistFailed,
    Received,
    Requested,
    SetTimer,
    Started,
)
from snowmelt.core.users import fits
from snowmelt.protocols.calling import Came, Gone
from snowmelt.protocols.membership import (
    CutOff,
    Leads,
    LeadsNoMore,
    Leaving,
    RecordsKept,
    Slept,
    Unsure,
    View,
)
from snowmelt.protocols.queue import node_drain
from snowmelt.protocols.queue.api.drains import Drain
from snowmelt.protocols.queue.api.partition_names import whole_of
from snowmelt.protocols.queue.api.statuses import Overview, Overviewed
from snowmelt.protocols.queue.controller.controller import Controller
from snowmelt.protocols.queue.erasing import Erasing
from snowmelt.protocols.queue.follower import transfer
from snowmelt.protocols.queue.follower.body_store import BodyStore
from snowmelt.protocols.queue.follower.follower_role import FollowerRole
from snowmelt.protocols.queue.leader.leader import Leader
from snowmelt.protocols.queue.leader.terms import Terms
from snowmelt.protocols.queue.limits import LIMITS, QueueLimits
from snowmelt.protocols.queue.messages import home_words, words
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.metadata.finding import NO_VIEW
from snowmelt.protocols.queue.metadata.metadata_cache import MetadataCache
from snowmelt.protocols.queue.outbox import NODE, REST, Outbox
from snowmelt.protocols.queue.router import router
from snowmelt.protocols.queue.router.carrying import Carrying
from snowmelt.protocols.queue.router.parted_gets import PartedGets
from snowmelt.protocols.queue.router.parted_router import PartedRouter
from snowmelt.protocols.queue.router.router import PassingOn, RequestRouter
from snowmelt.protocols.queue.router.transaction_router import TransactionRouter
from snowmelt.protocols.queue.store import write_queue
from snowmelt.protocols.queue.store.copies import Copies
from snowmelt.protocols.queue.streams import Presence

Effects = list[Effect[Any]]
HELD_AT_ONCE: Final = 200
OF_NODE: Final = (Overview, Drain)


class QueueTimer(Enum):
    TICK = "queue.tick"


class QueueNode:
    """One node's part in all queues.

    With `alone` there is no other process that could hold a lease given before this one began.
    Which node leads is `on_disk` of the coordinator, or else in etcd. `secrets`, which nobody may
    foresee, are drawn for leases; there are none where all clients are one.
    """

    def __init__(
        self,
        me: NodeId,
        chance: Random,
        *,
        alone: bool = False,
        limits: QueueLimits = LIMITS,
        on_disk: bool = True,
        secrets: Random | None = None,
    ) -> None:
        outbox = self._outbox = Outbox(me, chance, limits, secrets)
        self._metadata = MetadataCache(outbox)
        self._controller = Controller(outbox, on_disk=on_disk)
        self._copies = Copies(outbox)
        self._terms = Terms(outbox, self._metadata, self._copies, alone=alone)
        self._following = FollowerRole(outbox, self._copies, self._terms)
        self._keeping = BodyStore(outbox, self._metadata, self._copies)
        self._carrying = Carrying(outbox, self._metadata, self._copies)
        self._transfer = transfer.Transfer(
            outbox, self._copies, self._terms, self._following, self._keeping
        )
        self._gathering = PartedGets(outbox, self._copies.bodies)
        self._crossing = PartedRouter(outbox, self._metadata, self._terms, self._gathering)
        self._transactions = TransactionRouter(outbox, self._metadata, self._terms)
        self._leaving = node_drain.NodeDrain(outbox, self._copies, self._keeping)
        disk, terms = self._copies.disk, self._terms
        self._erasing = Erasing(
            outbox, self._metadata, self._copies, self._terms, self._following, self._keeping,
            (self._carrying, self._gathering, self._transactions),
        )  # fmt: skip
        ways = self._transfer, self._carrying, self._gathering
        self._door = RequestRouter(outbox, self._metadata, disk, terms, *ways)
        self._late: dict[str, None] = {}
        """Queues that wait for the disk with their next step."""
        self._timer: Instant | None = None
        self._hears = self._table()
        self._hears |= PassingOn(outbox, self._hears).hears()

    def handle(self, event: Event[Any], now: Instant) -> Effects:
        self._outbox.now = now
        if type(event) is Requested:
            if type(event.message) in OF_NODE:
                self._of_node(event.operation, event.message)
            else:
                self._door.requested(event.operation, event.message)
        elif type(event) is Received:
            self._hears[type(event.message)](event.source, event.message)
        elif type(event) is Persisted:
            self._persisted(event)
        else:
            self._told(event, now)
        self._settle()
        return self._outbox.taken()

    @property
    def drained(self) -> str:
        """How far it is drained (`node_drain.py`)."""
        return self._leaving.standing

    def home_of(self, queue: str, term: int) -> home_words.Assignment | None:
        """Where a queue is at home in just this term, if that is known here."""
        return self._terms.home_of(queue, term) or self._metadata.home_of(queue, term)

    def check(self) -> None:
        for leader in self._terms.leaders.values():
            leader.check()

    def _told(self, event: Event[Any], now: Instant) -> None:
        outbox = self._outbox
        match event:
            case PersistFailed(ticket, reason):
                if ticket < write_queue.FIRST_TICKET:
                    outbox.written(event)
                else:
                    self._found_no_room(reason)
            case Loaded(ticket, found):
                self._transfer.loaded(ticket, found)
            case Expired(_, wall):
                self._timer = None
                if wall:
                    outbox.see_clock(wall, now)
                self._tick()
            case Announced(fact):
                self._announced(fact, now)
            case Started():
                outbox.set_wall(event.wall, now)
                self._copies.begin(event)
                self._keeping.begin(event)
                self._controller.begin(event)
            case _:
                pass

    def _announced(self, fact: Any, now: Instant) -> None:
        outbox = self._outbox
        match fact:
            case View():
                outbox.set_presence(Presence(fact, outbox.presence, now))
                self._controller.viewed()
                self._terms.viewed()
                self._crossing.viewed()
            case CutOff():
                outbox.set_presence(None)
                self._terms.cut_off()
                self._metadata.cut_off()
                self._carrying.cut_off()
            case Leads() | LeadsNoMore() | RecordsKept():
                self._controller.told(outbox.me, fact)
            case Unsure(until):
                self._controller.making.unsure = until
            case Slept(late):
                self._door.slept(late)
                self._controller.reads_old = later(now, router.READ_WITHIN)
            case Leaving(until):
                self._leaving.begin(until)
            case Came():
                outbox.payers.hear(fact)
            case Gone(client):
                self._carrying.gone(client)
                self._gathering.gone(client)
                for leader in self._terms.leaders.values():
                    leader.gone(client)
                outbox.payers.hear(fact)
            case _:
                pass

    def _of_node(self, operation: OperationId, ask: Overview | Drain) -> None:
        """What a client asks of this node, and of no queue."""
        if self._outbox.presence is None:
            self._outbox.decline(operation, "Unavailable", NO_VIEW)
        elif isinstance(ask, Drain):
            self._leaving.drain(operation, ask)
        else:
            told = overview(self._outbox.me, self._terms.leaders, ask)
            self._outbox.reply(operation, told)

    def _persisted(self, event: Persisted) -> None:
        if event.ticket < write_queue.FIRST_TICKET:
            self._outbox.written(event)
            return
        for queue, _, flush in self._copies.disk.written():
            self._flushed(queue, flush)
        if self._late:
            self._terms.touched.update(self._late)
            self._late.clear()

    def _flushed(self, queue: str, flush: words.Flush) -> None:
        match flush:
            case words.OwnStep(head):
                self._copies.of(queue).flushed = head
                self._terms.touched[queue] = None
            case words.OwnFence(term):
                self._terms.own_fence(queue, term)
            case words.SendWhenFlushed(target, message):
                if isinstance(message, words.Appended):
                    self._copies.of(queue).flushed = message.head
                if isinstance(message, words.BodyStored):
                    self._keeping.flushed(target, message)
                else:
                    self._outbox.send(target, message)
            case words.Replaced():
                self._following.replaced(queue, flush)
            case words.Thinned():
                self._terms.touched[queue] = None
            case words.Mended():
                pass
            case _:
                assert_never(flush)

    def _found_no_room(self, reason: str) -> None:
        """Whoever leads hears of it (`withdrawing.py`)."""
        outbox = self._outbox
        for queue, _, flush in self._copies.disk.failed(reason, outbox.now):
            leader = self._terms.leaders.get(queue)
            match flush:
                case words.OwnStep() if leader is not None:
                    leader.withdrawing.found(outbox.keeper, reason)
                    self._terms.touched[queue] = None
                case words.SendWhenFlushed(target, words.Appended(term=term)):
                    outbox.send(target, words.NoRoom(queue, term, outbox.keeper, reason))
                case words.Replaced(term=term) | words.SendWhenFlushed(_, words.Bring(term=term)):
                    self._terms.no_room(queue, term)
                case words.SendWhenFlushed(target, words.BodyStored() as message):
                    self._keeping.no_room(target, message, reason)
                case _:
                    pass

    def _tick(self) -> None:
        for name in self._outbox.alarms.over(self._outbox.now):
            if name == REST:
                self._outbox.finish()
                self._metadata.go_on()
            elif name == NODE:
                self._metadata.tick()
                self._controller.tick()
                self._terms.tick()
                self._erasing.tick()
                self._leaving.tick()
                self._carrying.tick()
                self._keeping.tick()
                self._gathering.tick()
            elif name in self._terms.leaders:
                self._terms.touched[name] = None
                self._terms.leaders[name].tick()

    def _settle(self) -> None:
        """Works off what parts say to each other; then steps are made, and the disk begins."""
        outbox, terms = self._outbox, self._terms
        while outbox.inside or terms.touched:
            while outbox.inside:
                message = outbox.inside.popleft()
                self._hears[type(message)](outbox.me, message)
            touched, terms.touched = terms.touched, {}
            for queue in touched:
                leader = terms.leaders.get(queue)
                if leader is None:
                    continue
                leader.step()
                if leader.state.changed:
                    self._late[queue] = None
                if not leader.serving:
                    terms.activate(leader)
        if not outbox.writing and outbox.due is not None:
            if outbox.due <= outbox.now:
                outbox.begin_write()
            else:
                outbox.wake(outbox.due)
        match self._copies.disk.begin(outbox.now):
            case Persist() as persist:
                outbox.effect(persist)
            case int(at):
                outbox.wake(at)
        wake_at = outbox.alarms.before(self._timer)
        if wake_at is not None:
            self._timer = wake_at
            outbox.effect(SetTimer(QueueTimer.TICK, wake_at))

    # --- what others say --------------------------------------------------------------------------

    def _home(self, source: NodeId, home: Assignment) -> None:
        queue, known = home.queue, self._metadata.home(home.queue)
        copy = self._copies.known(queue)
        for mine in (0 if known is None else known.term, 0 if copy is None else copy.fence):
            if self._outbox.alarm(source, queue, home.term, mine):
                return
        self._erasing.made(queue, home.since)
        self._terms.heard(home)
        self._metadata.heard(home)
        self._erasing.heard(source, home)
        self._crossing.heard(home)
        self._transactions.heard(home)

    def _seek(self, source: NodeId, seek: home_words.ListCopies) -> None:
        held, more = self._copies.held(seek.after, HELD_AT_ONCE)
        if self._outbox.stream:
            self._outbox.send(
                source, home_words.CopiesListed(self._outbox.stream, seek.after, held, more)
            )

    def _to_leader(self, _: NodeId, word: words.ToLeader) -> None:
        """For who leads here in that very term."""
        leader = self._terms.leading(word.queue, word.term)
        if leader is None:
            return
        match word:
            case words.Appended():
                leader.followers.appended(word.keeper, word.head)
            case words.Confirmed():
                leader.followers.confirmed(word.keeper, word.number)
            case words.AppendRejected():
                leader.followers.is_behind(word.keeper, word.head)
            case words.Fenced():
                leader.followers.fenced(word.keeper, word.head)
            case words.NoRoom():
                leader.withdrawing.found(word.keeper, word.reason)
            case words.BodyStored():
                leader.storing.stored(word)
            case words.Lacks():
                leader.storing.lacks(word)
            case words.Spare():
                if leader.serving and not leader.followers.backups:  # it is asked again
                    leader.storing.spare(word)
            case _:
                assert_never(word)

    def _of_copy(self, source: NodeId, word: words.AppendRejected | words.Fenced) -> None:
        """For who leads, or is to."""
        taking = self._terms.taking(word.queue, word.term)
        if taking is None:
            self._to_leader(source, word)
            return
        if isinstance(word, words.AppendRejected):
            taking.hurt[word.keeper] = None
        else:
            taking.told(word.keeper, word.head, sure=word.sure)
        self._terms.choose(word.queue, taking)

    def _of_body(self, source: NodeId, word: words.BodyStored | words.Lacks) -> None:
        """For who leads, and for the door of whose client it is."""
        self._to_leader(source, word)
        self._carrying.stored(source, word)

    def _done(self, _: NodeId, word: home_words.DeleteAnswered) -> None:
        self._outbox.reply(word.operation, word.answer)

    def _table(self) -> dict[type, Callable[[NodeId, Any], None]]:
        controller, metadata, erasing = self._controller, self._metadata, self._erasing
        deletions = controller.deletions
        return {
            home_words.Assignment: self._home,
            home_words.Nowhere: erasing.nowhere,
            home_words.Rolled: metadata.rolled,
            home_words.LocateQueue: controller.making.where,
            home_words.Roll: controller.making.roll,
            home_words.RequestTerm: controller.claim,
            home_words.Activate: controller.said,
            home_words.Quits: controller.quits,
            home_words.Needs: self._leaving.heard,
            home_words.Among: controller.said,
            home_words.ChangeSettings: controller.said,
            home_words.Unreached: controller.unreached,
            home_words.Aside: controller.unreached,
            home_words.DeleteQueue: deletions.asked,
            home_words.Close: erasing.close,
            home_words.CopyClosed: deletions.closed,
            home_words.EraseCopy: erasing.erase,
            home_words.Erased: deletions.erased,
            home_words.DeleteAnswered: self._done,
            home_words.ListCopies: self._seek,
            home_words.CopiesListed: controller.sought,
            words.Append: self._following.append,
            words.Appended: self._to_leader,
            words.AppendRejected: self._of_copy,
            words.NoRoom: self._to_leader,
            words.Confirm: self._following.confirm,
            words.Confirmed: self._to_leader,
            words.Fence: erasing.fence,
            words.Fenced: self._of_copy,
            words.Bring: self._transfer.bring,
            words.SnapshotChunk: self._following.piece,
            words.FetchBodies: self._transfer.fetch,
            words.FetchedBodies: self._transfer.fetched,
            words.Thin: self._transfer.thin,
            words.Superseded: self._terms.superseded,
            words.Offer: self._door.offer,
            words.Goes: self._carrying.goes,
            words.PutReply: self._carrying.told,
            words.StoreBody: self._keeping.store,
            words.BodyStored: self._of_body,
            words.Lacks: self._of_body,
            words.CopyBody: self._transfer.pass_on,
            words.Spare: self._to_leader,
            words.Spared: self._keeping.spared,
            words.Undo: self._transfer.undo,
            words.ReadBodies: self._transfer.wanted,
            words.Again: self._door.again,
            words.CallRouted: self._door.heard,
            words.AssignmentStored: controller.told,
            **self._crossing.hears(),
            **self._transactions.hears(),
        }


def overview(me: NodeId, leaders: Mapping[str, Leader], ask: Overview) -> Overviewed:
    """Some of them, in the order of their names."""
    behind = [name for name, one in leaders.items() if name > ask.after and one.serving]
    if ask.only:
        behind = [name for name in behind if fits(whole_of(name), ask.only)]
    names = nsmallest(ask.rows_max + 1, behind)
    rows = [leaders[name].status() for name in names[: ask.rows_max]]
    return Overviewed(me, tuple(rows), len(names) > len(rows))
