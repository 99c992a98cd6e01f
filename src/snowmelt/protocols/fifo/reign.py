"""Whose masters this node is: how terms begin here, and how they end.

1. A run begins a term once at most. One that it has begun and left (it was cut off, say) it claims
   anew: the registry gives it a later one.
2. A home is served by the succession of its own term, and by no other.
3. Whoever is refused by a copy because of a term that is not earlier tells the registry that term:
   it gives a later one, whatever stands on its disk.
4. A mirror that is here for the registry, but has not answered its master for a while, is replaced:
   the master asks for another, at growing intervals while that helps nothing. So does who is to be
   the master, and waits for the answer of one of the last term's keepers: another is to try.
"""

from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.fifo import messages
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.directory import Directory
from snowmelt.protocols.fifo.journal import Journal, remind_mirrors, tell
from snowmelt.protocols.fifo.keeper import Keeper
from snowmelt.protocols.fifo.master import Master
from snowmelt.protocols.fifo.messages import Home
from snowmelt.protocols.fifo.mirrors import Mirrors
from snowmelt.protocols.fifo.scribe import Scribe
from snowmelt.protocols.fifo.succession import Succession

SILENT_MAX: Final = seconds(5)
"""So long a mirror may say nothing while it lacks something."""
COMPLAIN_LONGEST: Final = seconds(80)


class Complaint(msgspec.Struct):
    """That a keeper of a queue's journal did not answer (rule 4)."""

    after: Instant
    """Not before this it is said again."""
    wait: Duration


class Reign:
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
        self._begun: dict[str, int] = {}
        """The last term of each queue that this run began."""
        self._complaints: dict[str, Complaint] = {}

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
        elif succession is not None and succession.home.term == home.term:
            if home.active and succession.ready:  # rule 2
                self._serve(home, succession)
        elif home.run != self._desk.stream or home.active or home.term <= self._begun.get(queue, 0):
            self._resign(queue)
            self._claim(queue, home.term)
        else:
            self._resign(queue)
            self._succeed(home)

    def _claim(self, queue: str, term: int) -> None:
        presence = self._desk.presence
        if presence is not None:
            claim = messages.Claim(queue, term, self._desk.stream)
            self._desk.send(presence.view.coordinator, claim)

    def _succeed(self, home: Home) -> None:
        self._begun[home.queue] = home.term
        succession = Succession(self._desk, home, self._mirrors)
        self._successions[home.queue] = succession
        succession.begin()

    def _serve(self, home: Home, succession: Succession) -> None:
        del self._successions[home.queue]
        journal = succession.journal
        assert journal is not None, "a home is made active by its master"
        if self._alone:
            for lease in journal.queue.leases:
                journal.queue.lapse(lease)
        master = Master(self._desk, self._keeper, home, journal)
        self._masters[home.queue] = master
        self._scribe.touch(home.queue)
        master.repair.doubting.begin()
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
        pairs = master.journal.write()  # what was not written yet; nobody was told of it
        if pairs:
            changes = self._mirrors.stepped(queue, master.journal.step, pairs)
            self._desk.write(changes, lambda: None)

    def fence(self, source: NodeId, message: messages.Fence) -> None:
        """Another node is to be the master, in a later term."""
        if self._heeds(source, message):
            self._mirrors.fence(source, message)

    def mirror(self, source: NodeId, message: messages.Mirror) -> None:
        """A step of another master; should it be of a later term, this node's term is over."""
        if not self._heeds(source, message):
            return
        for body in message.bodies:  # in one write with the step; each is answered for itself
            self._keeper.copy(source, body)
        self._mirrors.mirror(source, message)

    def follow(self, source: NodeId, message: messages.Follow) -> None:
        """Another master's journal begins; see above."""
        if self._heeds(source, message):
            self._mirrors.follow(source, message)

    def snapshot(self, source: NodeId, message: messages.Snapshot) -> None:
        """A journal of another master; see above."""
        if self._heeds(source, message):
            self._mirrors.snapshot(source, message)

    def fenced(self, message: messages.Fenced) -> None:
        succession = self._successions.get(message.queue)
        if succession is not None:
            succession.fenced(message)

    def read(self, message: messages.JournalRead) -> None:
        succession = self._successions.get(message.queue)
        if succession is not None:
            succession.read(message)

    def _journal(
        self, message: messages.Mirrored | messages.Pieced | messages.Behind
    ) -> Journal | None:
        """The journal that this node writes, if it is the one that a mirror speaks of."""
        queue = message.queue
        master, succession = self._masters.get(queue), self._successions.get(queue)
        for one in (master, succession):
            journal = None if one is None else one.journal
            if journal is not None and (journal.term, journal.name) == (
                message.term,
                message.journal,
            ):
                return journal
        return None

    def mirrored(self, message: messages.Mirrored) -> None:
        journal = self._journal(message)
        if journal is not None:
            tell(self._desk, journal.mirrored(message, self._desk.now))
            self._scribe.touch(message.queue)
            if message.queue in self._successions:
                self._successions[message.queue].progress()

    def pieced(self, message: messages.Pieced) -> None:
        journal = self._journal(message)
        if journal is not None:
            tell(self._desk, journal.pieced(message, self._desk.now))

    def behind(self, message: messages.Behind) -> None:
        journal = self._journal(message)
        if journal is not None:
            tell(self._desk, journal.behind(message, self._desk.now))

    def superseded(self, message: messages.Superseded) -> None:
        """There is another journal of a term as late as ours, or a later one (rule 3)."""
        queue = message.queue
        master, succession = self._masters.get(queue), self._successions.get(queue)
        refused = (master is not None and master.journal.name == message.journal) or (
            succession is not None and succession.name == message.journal
        )
        if refused:
            self._resign(queue)
            self._directory.forget(queue)
            self._claim(queue, message.term)

    def _heeds(
        self,
        source: NodeId,
        message: messages.Fence | messages.Mirror | messages.Follow | messages.Snapshot,
    ) -> bool:
        """Whether to go by a term; a later one than any of this node's ends this node's."""
        queue, term = message.queue, message.term
        if self._mirrors.alarm(source, queue, term):
            return False
        master, succession = self._masters.get(queue), self._successions.get(queue)
        if (master is not None and master.home.term < term) or (
            succession is not None and succession.home.term < term
        ):
            self._resign(queue)
            self._directory.forget(queue)
        return True

    def tick(self) -> None:
        for succession in list(self._successions.values()):
            self._tick_succession(succession)

    def tick_queue(self, queue: str) -> None:
        """The moment has come that a queue's master asked for, if it is still here."""
        master, succession = self._masters.get(queue), self._successions.get(queue)
        if master is not None:
            self._scribe.touch(queue)
            master.tick()
            self._complain(queue, master.home, self._silent(master.journal))
        if succession is not None:
            self._tick_succession(succession)

    def _tick_succession(self, succession: Succession) -> None:
        home, journal = succession.home, succession.journal
        if journal is None:
            silent = succession.unheard(Instant(self._desk.now - SILENT_MAX))
        else:
            remind_mirrors(self._desk, journal)
            silent = self._silent(journal)
        self._complain(home.queue, home, silent)
        succession.tick()

    def _silent(self, journal: Journal) -> str | None:
        presence = self._desk.presence
        if presence is None:
            return None
        return journal.silent(presence.keepers, Instant(self._desk.now - SILENT_MAX))

    def _complain(self, queue: str, home: Home, silent: str | None) -> None:
        """Rule 4."""
        presence, now = self._desk.presence, self._desk.now
        if presence is None:
            return
        said = self._complaints.get(queue)
        if silent is None:
            if said is not None and later(said.after, said.wait) <= now:
                del self._complaints[queue]  # it has been well for long enough
            return
        if said is not None and said.after > now:
            self._desk.alarms.wake(queue, said.after)
            return
        wait = SILENT_MAX if said is None else Duration(min(2 * said.wait, COMPLAIN_LONGEST))
        self._complaints[queue] = Complaint(later(now, wait), wait)
        self._desk.note(f"{queue}: keeper {silent} does not answer; asks for a way round it")
        word = messages.Unreached(queue, home.term, self._desk.stream, silent)
        self._desk.send(presence.view.coordinator, word)
