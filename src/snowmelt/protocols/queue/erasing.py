"""A node erases what it has of a queue that was deleted (`deleting.py`).

1. It is told by the controller, with the term from which on a queue of that name is another one;
   every home says with which term its queue was made, and so does a leader that fences.
2. It serves nobody in that queue any more. Who waits here is told at once that it was deleted.
3. Of the copy is left that the queue was deleted by that term, of the last so many queues. A
   coordinator whose disk is older than that hears of it (`controller.py`, rule 5), and whoever is
   to lead by its word hears nothing.
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
from snowmelt.protocols.queue.api.deletes import counted
from snowmelt.protocols.queue.follower.body_store import BodyStore
from snowmelt.protocols.queue.follower.follower_role import FollowerRole
from snowmelt.protocols.queue.leader.terms import Terms
from snowmelt.protocols.queue.messages.home_words import (
    Assignment,
    Close,
    CopyClosed,
    EraseCopy,
    Erased,
    Nowhere,
    moved,
)
from snowmelt.protocols.queue.messages.words import NOTHING, Fence, OwnStep, SendWhenFlushed
from snowmelt.protocols.queue.metadata.metadata_cache import MetadataCache
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.router.carrying import Carrying
from snowmelt.protocols.queue.router.parted_gets import PartedGets
from snowmelt.protocols.queue.router.transaction_router import TransactionRouter
from snowmelt.protocols.queue.store.copies import Copies

AGAIN_AFTER: Final = milliseconds(1000)


class Erasing:
    """Of all queues, at one node."""

    def __init__(
        self, outbox: Outbox, metadata: MetadataCache, copies: Copies, terms: Terms,
        following: FollowerRole, keeping: BodyStore,
        ways: tuple[Carrying, PartedGets, TransactionRouter],
    ) -> None:  # fmt: skip
        self._outbox = outbox
        self._metadata = metadata
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
        leader, held, waits = self._terms.leading(word.queue, word.term), None, 0
        if leader is not None and leader.serving:
            held = counted(leader.status())
            waits = 0 if word.lost else leader.transacting.close()
            if not (waits or (word.if_empty and held.items)):
                self._terms.resign(word.queue)
        self._outbox.send(source, CopyClosed(word.queue, word.term, held, waits))

    def erase(self, source: NodeId, word: EraseCopy) -> None:
        """It was deleted (rule 1)."""
        queue = word.queue
        self.made(queue, word.term)
        home = self._metadata.home(queue)
        if home is None or home.term < word.term:
            self._metadata.forget(queue)
            gone = Nowhere(queue, "NoSuchQueue", f"queue {queue!r} was deleted")
            if not word.lives:  # else who asked is told where it is at home
                self.nowhere(source, moved(queue, word.moved_to, 0) if word.moved_to else gone)
        told = Erased(queue, word.term, self._outbox.stream)
        self._copies.disk.write(queue, (), SendWhenFlushed(source, told))

    def nowhere(self, source: NodeId, message: Nowhere) -> None:
        """There is no such queue, or none like that: who asked here is told."""
        self.made(message.queue, message.below, message.first)
        self._metadata.nowhere(source, message)
        if message.gone:
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
        self._outbox.note(f"{queue}: the copy of term {copy.fence} is erased: it was deleted")
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

    def heard(self, source: NodeId, home: Assignment) -> None:
        """A home: perhaps it does not name the copy that is here (rule 5)."""
        queue, copy = home.queue, self._copies.known(home.queue)
        if source != self._outbox.coordinator:
            return
        if copy is None or copy.deleted or copy.left or self._outbox.keeper in home.keepers:
            self._unnamed.pop(queue, None)
        elif not home.active:
            self._unnamed[queue] = None
            self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))
        elif home.term >= copy.fence:
            self._outbox.note(f"{queue}: the copy of term {copy.fence} is erased: no home names it")
            self._ends(queue)
            self._copies.disk.write(queue, copy.leave(home), OwnStep(NOTHING))

    def tick(self) -> None:
        """Asks again, of thousands some in turn."""
        outbox, unnamed = self._outbox, self._unnamed
        if not unnamed:
            return
        outbox.wake(later(outbox.now, AGAIN_AFTER))
        if later(self._asked, AGAIN_AFTER) > outbox.now:
            return
        self._asked = outbox.now
        for queue in list(islice(unnamed, outbox.limits.asked_again)):
            unnamed[queue] = unnamed.pop(queue)
            self._metadata.refresh(queue)
