"""The door for clients: what a call is for, and who leads its queue.

Calls go to the leader: who asks another node is told where that is. A get that was read after its
patience takes nothing: nobody may wait for it.

What two nodes that never hear each other say by way of the coordinator.

1. Two nodes may be here that never hear each other, since the coordinator hears both. So what had
   no answer is said again straight, and by way of the coordinator as well.
2. Who is asked that way answers both ways, for a second. So does who had to answer twice. Answers
   that are passed on ask for nothing: so nothing goes both ways for ever.
3. This is for what partitions, anchors, doors and homes of transactions say: it is small, or rare.
   Steps and bodies are not passed on: who can't be reached with these is not in sync.
"""

from collections.abc import Callable
from typing import Any, Final

from snowmelt.core.instant import Duration, Instant, later, milliseconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.asking import put_problem
from snowmelt.protocols.queue.api.backups import Restore, Save
from snowmelt.protocols.queue.api.deletes import Delete
from snowmelt.protocols.queue.api.partition_names import part_name, part_of, whole_of
from snowmelt.protocols.queue.api.schedules import ListSchedules, Schedule, Unschedule
from snowmelt.protocols.queue.api.settings import INLINE_MAX
from snowmelt.protocols.queue.api.statuses import (
    ChangeItem,
    DescribeItem,
    ListConsumers,
    PeekHeld,
    ShowItem,
    TraceItem,
)
from snowmelt.protocols.queue.follower.transfer import Transfer
from snowmelt.protocols.queue.leader.leader import Leader
from snowmelt.protocols.queue.leader.maintenance.restoring import closed
from snowmelt.protocols.queue.leader.open_calls import PUT_COST
from snowmelt.protocols.queue.leader.storing import inline_bound
from snowmelt.protocols.queue.leader.terms import Terms
from snowmelt.protocols.queue.messages import words
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.messages.partition_words import (
    CancelPartedGet,
    NextPhase,
    PartedGet,
    RequestNumbers,
)
from snowmelt.protocols.queue.messages.words import PassOn
from snowmelt.protocols.queue.metadata.finding import Finding, of_another
from snowmelt.protocols.queue.metadata.metadata_cache import MetadataCache
from snowmelt.protocols.queue.outbox import Outbox, SaidAgain
from snowmelt.protocols.queue.router.carrying import Carrying
from snowmelt.protocols.queue.router.parted_gets import PartedGets
from snowmelt.protocols.queue.store.write_queue import WriteQueue

OF_ONE: Final = (calls.Get, calls.Put)
"""What is not for another queue of the same name."""
GATHERED: Final = (calls.Get, calls.CancelGet)
"""What is for a door, where a queue has several partitions."""
OF_CLOSED: Final = (Restore, calls.Describe, ListConsumers)
"""What is answered while a backup comes in."""
READ_WITHIN: Final = milliseconds(100)
"""So long after a process slept it may read what came meanwhile."""
Hears = dict[type, Callable[[NodeId, Any], None]]
QUESTIONS: Final = (RequestNumbers, NextPhase, PartedGet, CancelPartedGet)
"""What has an answer (rule 2); what transactions say is said again by either side."""


class RequestRouter:
    def __init__(
        self,
        outbox: Outbox,
        metadata: MetadataCache,
        disk: WriteQueue,
        terms: Terms,
        transfer: Transfer,
        carrying: Carrying,
        gathering: PartedGets,
    ) -> None:
        self._outbox = outbox
        self._metadata = metadata
        self._disk = disk
        self._terms = terms
        self._transfer = transfer
        self._carrying = carrying
        self._gathering = gathering
        self._late = Duration(0)
        self._read_by = Instant(0)
        self._finding = Finding(outbox, metadata, self._serves, self._opened)

    def slept(self, late: Duration) -> None:
        """What is read now waited unread, perhaps for so long."""
        self._late, self._read_by = late, later(self._outbox.now, READ_WITHIN)

    def _is_over(self, request: Any) -> bool:
        """Whether who asks waits no more, perhaps: silence promises nothing, and it asks again."""
        if self._read_by < self._outbox.now:
            self._late = Duration(0)
        return type(request) is calls.Get and request.patience < self._late

    def requested(self, operation: OperationId, request: Any) -> None:
        if self._late and self._is_over(request):
            return
        if not self._finding.goes_on(operation, request):
            return
        if type(request) is calls.Open:
            self._finding.open(operation, request)
        elif type(request) is Delete:
            self._finding.delete(operation, request)
        elif type(request) is calls.Fetch:
            self._transfer.fetch_span(operation, request)
        elif self._serves(operation, request):
            pass
        elif type(request) is not calls.Put or not self._carries(operation, request):
            self._finding.ask(operation, request)

    def _carries(self, operation: OperationId, put: calls.Put) -> bool:
        """Whether any node takes it, as far as is known here: it is to lie on data nodes."""
        home = self._metadata.home(put.queue)
        if home is None or len(put.runs) > 1:
            return False
        if put.size <= inline_bound(home.settings, self._outbox.presence):
            return False
        self._carrying.carry(operation, put, home.settings)
        return True

    def offer(self, source: NodeId, word: words.Offer) -> None:
        """A client puts at another node, or at this, what is to lie on data nodes."""
        leader = self._terms.leading(word.queue, word.term)
        if leader is not None and leader.serving and leader.state.restoring.done:
            leader.storing.offer(source, word, self._disk.full or leader.withdrawing.full)

    def _serves(self, operation: OperationId, request: Any) -> bool:
        """Whether this node leads that queue; then it does what is asked."""
        leader = self._terms.leaders.get(request.queue)
        if leader is None or not leader.serving:
            return type(request) in GATHERED and self._gathers(operation, request)
        opened = leader.delivery.open
        if len(opened.calls) >= self._outbox.limits.waiting_answers and leader.busy:
            return True  # silence promises nothing: it is asked again
        self._terms.touched[request.queue] = None
        weight, kind = 0, type(request)
        if operation in opened.calls and not _is_again(opened.calls[operation], request):
            return True
        if kind in OF_ONE and request.since not in (0, leader.home.since):
            self._outbox.reply(operation, of_another(request.queue))
            return True
        if not leader.state.restoring.done and kind not in OF_CLOSED:
            self._outbox.reply(operation, closed(leader.state, request.queue))
            return True
        if kind is calls.Put:
            weight = request.size + PUT_COST
            if weight > leader.storing.inline and len(request.runs) < 2:
                self._carrying.carry(operation, request, leader.home.settings)
                return True
        again = operation in opened.calls
        opened.add(operation, request, weight)
        match request:
            case calls.Put():
                self._put(leader, operation, request, again=again)
            case calls.Get() if leader.parted is None:
                leader.get(operation, request)
            case calls.Settle():
                leader.settle(operation, request)
            case _:
                self._serve_rare(leader, operation, request)
        return True

    def _gathers(self, operation: OperationId, get: calls.Get | calls.CancelGet) -> bool:
        """Whether it is for a queue with several partitions: for these any node is a door."""
        home = self._metadata.home(get.queue) or self._metadata.home(part_name(get.queue, 0))
        if home is None or home.settings.partitions == 1 or part_of(get.queue) is not None:
            return False
        if isinstance(get, calls.CancelGet):
            self._gathering.leave(operation, get)
        else:
            self._gathering.get(operation, get)
        return True

    def _serve_rare(self, leader: Leader, operation: OperationId, request: Any) -> None:
        """What is not done once for each item."""
        match request:
            case calls.CancelGet(_, number):
                leader.getting.leave(operation, OperationId(operation.client, number))
            case calls.PublishStaged():
                leader.publishing.publish(operation, request)
            case calls.Plan():
                leader.publishing.plan(operation, request)
            case calls.Commit():
                leader.transacting.commit(operation, request)
            case calls.Promise():
                leader.transacting.promise(operation, request)
            case (
                calls.Peek()
                | PeekHeld()
                | calls.Select()
                | calls.Describe()
                | ListConsumers()
                | Save()
            ):
                leader.look(operation, request)
            case DescribeItem() | ShowItem() | TraceItem():
                leader.look_at(operation, request)
            case calls.Assign() | calls.Locate() | calls.Survey() | calls.ListGroups():
                leader.grouping.hear(operation, request)
            case Restore():
                self._restore(leader, operation, request)
            case calls.Alter():
                leader.altering.hear(operation, request)
            case Schedule() | Unschedule() | ListSchedules():
                leader.scheduling.hear(operation, request)
            case (
                calls.Purge()
                | calls.Pause()
                | calls.Redrive()
                | calls.ReleaseGroup()
                | ChangeItem()
            ):
                leader.change(operation, request)
            case calls.Get(queue):
                whole = whole_of(queue)
                text = (
                    f"queue is {queue!r}; allowed: {whole!r}, since its partitions have one order"
                )
                leader.log.owe(words.ReplyTo(operation, Declined("BadOption", text)))
            case _:
                text = f"{type(request).__name__} is not a call of this engine"
                leader.log.owe(words.ReplyTo(operation, Declined("BadOption", text)))

    def _restore(self, leader: Leader, operation: OperationId, ask: Restore) -> None:
        full = self._disk.full or leader.withdrawing.full
        if full:
            leader.delivery.open.end(operation)
            self._outbox.decline(operation, "DiskFull", full)
        else:
            leader.restoring.hear(operation, ask)

    def again(self, _: NodeId, word: words.Again) -> None:
        """Its leader leads no more: it is asked of the next, as soon as that is known."""
        self._finding.point_later(word.operation, word.request)

    def heard(self, _: NodeId, word: words.CallRouted) -> None:
        """Where the queue of a call is at home, or why it is nowhere."""
        self._finding.heard(word)

    def _put(self, leader: Leader, operation: OperationId, put: calls.Put, *, again: bool) -> None:
        if again and not leader.knows(put):
            return  # it was refused, which is told when that is safe
        wrong = put_problem(put, self._outbox.limits.put_items, leader.home.settings)
        if wrong is None:
            wrong = leader.delivery.open.refusal(operation, self._outbox.limits.waiting_bytes)
        full = self._disk.full or leader.withdrawing.full
        if wrong is not None:
            leader.delivery.open.end(operation)
            self._outbox.decline(operation, *wrong)
        elif full and not leader.knows(put):
            self._put_on_full(leader, operation, put, full)
        else:
            leader.put(operation, put)

    def _put_on_full(
        self, leader: Leader, operation: OperationId, put: calls.Put, full: str
    ) -> None:
        """On a full disk: others may have room."""
        withdrawing = leader.withdrawing
        if withdrawing.unsure:
            leader.delivery.open.end(operation)  # silence promises nothing: it is asked again
        elif withdrawing.full or self._disk.has_stuck(put.queue) or not leader.log.spares_own:
            leader.delivery.open.end(operation)
            self._outbox.decline(operation, "DiskFull", full)
        else:
            leader.put(operation, put)

    def _opened(self, operation: OperationId, home: Assignment) -> None:
        presence, leader = self._outbox.presence, self._finding.place(home.master)
        if presence is None or leader is None:  # it is being replaced; the client asks again
            self._metadata.forget(home.queue)
            return
        other = self._finding.place(self._outbox.chance.choice(list(presence.keepers)))
        door = other if inline_bound(home.settings, presence) <= INLINE_MAX else None
        opened = calls.Opened(home.queue, home.asked_for, leader, leader, other, door, home.since)
        self._outbox.reply(operation, opened)


def _is_again(known: Any, request: Any) -> bool:
    """Whether a number that is open stands for just this call: no other is heard under it.

    Its answer would be taken for the other's, and end what that one costs while it waits.
    """
    if isinstance(known, calls.Put | words.SpreadPut):
        own = known.producer, known.sequence
        return type(request) is calls.Put and own == (request.producer, request.sequence)
    return type(known) is type(request)


class PassingOn:
    """Of one node."""

    def __init__(self, outbox: Outbox, rest: Hears) -> None:
        self._outbox = outbox
        self._rest = rest
        """What this node hears."""

    def hears(self) -> Hears:
        return {SaidAgain: self._again, PassOn: self._heard}

    def _again(self, me: NodeId, word: SaidAgain) -> None:
        coordinator = self._outbox.coordinator
        if coordinator is not None and coordinator not in (me, word.target) and word.target != me:
            self._outbox.send(coordinator, PassOn(me, word.target, word.message))

    def _heard(self, _: NodeId, word: PassOn) -> None:
        """It is for this node, or is to be passed on."""
        outbox = self._outbox
        if word.target == outbox.me:
            if isinstance(word.word, QUESTIONS):
                outbox.doubt(word.source)
            self._rest[type(word.word)](word.source, word.word)
        elif outbox.coordinator == outbox.me:
            outbox.send(word.target, word)
