"""When the journals are written: a step for each queue that was touched, while the disk is free.

A queue that was touched while the disk was busy makes its step when the disk is free again; all
that changed until then is in it. A queue whose flushes may be late gathers for that time.
"""

from snowmelt.core.instant import Instant, later
from snowmelt.protocols.fifo.desk import REST, Desk
from snowmelt.protocols.fifo.journal import Journal, tell
from snowmelt.protocols.fifo.master import Master
from snowmelt.protocols.fifo.mirrors import Mirrors


class Scribe:
    def __init__(self, desk: Desk, mirrors: Mirrors) -> None:
        self.masters: dict[str, Master] = {}
        self._desk = desk
        self._mirrors = mirrors
        self._touched: dict[str, None] = {}
        self._gathering: dict[str, Instant] = {}

    def touch(self, queue: str) -> None:
        self._touched[queue] = None

    def step(self) -> bool:
        """Lets each touched queue take its next step; whether there may be more to do."""
        if not self._touched:
            return False
        touched, self._touched = self._touched, {}
        done = False
        for queue in touched:
            master = self.masters.get(queue)
            if master is None:
                continue
            journal = master.journal
            master.serve()
            if journal.unwritten or journal.mirrors:
                self._write_journal(queue, journal)
            due = journal.due()
            for then in due:
                then()
            if len(due) < self._desk.limits.told:
                if due and (journal.unwritten or master.waiting.gets):
                    self._touched[queue] = None
                done = done or bool(due)
            else:  # enough for one turn: there may be more
                self._touched[queue] = None
                self._desk.alarms.wake(REST, self._desk.now)
        return done or bool(self._desk.inside)

    def _write_journal(self, queue: str, journal: Journal) -> None:
        """Makes a step of what has changed; while the disk is busy that gathers."""
        desk = self._desk
        if journal.lax:
            if journal.queue.changed and queue not in self._gathering:
                self._gathering[queue] = later(desk.now, journal.linger)
        elif desk.writing and journal.queue.changed and not journal.linger:
            self._gathering[queue] = desk.now
        else:
            self._write_step(queue, journal)

    def _write_step(self, queue: str, journal: Journal) -> None:
        """The next step of a journal, here and at its mirrors; nothing when nothing changed."""
        desk, pairs = self._desk, journal.write()
        if not pairs:
            journal.confirming.tell(desk)
            return
        step = journal.step

        def written() -> None:
            journal.here = max(journal.here, step)
            self._touched[queue] = None

        changes = self._mirrors.stepped(queue, step, pairs)
        desk.write(changes, written, linger=journal.linger)
        if journal.mirrors:
            tell(desk, journal.to_mirrors(pairs, desk.now))

    def write(self) -> None:
        """Begins to write when the disk is free and something must not wait any longer."""
        desk = self._desk
        if desk.writing:
            return
        gathered = self._gathering.values()
        due = min((*gathered, desk.due) if desk.due is not None else gathered, default=None)
        if due is None:
            return
        if due > desk.now:
            desk.wake(due)
            return
        gathering, self._gathering = self._gathering, {}
        for queue in gathering:
            master = self.masters.get(queue)
            if master is not None:
                self._write_step(queue, master.journal)
        if desk.due is not None:
            desk.begin_write()
