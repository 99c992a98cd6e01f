"""The door for clients: what a call is for, and where its queue is at home."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from snowmelt.core.errors import BadOption
from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import Elsewhere
from snowmelt.protocols.fifo import calls
from snowmelt.protocols.fifo.absence import waits
from snowmelt.protocols.fifo.asking import problem
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.directory import Directory, Told
from snowmelt.protocols.fifo.intake import Intake
from snowmelt.protocols.fifo.keeper import Keeper
from snowmelt.protocols.fifo.master import Master
from snowmelt.protocols.fifo.messages import Home, Nowhere
from snowmelt.protocols.fifo.settings import QueueSettings

FOR_MASTERS: Final[dict[type, Callable[[Master, OperationId, Any], None]]] = {
    calls.Get: Master.get,
    calls.Settle: Master.settle,
    calls.Peek: Master.peek,
    calls.Purge: Master.purge,
    calls.Pause: Master.pause,
    calls.Redrive: Master.redrive,
    calls.Describe: Master.describe,
    calls.Publish: lambda master, operation, ask: master.publishing.publish(operation, ask),
    calls.Plan: lambda master, operation, ask: master.publishing.plan(operation, ask),
    calls.Assign: lambda master, operation, ask: master.grouping.assign(operation, ask),
    calls.Locate: lambda master, operation, ask: master.grouping.locate(operation, ask),
    calls.Survey: lambda master, operation, ask: master.grouping.survey(operation, ask),
    calls.Release: lambda master, operation, ask: master.grouping.release(operation, ask),
    calls.ListGroups: lambda master, operation, ask: master.grouping.list(operation, ask),
}


class Door:
    def __init__(
        self,
        desk: Desk,
        directory: Directory,
        keeper: Keeper,
        intake: Intake,
        master_here: Callable[[str], Master | None],
    ) -> None:
        self._desk = desk
        self._directory = directory
        self._keeper = keeper
        self._intake = intake
        self._master_here = master_here

    def requested(self, operation: OperationId, request: Any) -> None:
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
            return
        master = self._master_here(request.queue) if type(request) in FOR_MASTERS else None
        if master is not None:
            self._act(master, operation, request)
            return
        if type(request) is calls.Put:
            self._ask(operation, request.queue, partial(self._put, operation, request))
            return
        match request:
            case calls.Fetch():
                self._keeper.fetch(operation, request)
            case calls.Open(queue, settings, make):
                self._open(operation, queue, settings, make)
            case _:
                self._ask(operation, request.queue, partial(self._point, operation, request))

    def _ask(
        self,
        operation: OperationId,
        queue: str,
        told: Told,
        settings: QueueSettings | None = None,
    ) -> None:
        """Finds out where a queue is at home; who looks for too many at once is told so."""
        if not self._directory.ask(queue, told, settings, operation.client):
            text = f"too many queues are looked for at this node to look for {queue!r} as well"
            self._desk.decline(operation, "Unavailable", text)

    def _act(self, master: Master, operation: OperationId, request: Any) -> None:
        """Has the master do it, unless too much waits for its mirrors: silence promises nothing."""
        if master.journal.waiting < self._desk.limits.waiting_answers:
            FOR_MASTERS[type(request)](master, operation, request)

    def _put(self, operation: OperationId, put: calls.Put, home: Home | Nowhere) -> None:
        if type(home) is Home and not self._waits(operation, home):
            self._intake.put(operation, put, home)
        elif type(home) is Nowhere:
            self._desk.decline(operation, home.error, home.text)

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
        """Somebody else is this queue's master; or this node is by now, or will be soon."""
        match home:
            case Nowhere():
                self._desk.decline(operation, home.error, home.text)
            case Home():
                master, place = self._master_here(request.queue), self._place(home.master)
                if master is not None:
                    self._act(master, operation, request)
                elif place is not None and place.node != self._desk.me:
                    self._desk.reply(operation, Elsewhere(place.node, place.address))
                elif not self._waits(operation, home):  # what this node has heard is old
                    again = partial(self._point, operation, request)
                    self._directory.wait_for_news(request.queue, again)

    def _open(
        self, operation: OperationId, queue: str, settings: QueueSettings | None, make: bool
    ) -> None:
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
                case Nowhere(error="NoSuchQueue") if settings is None and make:
                    self._ask(operation, queue, told, QueueSettings(replicas=0))
                case Nowhere(error="QueueExists") if settings is None:
                    self._ask(operation, queue, told)
                case Nowhere():
                    self._desk.decline(operation, home.error, home.text)

        self._ask(operation, queue, told, settings)

    def _opened(self, operation: OperationId, home: Home) -> None:
        if self._waits(operation, home):
            return
        presence = self._desk.presence
        master = self._place(home.master)
        if presence is None or master is None:  # it is being replaced; the client asks again
            self._directory.forget(home.queue)
            return
        # Where every node keeps every body, the master has the shortest way (`early.py`).
        everywhere = len(presence.keepers) <= home.settings.replicas
        other = self._place(self._desk.chance.choice(list(presence.keepers)))
        assert other is not None
        store = master if everywhere else other
        opened = calls.Opened(home.queue, home.settings, master, store, other)
        self._desk.reply(operation, opened)

    def _place(self, keeper: str) -> calls.Place | None:
        presence = self._desk.presence
        member = None if presence is None else presence.keepers.get(keeper)
        return None if member is None else calls.Place(member.id, member.address)
