"""A node erases what it has of a queue that was deleted (`deleting.py`).

1. It is told by the controller, with the term from which on a queue of that name is another one;
   every home says with which term its queue was made, and so does a leader that fences.
2. It serves nobody in that queue any more. Who waits here is told at once that it was deleted.
3. Of the copy is left that the queue was deleted by that term, of the last so many queues: a
   coordinator whose disk is older than that hears of it (`registry.py`, rule 5), and whoever is to
   lead by its word hears nothing.
4. It says that it has nothing when that is on the disk, however often it is asked.
"""

from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.carrying import Carrying
from snowmelt.protocols.queue.copies import Copies
from snowmelt.protocols.queue.deletes import counted
from snowmelt.protocols.queue.desk import Desk
from snowmelt.protocols.queue.directory import Directory
from snowmelt.protocols.queue.following import Following
from snowmelt.protocols.queue.keeping import Keeping
from snowmelt.protocols.queue.messages import Close, Closed, Erase, Erased, Nowhere
from snowmelt.protocols.queue.terms import Terms
from snowmelt.protocols.queue.words import NOTHING, Fence, OwnStep, Tell


class Erasing:
    """Of all queues, at one node."""

    def __init__(
        self, desk: Desk, directory: Directory, copies: Copies, terms: Terms, following: Following,
        keeping: Keeping, carrying: Carrying,
    ) -> None:  # fmt: skip
        self._desk = desk
        self._directory = directory
        self._copies = copies
        self._terms = terms
        self._following = following
        self._keeping = keeping
        self._carrying = carrying

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
            self._carrying.nowhere(message)

    def fence(self, source: NodeId, word: Fence) -> None:
        """Somebody is to lead, or leads: perhaps it is a queue that was deleted (rule 3)."""
        copy = self._copies.known(word.queue)
        if copy is None or not copy.deleted or copy.fence < word.since:
            self.made(word.queue, word.since)
            self._following.fence(source, word)

    def made(self, queue: str, since: int, first: int = 0) -> None:
        """One of this name was made with this term, or may be: what is older is over."""
        copy, disk = self._copies.known(queue), self._copies.disk
        if since:
            self._keeping.deleted(queue, range(first, since))
        if copy is None or copy.deleted or not first <= copy.fence < since:
            return
        self._desk.note(f"{queue}: the copy of term {copy.fence} is erased: it was deleted")
        self._terms.resign(queue)
        self._following.forget(queue)
        if disk.has_stuck(queue):
            disk.give_up(queue)
        disk.write(queue, self._copies.erase(queue, since - 1), OwnStep(NOTHING))
