"""The door for clients: what a call is for, and who leads its queue.

Calls go to the leader: who asks another node is told where that is.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from snowmelt.core.batch import OFFSET_BYTES, Batch
from snowmelt.core.errors import BadOption
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined, Elsewhere
from snowmelt.protocols.fifo import calls, labels
from snowmelt.protocols.fifo.absence import waits
from snowmelt.protocols.fifo.asking import problem
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.directory import Directory
from snowmelt.protocols.fifo.messages import Home, Nowhere
from snowmelt.protocols.fifo.settings import BODY_BYTES_MAX, PUT_BYTES_MAX, QueueSettings
from snowmelt.protocols.queue import words
from snowmelt.protocols.queue.disk import Disk
from snowmelt.protocols.queue.leader import Leader
from snowmelt.protocols.queue.terms import Terms


class Door:
    def __init__(self, desk: Desk, directory: Directory, disk: Disk, terms: Terms) -> None:
        self._desk = desk
        self._directory = directory
        self._disk = disk
        self._terms = terms

    def requested(self, operation: OperationId, request: Any) -> None:
        """A client calls."""
        desk = self._desk
        if desk.presence is None:
            desk.decline(operation, "Unavailable", "this node has no current view of its cluster")
            return
        if type(request) is calls.ListQueues:
            self._directory.roll(lambda names: desk.reply(operation, calls.QueueNames(names)))
            return
        try:
            wrong = problem(request, desk.wall)
        except BadOption as error:
            wrong = str(error)
        if wrong:
            desk.decline(operation, "BadOption", wrong)
        elif type(request) is calls.Open:
            self._open(operation, request)
        elif not self._serve(operation, request):
            self._ask(operation, request.queue, partial(self._point, operation, request))

    def _serve(self, operation: OperationId, request: Any) -> bool:
        """Whether this node leads that queue; then it does what is asked."""
        leader = self._terms.leaders.get(request.queue)
        if leader is None or not leader.serving:
            return False
        if len(leader.delivery.open) >= self._desk.limits.waiting_answers:
            return True  # silence promises nothing: it is asked again
        self._terms.touched[request.queue] = None
        leader.delivery.open[operation] = request
        match request:
            case calls.Put():
                self._put(leader, operation, request)
            case calls.Get():
                leader.get(operation, request)
            case calls.Settle():
                leader.settle(operation, request)
            case calls.Peek() | calls.Describe():
                leader.look(operation, request)
            case calls.Purge() | calls.Pause() | calls.Redrive():
                leader.change(operation, request)
            case _:
                text = f"{type(request).__name__} is not a call of this engine"
                leader.log.owe(words.ReplyTo(operation, Declined("BadOption", text)))
        return True

    def again(self, _: NodeId, word: words.Again) -> None:
        """Its leader leads no more: it is asked of the next, as soon as that is known."""
        ask = partial(self._point, word.operation, word.request)
        self._directory.wait_for_news(word.request.queue, ask)

    def _put(self, leader: Leader, operation: OperationId, put: calls.Put) -> None:
        wrong = _problem(put, self._desk.limits.put_items)
        if wrong is not None:
            leader.log.owe(words.ReplyTo(operation, Declined(*wrong)))
        elif self._disk.full:
            leader.log.owe(words.ReplyTo(operation, Declined("DiskFull", self._disk.full)))
        else:
            leader.admission.put(operation, put)

    def _ask(
        self,
        operation: OperationId,
        queue: str,
        told: Callable[[Home | Nowhere], None],
        settings: QueueSettings | None = None,
    ) -> None:
        if not self._directory.ask(queue, told, settings, operation.client):
            text = f"too many queues are looked for at this node to look for {queue!r} as well"
            self._desk.decline(operation, "Unavailable", text)

    def _open(self, operation: OperationId, ask: calls.Open) -> None:
        queue, settings = ask.queue, ask.settings
        if settings is not None:
            try:
                settings.checked()
            except BadOption as error:
                self._desk.decline(operation, "BadOption", str(error))
                return

        def told(home: Home | Nowhere) -> None:
            match home:
                case Home():
                    self._opened(operation, home)
                case Nowhere(error="NoSuchQueue") if settings is None and ask.make:
                    self._ask(operation, queue, told, QueueSettings(replicas=0))
                case Nowhere(error="QueueExists") if settings is None:
                    self._ask(operation, queue, told)
                case Nowhere():
                    self._desk.decline(operation, home.error, home.text)

        self._ask(operation, queue, told, settings)

    def _opened(self, operation: OperationId, home: Home) -> None:
        if self._waits(operation, home):
            return
        presence, leader = self._desk.presence, self._place(home.master)
        if presence is None or leader is None:  # it is being replaced; the client asks again
            self._directory.forget(home.queue)
            return
        other = self._place(self._desk.chance.choice(list(presence.keepers)))
        opened = calls.Opened(home.queue, home.settings, leader, leader, other)
        self._desk.reply(operation, opened)

    def _waits(self, operation: OperationId, home: Home) -> bool:
        """Whether nobody who is here can have the queue go on; then the client is told for whom."""
        presence = self._desk.presence
        if presence is None or home.master in presence.keepers:
            return False
        whom = waits(home, presence, self._desk.now)
        if whom is not None:
            self._directory.forget(home.queue)
            self._desk.decline(operation, whom.error, whom.text)
        return whom is not None

    def _point(self, operation: OperationId, request: Any, home: Home | Nowhere) -> None:
        """Somebody else leads this queue; or this node does by now, or will soon."""
        match home:
            case Nowhere():
                self._desk.decline(operation, home.error, home.text)
            case Home():
                place = self._place(home.master)
                if self._serve(operation, request):
                    return
                if place is not None and place.node != self._desk.me:
                    self._desk.reply(operation, Elsewhere(place.node, place.address))
                elif not self._waits(operation, home):  # what this node has heard is old
                    again = partial(self._point, operation, request)
                    self._directory.wait_for_news(request.queue, again)

    def _place(self, keeper: str) -> calls.Place | None:
        presence = self._desk.presence
        member = None if presence is None else presence.keepers.get(keeper)
        return None if member is None else calls.Place(member.id, member.address)


def _problem(put: calls.Put, items_max: int) -> tuple[str, str] | None:
    """Why this put can't be taken, as an error's name and text. Sizes first: they cost nothing."""
    count = len(put.offsets) // OFFSET_BYTES - 1
    if put.hold:
        return "BadOption", "hold: this engine stages nothing"
    if count > items_max:
        return "TooLarge", f"{count} items in one put; the limit is {items_max}"
    if len(put.blob) > BODY_BYTES_MAX or put.size > PUT_BYTES_MAX:
        limits = f"{BODY_BYTES_MAX} of bodies, {PUT_BYTES_MAX} with headers"
        return "TooLarge", f"{put.size} bytes in one put; the limits are {limits}"
    try:
        batch = Batch(put.offsets, put.blob)
        if put.headers:
            labels.check_shared(put.headers)
            labels.checked(put.headers, count)
    except ValueError as error:
        return "BadOption", f"the batch does not read: {error}"
    if count == 0 or batch.size != len(put.blob):
        return "BadOption", f"a batch of {count} items in {len(put.blob)} bytes"
    return None
