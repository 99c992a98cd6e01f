"""Whose masters this node is: how terms begin here, and how they end."""

from snowmelt.core.names import NodeId
from snowmelt.protocols.fifo import messages
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.directory import Directory
from snowmelt.protocols.fifo.journal import Journal, records, remind_mirrors
from snowmelt.protocols.fifo.keeper import Keeper
from snowmelt.protocols.fifo.leases import LEASE_ENDED
from snowmelt.protocols.fifo.master import Master
from snowmelt.protocols.fifo.messages import Home
from snowmelt.protocols.fifo.mirrors import Mirrors, copy_change, whole_changes
from snowmelt.protocols.fifo.scribe import Scribe
from snowmelt.protocols.fifo.succession import Succession


class Reign:
    """The masters on this node, and those on their way."""

    def __init__(
        self,
        desk: Desk,
        directory: Directory,
        mirrors: Mirrors,
        keeper: Keeper,
        scribe: Scribe,
        *,
        alone: bool,
    ) -> None:
        self._desk = desk
        self._directory = directory
        self._mirrors = mirrors
        self._keeper = keeper
        self._scribe = scribe
        self._alone = alone
        self._masters: dict[str, Master] = scribe.masters
        self._successions: dict[str, Succession] = {}

    def viewed(self) -> None:
        """Another view: masters look after their keepers; of other queues here, news is sought."""
        for queue, master in self._masters.items():
            self._scribe.touch(queue)
            master.repair.viewed()
        for queue in self._mirrors.queues:
            if queue not in self._masters and queue not in self._successions:
                self._directory.forget(queue)
                self._directory.ask(queue, lambda _: None)

    def cut_off(self) -> None:
        """Others may decide without this node now: it serves nobody."""
        self._successions.clear()
        for queue in list(self._masters):
            self._resign(queue)

    def heard(self, home: Home) -> None:
        """The registry says where a queue is at home."""
        queue = home.queue
        master, succession = self._masters.get(queue), self._successions.get(queue)
        newest = max(
            0 if master is None else master.home.term,
            0 if succession is None else succession.home.term,
        )
        if home.term < newest or (master is not None and master.home.term == home.term):
            return
        if home.master != self._desk.keeper:
            self._resign(queue)
        elif home.run != self._desk.stream or (home.active and succession is None):
            self._resign(queue)
            self._claim(home)
        elif not home.active and home.term > newest:
            self._resign(queue)
            self._succeed(home)
        elif home.active and succession is not None and succession.ready:
            self._serve(home, succession)

    def _claim(self, home: Home) -> None:
        presence = self._desk.presence
        if presence is not None:
            claim = messages.Claim(home.queue, home.term, self._desk.stream)
            self._desk.send(presence.view.coordinator, claim)

    def _succeed(self, home: Home) -> None:
        succession = Succession(self._desk, home, self._mirrors.take_over)
        self._successions[home.queue] = succession
        succession.begin()

    def _serve(self, home: Home, succession: Succession) -> None:
        del self._successions[home.queue]
        journal = succession.journal
        assert journal is not None, "a home is made active by its master"
        if self._alone:
            for lease in journal.queue.leases:
                journal.queue.give_back(lease, list(lease.left), 0, LEASE_ENDED)
        self._mirrors.take_over(home.queue, home.term, journal.step, ())  # it is the queue now
        master = Master(self._desk, self._keeper, home, journal)
        self._masters[home.queue] = master
        self._scribe.touch(home.queue)
        master.repair.viewed()
        master.tick()

    def _resign(self, queue: str) -> None:
        """This node is not, or no longer, the master: its journal is a copy like any other."""
        self._successions.pop(queue, None)
        master = self._masters.pop(queue, None)
        if master is None:
            return
        self._desk.note(f"{queue}: no longer master of term {master.home.term}")
        for operation in master.waiting.gets:  # nothing was leased to them, or they'd not wait
            self._desk.decline(operation, "Unavailable", f"queue {queue!r} changes its master")
        master.serving = False
        master.admission.withdraw()
        journal, term = master.journal, master.home.term
        pairs = records(journal.queue)
        self._mirrors.take_over(queue, term, journal.step, pairs)
        changes = (*whole_changes(queue, pairs), copy_change(queue, term, journal.step, term))
        self._desk.write(changes, lambda: None)

    def fence(self, source: NodeId, message: messages.Fence) -> None:
        """Another node is to be the master, in a later term."""
        self._overtaken(message.queue, message.term)
        self._mirrors.fence(source, message)

    def mirror(self, source: NodeId, message: messages.Mirror) -> None:
        """A step of another master; should it be of a later term, this node's term is over."""
        self._overtaken(message.queue, message.term)
        self._mirrors.mirror(source, message)

    def snapshot(self, source: NodeId, message: messages.Snapshot) -> None:
        """A journal of another master; see above."""
        self._overtaken(message.queue, message.term)
        self._mirrors.snapshot(source, message)

    def fenced(self, message: messages.Fenced) -> None:
        """A keeper of the last term's journal answers."""
        succession = self._successions.get(message.queue)
        if succession is not None:
            succession.fenced(message)

    def _journal(self, queue: str, term: int) -> Journal | None:
        """The journal that this node writes for a queue in this term."""
        master, succession = self._masters.get(queue), self._successions.get(queue)
        if master is not None and master.home.term == term:
            return master.journal
        if succession is not None and succession.home.term == term:
            return succession.journal
        return None

    def mirrored(self, message: messages.Mirrored) -> None:
        """A mirror has written a step."""
        journal = self._journal(message.queue, message.term)
        if journal is not None:
            journal.mirrored(message.keeper, message.step)
            self._scribe.touch(message.queue)
            if message.queue in self._successions:
                self._successions[message.queue].progress()

    def behind(self, message: messages.Behind) -> None:
        """A mirror lacks steps."""
        journal = self._journal(message.queue, message.term)
        if journal is not None:
            journal.lagging(message.keeper)
            remind_mirrors(self._desk, journal)

    def superseded(self, message: messages.Superseded) -> None:
        """There is a later term than one of ours."""
        self._overtaken(message.queue, message.term)

    def _overtaken(self, queue: str, term: int) -> None:
        """There is a later term of this queue than any of this node's."""
        master, succession = self._masters.get(queue), self._successions.get(queue)
        if (master is not None and master.home.term < term) or (
            succession is not None and succession.home.term < term
        ):
            self._resign(queue)
            self._directory.forget(queue)

    def tick(self) -> None:
        """Time has passed, for those who are on their way."""
        for succession in list(self._successions.values()):
            if succession.journal is not None:
                remind_mirrors(self._desk, succession.journal)
            succession.tick()

    def tick_queue(self, queue: str) -> None:
        """The moment has come that a queue's master asked for, if it is still here."""
        master = self._masters.get(queue)
        if master is not None:
            self._scribe.touch(queue)
            master.tick()
