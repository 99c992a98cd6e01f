"""The door for clients: what a call is for, and where its queue is at home."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from snowmelt.core.names import OperationId
from snowmelt.protocols.fifo import calls
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.directory import Directory
from snowmelt.protocols.fifo.finding import Finding
from snowmelt.protocols.fifo.intake import Intake
from snowmelt.protocols.fifo.keeper import Keeper
from snowmelt.protocols.fifo.master import Master
from snowmelt.protocols.fifo.messages import Home, Nowhere

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
        self._finding = Finding(desk, directory, self._serves)

    def requested(self, operation: OperationId, request: Any) -> None:
        if not self._finding.goes_on(operation, request) or self._serves(operation, request):
            return
        match request:
            case calls.Put():
                told = partial(self._put, operation, request)
                self._finding.ask(operation, request.queue, told)
            case calls.Fetch():
                self._keeper.fetch(operation, request)
            case calls.Open():
                self._finding.open(operation, request, self._opened)
            case _:
                self._finding.point(operation, request)

    def _serves(self, operation: OperationId, request: Any) -> bool:
        """Has the master do it, if it is here."""
        act = FOR_MASTERS.get(type(request))
        master = self._master_here(request.queue) if act is not None else None
        if act is None or master is None:
            return False
        # Unless too much waits for its mirrors: silence promises nothing.
        if master.journal.waiting < self._desk.limits.waiting_answers:
            act(master, operation, request)
        return True

    def _put(self, operation: OperationId, put: calls.Put, home: Home | Nowhere) -> None:
        if type(home) is Home and not self._finding.waits(operation, home):
            self._intake.put(operation, put, home)
        elif type(home) is Nowhere:
            self._desk.decline(operation, home.error, home.text)

    def _opened(self, operation: OperationId, home: Home) -> None:
        presence = self._desk.presence
        master = self._finding.place(home.master)
        if presence is None or master is None:  # it is being replaced; the client asks again
            self._directory.forget(home.queue)
            return
        # Where every node keeps every body, the master has the shortest way (`early.py`).
        everywhere = len(presence.keepers) <= home.settings.replicas
        other = self._finding.place(self._desk.chance.choice(list(presence.keepers)))
        assert other is not None
        store = master if everywhere else other
        opened = calls.Opened(home.queue, home.settings, master, store, other)
        self._desk.reply(operation, opened)
