"""How a queue's journal comes to the master of a new term.

1. The master asks all keepers of the last active term what they have, and fences them: from now
   on they take nothing of an earlier term.
2. When so many sound copies have answered that every safe step must be among them
   (`answers_needed`), the newest of them, by term and step, is the journal. The last master's own
   is enough: no step was safe without it. Where flushes may linger, only copies count that were in
   memory all the time, as those on a disk may lack what was told. When all have answered and there
   are not so many, the newest there is must do, and the loss is noted. A keeper whose node answers
   with another disk is gone for ever, and not waited for.
3. It is written here, in the new term, and sent to the new mirrors as a snapshot. When it is safe
   with them, the master asks that the home be made active, and serves when it is.
"""

from collections.abc import Callable

from snowmelt.core.instant import Instant, later, milliseconds
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.journal import Journal, records, remind_mirrors, restored
from snowmelt.protocols.fifo.messages import Activate, Fence, Fenced, Home, Pairs
from snowmelt.protocols.fifo.mirrors import copy_change, whole_changes
from snowmelt.protocols.fifo.queue import Queue
from snowmelt.protocols.fifo.streams import node_of

AGAIN_AFTER = milliseconds(500)


class Succession:
    """One master on its way to serving one term."""

    def __init__(
        self, desk: Desk, home: Home, take_over: Callable[[str, int, int, Pairs], None]
    ) -> None:
        self.home = home
        self.journal: Journal | None = None
        self._desk = desk
        self._take_over = take_over
        self._answers: dict[str, Fenced] = {}
        self._gone: dict[str, None] = {}
        self._asked = Instant(0)

    def begin(self) -> None:
        """The first word."""
        if self.home.before:
            self._ask()
        else:
            self._adopt(Queue(self.home.queue, self.home.settings, self._desk.limits), 0)

    def fenced(self, message: Fenced) -> None:
        """A keeper of the last term answers."""
        if message.term != self.home.term:
            return
        if message.keeper in self.home.before:
            self._answers[message.keeper] = message
        node = node_of(message.keeper)
        others = [one for one in self.home.before if one != message.keeper]
        self._gone.update((one, None) for one in others if node_of(one) == node)
        self._look()

    def tick(self) -> None:
        """Asks again whoever is silent."""
        if later(self._asked, AGAIN_AFTER) > self._desk.now:
            self._desk.wake(later(self._asked, AGAIN_AFTER))
            return
        if self.journal is None:
            self._ask()
        elif self.ready:
            self.activate()

    def activate(self) -> None:
        """The journal is safe: let the registry say so (rule 3)."""
        presence = self._desk.presence
        if presence is not None:
            self._asked = self._desk.now
            message = Activate(self.home.queue, self.home.term)
            self._desk.send(presence.view.coordinator, message)
            self._desk.wake(later(self._desk.now, AGAIN_AFTER))

    def _ask(self) -> None:
        self._asked = self._desk.now
        for keeper in self.home.before:
            if keeper not in self._answers:
                fence = Fence(self.home.queue, self.home.term)
                self._desk.send(node_of(keeper), fence)
        self._desk.wake(later(self._desk.now, AGAIN_AFTER))

    def _look(self) -> None:
        """Rule 2."""
        if self.journal is not None:
            return
        answers = list(self._answers.values())
        sound = [one for one in answers if one.sound]
        settings, before = self.home.settings, self.home.before
        everybody = all(one in self._answers or one in self._gone for one in before)
        # Where flushes linger, a copy that was read from the disk may lack what was told.
        trusted = [one for one in sound if one.unbroken or not settings.linger]
        enough = len(trusted) >= settings.answers_needed
        masters_own = any(one.keeper == before[0] for one in trusted)
        if not answers or not (enough or masters_own or everybody):
            return
        best = max(sound or answers, key=lambda one: (one.kept_term, one.kept_step))
        if not best.sound:
            self._desk.note(f"{self.home.queue}: records of the only journal can't be read")
        try:
            queue = restored(
                self.home.queue,
                self.home.settings,
                best.pairs,
                self._desk.now,
                self._desk.limits,
            )
        except ValueError as error:
            self._desk.note(f"{self.home.queue}: a journal that does not read: {error}")
            return
        self._adopt(queue, best.kept_step)

    def _adopt(self, queue: Queue, step: int) -> None:
        home = self.home
        journal = self.journal = Journal(queue, home.term, step, home.mirrors)
        journal.here = -1
        pairs = records(queue)
        self._take_over(home.queue, home.term, step, pairs)
        changes = (
            *whole_changes(home.queue, pairs),
            copy_change(home.queue, home.term, step, home.term),
        )

        def flushed() -> None:
            journal.here = max(journal.here, step)
            self.progress()

        self._desk.write(changes, flushed)
        remind_mirrors(self._desk, journal, anew=True)
        self._asked = self._desk.now
        self._desk.wake(later(self._desk.now, AGAIN_AFTER))

    @property
    def ready(self) -> bool:
        """Whether the journal is safe here, so that this node can serve."""
        return self.journal is not None and self.journal.safe >= self.journal.step

    def progress(self) -> None:
        """Somebody has written the journal."""
        if self.ready:
            self.activate()
