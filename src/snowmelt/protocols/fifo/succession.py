"""How a queue's journal comes to the master of a new term.

1. The master asks all keepers of the last active term how far they are, and fences them: from now
   on they take nothing of an earlier term, nor of another journal than this master's.
2. When so many sound copies have answered that every safe step must be among them
   (`answers_needed`), the newest of them, by term and step, is the journal. The last master's own
   is enough: no step was safe without it. Still, whoever else is here is given a moment to answer:
   a disk may have been put back from an older copy, and then another has what it lost. Where
   flushes may linger, only copies count that were in memory all the time, as those on a disk may
   lack what was told. And the newest must be of the last active term at least. When all have
   answered and no sound copy is so late, the newest there is must do, with its gaps: a keeper that
   lost all may have forgotten that, and calls what it has now sound. The loss is noted. A keeper
   whose node answers with another disk is gone for ever, and not waited for. One that is here and
   that this node does not hear is told to the registry (`reign.py`, rule 4).
3. The newest copy is read a piece at a time, from this disk or from its keeper's, and written here
   as it comes. If some of it can't be read, another is taken; when there is none, it must do.
4. Where steps may have been lost, the positions go on above the journal's bound (`journal.py`,
   rule 5): that is where not enough copies answered, however whole the newest of them is. Tokens
   of leases have the term in their upper bits, so none is ever given twice.
5. The new mirrors are brought to follow (`journal.py`, rule 3). When the journal is safe with them,
   the master asks that the home be made active, and serves when it is.
"""

import msgspec

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.record import Change
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.journal import Journal, remind_mirrors
from snowmelt.protocols.fifo.messages import Activate, Fence, Fenced, Home, JournalRead, ReadJournal
from snowmelt.protocols.fifo.mirrors import Mirrors
from snowmelt.protocols.fifo.queue import Queue
from snowmelt.protocols.fifo.restoring import Restoring
from snowmelt.protocols.fifo.streams import node_of

AGAIN_AFTER = milliseconds(500)
READ_PATIENCE = seconds(5)
ANSWER_PATIENCE = seconds(1)
"""So long those who are here may take to answer, though the others are enough."""
TOKEN_BITS = 40
"""So many leases a master gives in one term; above them stands the term."""
JOURNAL_MAX = 1 << 62


class Reading(msgspec.Struct):
    """The newest copy, on its way here."""

    source: Fenced
    queue: Restoring
    asked: Instant
    heard: Instant
    copied: bool
    """Whether it is written here as it comes: it lies elsewhere, or it has gaps."""
    certain: bool
    """Whether nothing that was told can be missing in it (rule 2)."""
    after: bytes = b""
    due: bool = False
    """Whether the next piece is to be asked for at the next tick."""


class Succession:
    """One master on its way to serving one term."""

    def __init__(self, desk: Desk, home: Home, mirrors: Mirrors) -> None:
        self.home = home
        self.name = desk.chance.randrange(1, JOURNAL_MAX)
        self.journal: Journal | None = None
        self._desk = desk
        self._mirrors = mirrors
        self._answers: dict[str, Fenced] = {}
        self._gone: dict[str, None] = {}
        self._reading: Reading | None = None
        self._asked = Instant(0)
        self._since = desk.now
        self._patience = later(desk.now, ANSWER_PATIENCE)

    def begin(self) -> None:
        home = self.home
        if home.before:
            self._ask()
            return
        changes = self._mirrors.arrive(home.queue, home.term, self.name, 0)
        changes += self._mirrors.arrived(home, 0)
        queue = Queue(home.queue, home.settings, self._desk.limits)
        self._adopt(queue, 0, (0, 0), changes)

    def fenced(self, message: Fenced) -> None:
        if (message.term, message.journal) != (self.home.term, self.name):
            return
        if message.keeper in self.home.before:
            self._answers[message.keeper] = message
        node = node_of(message.keeper)
        others = [one for one in self.home.before if one != message.keeper]
        self._gone.update((one, None) for one in others if node_of(one) == node)
        self._look()

    def tick(self) -> None:
        now, reading = self._desk.now, self._reading
        if reading is not None:
            self._read_on(reading)
            return
        if later(self._asked, AGAIN_AFTER) > now:
            self._wake(later(self._asked, AGAIN_AFTER))
            return
        if self.journal is None:
            self._ask()
            self._look()
        elif self.ready:
            self.activate()
        else:
            self._wake(later(now, AGAIN_AFTER))

    def activate(self) -> None:
        """The journal is safe: let the registry say so (rule 5)."""
        presence, home = self._desk.presence, self.home
        if presence is not None:
            self._asked = self._desk.now
            message = Activate(home.queue, home.term, home.run)
            self._desk.send(presence.view.coordinator, message)
            self._wake(later(self._desk.now, AGAIN_AFTER))

    def _ask(self) -> None:
        self._asked = self._desk.now
        for keeper in self.home.before:
            if keeper not in self._answers:
                fence = Fence(self.home.queue, self.home.term, self.name)
                self._desk.send(node_of(keeper), fence)
        self._wake(later(self._desk.now, AGAIN_AFTER))

    def _wake(self, at: Instant) -> None:
        self._desk.alarms.wake(self.home.queue, at)

    # --- which copy, and its records --------------------------------------------------------------

    def _look(self) -> None:
        """Rule 2."""
        if self.journal is not None or self._reading is not None:
            return
        answers = list(self._answers.values())
        settings, before = self.home.settings, self.home.before
        late = [one for one in answers if one.sound and one.kept_term >= self.home.before_term]
        everybody = all(one in self._answers or one in self._gone for one in before)
        trusted = [one for one in answers if one.sound and (one.unbroken or not settings.linger)]
        enough = len(trusted) >= settings.answers_needed
        masters_own = any(one.keeper == before[0] for one in trusted)
        if not answers:
            return
        # Of copies of the same step, this node's own is the nearest.
        best = max(late or answers, key=self._worth)
        certain = bool(late) and (enough or masters_own)
        if not everybody and (not certain or self._may_yet_answer()):
            return
        if best.kept_term < self.home.before_term:
            self._desk.note(
                f"{self.home.queue}: no journal of term {self.home.before_term} is left"
            )
        self._begin_reading(best, certain=certain)

    def _may_yet_answer(self) -> bool:
        """Whether somebody who is here is silent, and was not given time."""
        presence = self._desk.presence
        if presence is None or self._patience <= self._desk.now:
            return False
        silent = [one for one in self.home.before if one not in self._answers]
        return any(one in presence.keepers for one in silent)

    def unheard(self, since: Instant) -> str | None:
        """Whom this node waits for since then, and needs, though its node is here (rule 2)."""
        presence = self._desk.presence
        waits = self.journal is None and self._reading is None and self._since <= since
        if presence is None or not waits:
            return None
        for one in self.home.before:
            missing = one not in self._answers and one not in self._gone
            if missing and presence.view.member(node_of(one)) is not None:
                return one
        return None

    def _worth(self, answer: Fenced) -> tuple[int, int, bool]:
        return answer.kept_term, answer.kept_step, answer.keeper == self._desk.keeper

    def _begin_reading(self, best: Fenced, *, certain: bool) -> None:
        """Rule 3."""
        home, now = self.home, self._desk.now
        queue = Restoring(home.queue, home.settings, self._desk.limits)
        copied = best.keeper != self._desk.keeper or not best.sound
        reading = self._reading = Reading(best, queue, now, now, copied, certain)
        if copied:
            changes = self._mirrors.arrive(home.queue, home.term, self.name, 0)
            self._desk.write(tuple(changes), lambda: None)
        self._read(reading)

    def _read(self, reading: Reading) -> None:
        reading.asked, reading.due = self._desk.now, False
        message = ReadJournal(self.home.queue, self.home.term, self.name, reading.after)
        self._desk.send(node_of(reading.source.keeper), message)
        self._wake(later(self._desk.now, AGAIN_AFTER))

    def _read_on(self, reading: Reading) -> None:
        now = self._desk.now
        if later(reading.heard, READ_PATIENCE) <= now:  # it is asked anew whether it is there
            self._reading = None
            self._answers.pop(reading.source.keeper, None)
            self._ask()
            self._look()  # it may never answer, and need not, if the others are enough
        elif reading.due or later(reading.asked, AGAIN_AFTER) <= now:
            self._read(reading)
        else:
            self._wake(later(reading.asked, AGAIN_AFTER))

    def read(self, message: JournalRead) -> None:
        reading, home = self._reading, self.home
        if reading is None or (message.term, message.journal) != (home.term, self.name):
            return
        if (message.keeper, message.after) != (reading.source.keeper, reading.after):
            return
        reading.queue.take(message.pairs, self._desk.now)
        reading.queue.sound = reading.queue.sound and message.sound
        reading.heard = reading.asked = self._desk.now
        reading.after = message.last
        if reading.copied:
            self._mirrors.take_in(home.queue, message.pairs, lambda: self._read_next(reading))
        elif message.more:  # from disk to memory: others have their turn in between
            reading.due = True
            self._wake(self._desk.now)
        if not message.more:
            self._end_reading(reading)

    def _read_next(self, reading: Reading) -> None:
        if self._reading is reading:
            self._read(reading)

    def _end_reading(self, reading: Reading) -> None:
        """All of it has come: it is the journal, unless there may be a better one."""
        home, source, mirrors = self.home, reading.source, self._mirrors
        self._reading = None
        if not reading.queue.sound:
            why = reading.queue.problem or "a record is damaged"
            self._desk.note(f"{home.queue}: the journal of {source.keeper} has gaps: {why}")
            if source.sound:
                damaged = msgspec.structs.replace(source, sound=False)
                self._answers[source.keeper] = damaged
                self._look()
                return
        queue = reading.queue.done(self._desk.now)
        sure = reading.certain and source.unbroken
        if home.settings.linger and not sure and queue.tail < queue.bound:  # rule 4
            queue.tail = queue.bound
            queue.changed[b"s"] = None
        if reading.copied:
            changes = mirrors.arrived(home, source.kept_step)
        else:
            changes = mirrors.renamed(home, self.name)
        # What has gaps is not what its name says: nobody can go on from that.
        base = (source.kept_term, source.kept_journal) if source.sound else (0, 0)
        self._adopt(queue, source.kept_step, base, changes)

    # --- the journal of this term -----------------------------------------------------------------

    def _adopt(self, queue: Queue, step: int, base: tuple[int, int], changes: list[Change]) -> None:
        home, desk = self.home, self._desk
        queue.leases.next_token = max(queue.leases.next_token, home.term << TOKEN_BITS)
        journal = self.journal = Journal(
            queue,
            home.term,
            step,
            home.mirrors,
            name=self.name,
            base=base,
            home=home,
        )
        journal.limits = desk.limits
        journal.here = -1
        pairs = journal.write()  # what is not as it was read, is so from the first step on
        if pairs:
            changes += self._mirrors.stepped(home.queue, journal.step, pairs)
        step = journal.step

        def flushed() -> None:
            journal.here = max(journal.here, step)
            self.progress()

        desk.write(tuple(changes), flushed)
        remind_mirrors(desk, journal, anew=True)
        self._asked = desk.now
        self._wake(later(desk.now, AGAIN_AFTER))

    @property
    def ready(self) -> bool:
        """Whether the journal is safe here, so that this node can serve."""
        return self.journal is not None and self.journal.safe >= self.journal.step

    def progress(self) -> None:
        if self.ready:
            self.activate()
