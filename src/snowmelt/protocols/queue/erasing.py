"""A node erases what it has of a queue that was deleted (`deleting.py`).

1. It is told by the controller, with the term from which on a queue of that name is another one;
   every home says with which term its queue was made, and so does a leader that fences.
2. It serves nobody in that queue any more. Who waits here is told at once that it was deleted.
3. Of the copy is left that the queue was deleted by that term, of the last so many queues: a
   coordinator whose disk is older than that hears of it (`registry.py`, rule 5), and whoever is to
   lead by its word hears nothing.
4. It says that it has nothing when that is on the disk, however often it is asked.

So it does with a copy that nobody needs any more, since a home does not name it:

5. That home is active, and of no earlier term than the copy has heard of. Later ones go on from the
   copies that it names, and not from this one. While it is not active it is asked for again.
6. Of the copy is left that home. So a coordinator whose disk is older hears of it, too.
7. Who seeks the newest among the copies of an earlier term is told nothing: this one had something
   then. For a later term it is a new copy, and has nothing.
"""

from itertools import islice
from typing import Final

from snowmelt.core.instant import Instant, later, milliseconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.carrying import Carrying
from snowmelt.protocols.queue.copies import Copies
from snowmelt.protocols.queue.deletes import counted
from snowmelt.protocols.queue.desk import Desk
from snowmelt.protocols.queue.directory import Directory
from snowmelt.protocols.queue.following import Following
from snowmelt.protocols.queue.keeping import Keeping
from snowmelt.protocols.queue.messages import Close, Closed, Erase, Erased, Home, Nowhere
from snowmelt.protocols.queue.parted.gathering import Gathering
from snowmelt.protocols.queue.terms import Terms
from snowmelt.protocols.queue.words import NOTHING, Fence, OwnStep, Tell

AGAIN_AFTER: Final = milliseconds(1000)


class Erasing:
    """Of all queues, at one node."""

    def __init__(
        self, desk: Desk, directory: Directory, copies: Copies, terms: Terms, following: Following,
        keeping: Keeping, ways: tuple[Carrying, Gathering],
    ) -> None:  # fmt: skip
        self._desk = desk
        self._directory = directory
        self._copies = copies
        self._terms = terms
        self._following = following
        self._keeping = keeping
        self._ways = ways
        self._unnamed: dict[str, None] = {}
        """Copies that the latest home does not name, which is not active yet (rule 5)."""
        self._asked = Instant(0)

    def close(self, source: NodeId, word: Close) -> None:
        """The queue is to be deleted: its leader stops, and says what is in it (rule 2)."""
        leader, held = self._terms.leading(word.queue, word.term), None
        if leader is not None and leader.serving:
            held = counted(leader.status())
            if not (word.if_empty and held.items):
                self._terms.resign(word.queue)
        self._desk.send(source, Closed(word.queue, word.term, held))

    def erase(self, source: NodeId, word: Erase) -> None:
        """It was deleted (rule 1)."""
        queue = word.queue
        self.made(queue, word.term)
        home = self._directory.home(queue)
        if home is None or home.term < word.term:
            self._directory.forget(queue)
            self.nowhere(source, Nowhere(queue, "NoSuchQueue", f"queue {queue!r} was deleted"))
        told = Erased(queue, word.term, self._desk.stream)
        self._copies.disk.write(queue, (), Tell(source, told))

    def nowhere(self, source: NodeId, message: Nowhere) -> None:
        """There is no such queue, or none like that: who asked here is told."""
        self.made(message.queue, message.below, message.first)
        self._directory.nowhere(source, message)
        if message.error == "NoSuchQueue":
            for way in self._ways:
                way.nowhere(message)

    def fence(self, source: NodeId, word: Fence) -> None:
        """Somebody is to lead, or leads: perhaps it is a queue that was deleted (rule 3)."""
        copy = self._copies.known(word.queue)
        if copy is None or not copy.deleted or copy.fence < word.since:
            self.made(word.queue, word.since)
            copy = self._copies.known(word.queue)
            if copy is None or not copy.left_after(word.sought):  # rule 7
                self._following.fence(source, word)

    def made(self, queue: str, since: int, first: int = 0) -> None:
        """One of this name was made with this term, or may be: what is older is over."""
        copy, disk = self._copies.known(queue), self._copies.disk
        if since:
            self._keeping.deleted(queue, range(first, since))
        if copy is None or copy.deleted or not first <= copy.fence < since:
            return
        self._desk.note(f"{queue}: the copy of term {copy.fence} is erased: it was deleted")
        self._ends(queue)
        disk.write(queue, self._copies.erase(queue, since - 1), OwnStep(NOTHING))

    def _ends(self, queue: str) -> None:
        """Nothing that is on its way for a copy is for what comes after it."""
        self._unnamed.pop(queue, None)
        self._terms.resign(queue)
        self._following.forget(queue)
        if self._copies.disk.has_stuck(queue):
            self._copies.disk.give_up(queue)

    # --- a copy that no home names ----------------------------------------------------------------

    def heard(self, source: NodeId, home: Home) -> None:
        """A home: perhaps it does not name the copy that is here (rule 5)."""
        queue, presence = home.queue, self._desk.presence
        copy = self._copies.known(queue)
        if presence is None or source != presence.view.coordinator:
            return
        if copy is None or copy.deleted or copy.left or self._desk.keeper in home.keepers:
            self._unnamed.pop(queue, None)
        elif not home.active:
            self._unnamed[queue] = None
            self._desk.wake(later(self._desk.now, AGAIN_AFTER))
        elif home.term >= copy.fence:
            self._desk.note(f"{queue}: the copy of term {copy.fence} is erased: no home names it")
            self._ends(queue)
            self._copies.disk.write(queue, copy.leave(home), OwnStep(NOTHING))

    def tick(self) -> None:
        """Asks again, of thousands some in turn."""
        desk, unnamed = self._desk, self._unnamed
        if not unnamed:
            return
        desk.wake(later(desk.now, AGAIN_AFTER))
        if later(self._asked, AGAIN_AFTER) > desk.now:
            return
        self._asked = desk.now
        for queue in list(islice(unnamed, desk.limits.asked_again)):
            unnamed[queue] = unnamed.pop(queue)
            self._directory.refresh(queue)
