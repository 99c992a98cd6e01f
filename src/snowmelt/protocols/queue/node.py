"""The machine of a node: who hears what. All else is in its parts.

Every event goes the same way: it is given to the part it is for; what the parts say to each other
within this node is worked off; then each queue that was touched makes a step, and the disk, if it
is free, begins to write.
"""

from collections.abc import Callable
from enum import Enum
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
from snowmelt.protocols.calling import Gone
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
from snowmelt.protocols.queue import disk, door, leaving, messages, transfer, words
from snowmelt.protocols.queue.carrying import Carrying
from snowmelt.protocols.queue.copies import Copies
from snowmelt.protocols.queue.desk import NODE, REST, Desk
from snowmelt.protocols.queue.directory import Directory
from snowmelt.protocols.queue.door import Door
from snowmelt.protocols.queue.drains import Drain
from snowmelt.protocols.queue.erasing import Erasing
from snowmelt.protocols.queue.finding import NO_VIEW
from snowmelt.protocols.queue.following import Following
from snowmelt.protocols.queue.keeping import Keeping
from snowmelt.protocols.queue.limits import LIMITS, Limits
from snowmelt.protocols.queue.messages import Home
from snowmelt.protocols.queue.overview import overview
from snowmelt.protocols.queue.parted.crossing import Crossing
from snowmelt.protocols.queue.parted.gathering import Gathering
from snowmelt.protocols.queue.registry import Registry
from snowmelt.protocols.queue.statuses import Overview
from snowmelt.protocols.queue.streams import Presence
from snowmelt.protocols.queue.terms import Terms

Effects = list[Effect[Any]]
HELD_AT_ONCE: Final = 200
OF_NODE: Final = (Overview, Drain)


class QueueTimer(Enum):
    TICK = "queue.tick"


class QueueNode:
    """One node's part in all queues.

    With `alone` there is no other process that could hold a lease given before this one began.
    Which node leads is `on_disk` of the coordinator, or else in etcd.
    """

    def __init__(
        self,
        me: NodeId,
        chance: Random,
        *,
        alone: bool = False,
        limits: Limits = LIMITS,
        on_disk: bool = True,
    ) -> None:
        desk = self._desk = Desk(me, chance, limits)
        self._directory = Directory(desk)
        self._registry = Registry(desk, on_disk=on_disk)
        self._copies = Copies(desk)
        self._terms = Terms(desk, self._directory, self._copies, alone=alone)
        self._following = Following(desk, self._copies, self._terms)
        self._keeping = Keeping(desk, self._directory, self._copies)
        self._carrying = Carrying(desk, self._directory, self._copies)
        self._transfer = transfer.Transfer(
            desk, self._copies, self._terms, self._following, self._keeping
        )
        self._gathering = Gathering(desk, self._copies.bodies)
        self._crossing = Crossing(desk, self._directory, self._terms, self._gathering)
        self._leaving = leaving.Leaving(desk, self._copies, self._keeping)
        disk, terms = self._copies.disk, self._terms
        self._erasing = Erasing(
            desk, self._directory, self._copies, self._terms, self._following, self._keeping,
            (self._carrying, self._gathering),
        )  # fmt: skip
        ways = self._transfer, self._carrying, self._gathering
        self._door = Door(desk, self._directory, disk, terms, *ways)
        self._late: dict[str, None] = {}
        """Queues that wait for the disk with their next step."""
        self._timer: Instant | None = None
        self._hears = self._table()

    def handle(self, event: Event[Any], now: Instant) -> Effects:
        """One door in."""
        self._desk.now = now
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
        return self._desk.taken()

    def check(self) -> None:
        for leader in self._terms.leaders.values():
            leader.check()

    def _told(self, event: Event[Any], now: Instant) -> None:
        desk = self._desk
        match event:
            case PersistFailed(ticket, reason):
                if ticket < disk.FIRST_TICKET:
                    desk.written(event)
                else:
                    self._found_no_room(reason)
            case Loaded(ticket, found):
                self._transfer.loaded(ticket, found)
            case Expired():
                self._timer = None
                self._tick()
            case Announced(fact):
                self._announced(fact, now)
            case Started():
                desk.set_wall(event.wall, now)
                self._copies.begin(event)
                self._keeping.begin(event)
                self._registry.begin(event)
            case _:
                pass

    def _announced(self, fact: Any, now: Instant) -> None:
        desk = self._desk
        match fact:
            case View():
                desk.set_presence(Presence(fact, desk.presence, now))
                self._registry.viewed()
                self._terms.viewed()
                self._crossing.viewed()
            case CutOff():
                desk.set_presence(None)
                self._terms.cut_off()
                self._directory.cut_off()
                self._carrying.cut_off()
            case Leads() | LeadsNoMore() | RecordsKept():
                self._registry.told(desk.me, fact)
            case Unsure(until):
                self._registry.making.unsure = until
            case Slept(late):
                self._door.slept(late)
                self._registry.reads_old = later(now, door.READ_WITHIN)
            case Leaving(until):
                self._leaving.begin(until)
            case Gone(client):
                self._carrying.gone(client)
                self._gathering.gone(client)
                for leader in self._terms.leaders.values():
                    leader.gone(client)
            case _:
                pass

    def _of_node(self, operation: OperationId, ask: Overview | Drain) -> None:
        """What a client asks of this node, and of no queue."""
        if self._desk.presence is None:
            self._desk.decline(operation, "Unavailable", NO_VIEW)
        elif isinstance(ask, Drain):
            self._leaving.drain(operation, ask)
        else:
            told = overview(self._desk.me, self._terms.leaders, ask)
            self._desk.reply(operation, told)

    def _persisted(self, event: Persisted) -> None:
        if event.ticket < disk.FIRST_TICKET:
            self._desk.written(event)
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
            case words.Tell(target, message):
                if isinstance(message, words.Appended):
                    self._copies.of(queue).flushed = message.head
                if isinstance(message, words.Stored):
                    self._keeping.flushed(target, message)
                else:
                    self._desk.send(target, message)
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
        desk = self._desk
        for queue, _, flush in self._copies.disk.failed(reason, desk.now):
            leader = self._terms.leaders.get(queue)
            match flush:
                case words.OwnStep() if leader is not None:
                    leader.withdrawing.found(reason)
                    self._terms.touched[queue] = None
                case words.Tell(target, words.Appended(term=term)):
                    desk.send(target, words.NoRoom(queue, term, desk.keeper, reason))
                case words.Replaced(term=term) | words.Tell(_, words.Bring(term=term)):
                    self._terms.no_room(queue, term)
                case words.Tell(target, words.Stored() as message):
                    self._keeping.no_room(target, message, reason)
                case _:
                    pass

    def _tick(self) -> None:
        for name in self._desk.alarms.due(self._desk.now):
            if name == REST:
                self._desk.finish()
            elif name == NODE:
                self._directory.tick()
                self._registry.tick()
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
        desk, terms = self._desk, self._terms
        while desk.inside or terms.touched:
            while desk.inside:
                message = desk.inside.popleft()
                self._hears[type(message)](desk.me, message)
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
        if not desk.writing and desk.due is not None:
            if desk.due <= desk.now:
                desk.begin_write()
            else:
                desk.wake(desk.due)
        match self._copies.disk.begin(desk.now):
            case Persist() as persist:
                desk.effect(persist)
            case int(at):
                desk.wake(at)
        wake_at = desk.alarms.before(self._timer)
        if wake_at is not None:
            self._timer = wake_at
            desk.effect(SetTimer(QueueTimer.TICK, wake_at))

    # --- what others say --------------------------------------------------------------------------

    def _home(self, source: NodeId, home: Home) -> None:
        queue, known = home.queue, self._directory.home(home.queue)
        copy = self._copies.known(queue)
        for mine in (0 if known is None else known.term, 0 if copy is None else copy.fence):
            if self._desk.alarm(source, queue, home.term, mine):
                return
        self._erasing.made(queue, home.since)
        self._terms.heard(home)
        self._directory.heard(home)
        self._erasing.heard(source, home)
        self._crossing.heard(home)

    def _seek(self, source: NodeId, seek: messages.Seek) -> None:
        held, more = self._copies.held(seek.after, HELD_AT_ONCE)
        if self._desk.stream:
            self._desk.send(source, messages.Sought(self._desk.stream, seek.after, held, more))

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
            case words.Behind():
                leader.followers.is_behind(word.keeper, word.head)
            case words.Fenced():
                leader.followers.fenced(word.keeper, word.head)
            case words.NoRoom():
                leader.withdrawing.found(word.reason)
            case words.Stored():
                leader.storing.stored(word)
            case words.Lacks():
                leader.storing.lacks(word)
            case words.Spare():
                if leader.serving and not leader.followers.backups:  # it is asked again
                    leader.storing.spare(word)
            case _:
                assert_never(word)

    def _of_copy(self, source: NodeId, word: words.Behind | words.Fenced) -> None:
        """For who leads, or is to."""
        taking = self._terms.taking(word.queue, word.term)
        if taking is None:
            self._to_leader(source, word)
            return
        if isinstance(word, words.Behind):
            taking.hurt[word.keeper] = None
        else:
            taking.told(word.keeper, word.head, sure=word.sure)
        self._terms.choose(word.queue, taking)

    def _of_body(self, source: NodeId, word: words.Stored | words.Lacks) -> None:
        """For who leads, and for the door of whose client it is."""
        self._to_leader(source, word)
        self._carrying.stored(source, word)

    def _done(self, _: NodeId, word: messages.Done) -> None:
        self._desk.reply(word.operation, word.answer)

    def _table(self) -> dict[type, Callable[[NodeId, Any], None]]:
        registry, directory, erasing = self._registry, self._directory, self._erasing
        deletions = registry.deletions
        return {
            messages.Home: self._home,
            messages.Nowhere: erasing.nowhere,
            messages.Rolled: directory.rolled,
            messages.Where: registry.making.where,
            messages.Roll: registry.making.roll,
            messages.Claim: registry.claim,
            messages.Activate: registry.said,
            messages.Quits: registry.quits,
            messages.Needs: self._leaving.heard,
            messages.Among: registry.said,
            messages.Alter: registry.said,
            messages.Unreached: registry.unreached,
            messages.Aside: registry.unreached,
            messages.Delete: deletions.asked,
            messages.Close: erasing.close,
            messages.Closed: deletions.closed,
            messages.Erase: erasing.erase,
            messages.Erased: deletions.erased,
            messages.Done: self._done,
            messages.Seek: self._seek,
            messages.Sought: registry.sought,
            words.Append: self._following.append,
            words.Appended: self._to_leader,
            words.Behind: self._of_copy,
            words.NoRoom: self._to_leader,
            words.Confirm: self._following.confirm,
            words.Confirmed: self._to_leader,
            words.Fence: erasing.fence,
            words.Fenced: self._of_copy,
            words.Bring: self._transfer.bring,
            words.Piece: self._following.piece,
            words.Fetch: self._transfer.fetch,
            words.Fetched: self._transfer.fetched,
            words.Thin: self._transfer.thin,
            words.Superseded: self._terms.superseded,
            words.Offer: self._door.offer,
            words.Goes: self._carrying.goes,
            words.Told: self._carrying.told,
            words.Store: self._keeping.store,
            words.Stored: self._of_body,
            words.Lacks: self._of_body,
            words.Pass: self._transfer.pass_on,
            words.Spare: self._to_leader,
            words.Spared: self._keeping.spared,
            words.Undo: self._transfer.undo,
            words.Wants: self._transfer.wanted,
            words.Again: self._door.again,
            words.Heard: self._door.heard,
            words.Kept: registry.told,
            **self._crossing.hears(),
        }
