"""How a queue ends: whoever decides on homes has its leader close it, and has all erase it.

The home of a queue that was deleted has no keepers, and says so: it is the queue's *grave*. Rules:

1. Its leader *closes* it first: it serves nobody any more, and says what is in it; or it goes on,
   if nothing must be in it and something is. Steps that it decided are done first; if they are not
   soon, it goes on, too (`transactions.py`, rule 8). Meanwhile nothing else is decided on the
   queue. A leader that can't be asked any more closed nothing.
2. Then its grave is written down, with a later term. From then on there is no such queue, whatever
   becomes of who wrote it.
3. All who are here are told, and erase what they have (`erasing.py`). Only when each has said so,
   or has left, is it told as deleted, and can one of its name be made. So nothing is told as done
   in it after that.
4. Who comes back with an older copy is told when it says what it keeps (`copy_inventory.py`).
5. The next queue of that name is made with a term above that of the grave; all its homes name it,
   as `since`. So no token of one is a token of the other, and a copy with none but earlier terms is
   known as one of a queue that was deleted, by whoever hears of the home.
6. The last so many graves are kept. Others are forgotten, when it is written down that all new
   queues are made with terms above theirs: the *floor*. So a copy with none but terms below the
   floor, of which neither home nor grave is known, is of a queue that was deleted. Whatever was
   made while this disk was away, if it is an older one, was made above. Not so below the term with
   which the first queues began: these may have been lost, and not found (`rescuing.py`, rule 7).
7. Where nobody who is here can go on with a queue, nobody can say what is in it. It is deleted only
   if that is asked for in so many words, and nobody closes it then.
8. The same call is told the same, for as long as the grave is kept.
9. Where this disk is an older one, others may know that a queue was deleted, and know it late. It
   is, if it has not gone on meanwhile.
10. Who deletes a queue may say into which other one its items went. Whoever asks for the queue is
   told, and none of its name is made, while the grave is kept. To delete it once more frees the
   name: the grave is written down anew, without that. The first partition speaks for all.
11. The first partition is deleted when no other is there, and none is made while it is. One that
   was deleted may be made again before (`creation.py`, rule 2): what was put into it then is of
   this queue, and must not be in the next.
"""

from typing import Final

from snowmelt.core.instant import Duration, Instant, later, milliseconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.deletes import Deleted
from snowmelt.protocols.queue.api.partition_names import part_name, part_names, part_of, whole_of
from snowmelt.protocols.queue.api.settings import PARTITIONS_MAX
from snowmelt.protocols.queue.controller.homes import Homes
from snowmelt.protocols.queue.messages.home_words import (
    Assignment,
    Close,
    CopyClosed,
    CopyReport,
    DeleteAnswered,
    DeleteQueue,
    End,
    EraseCopy,
    Erased,
    Nowhere,
    buried,
    moved,
)
from snowmelt.protocols.queue.metadata.absence import waits
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.streams import Presence, node_of

AGAIN_AFTER: Final[Duration] = milliseconds(300)
OPEN_FOR: Final[Duration] = milliseconds(3000)
"""So long steps are waited for that the queue decided."""
NOT_COUNTED: Final = Deleted(counted=False)


class Deletions:
    """Of all queues, at whoever decides on homes."""

    def __init__(self, outbox: Outbox, kept: Homes) -> None:
        self._outbox = outbox
        self._kept = kept
        self._closing: dict[str, tuple[DeleteQueue, Instant]] = {}
        """Queues that their leaders are to close, and since when (rule 1)."""
        self._erasing: dict[str, dict[str, None]] = {}
        """By queue, the runs that have older copies and have not said that they erased them."""
        self._waiting: dict[str, dict[OperationId, NodeId]] = {}
        """By queue, which calls wait, and at whose door."""
        self._marks: dict[str, int] = {}
        """By which terms others say that queues were deleted."""
        self._asked = Instant(0)

    def forget(self) -> None:
        """The controller is another node now: what was under way here is dropped."""
        for known in (self._closing, self._erasing, self._waiting, self._marks):
            known.clear()

    # --- closing ----------------------------------------------------------------------------------

    def asked(self, source: NodeId, ask: DeleteQueue) -> None:
        """Somebody would have it deleted; silence is asked again."""
        kept, left = self._kept, self._moved(ask.queue)
        queue = ask.queue if left is None else left.queue
        presence, home = kept.presence, kept.known.get(queue)
        if presence is None or not kept.decides:
            return
        if len(self._waiting) > self._outbox.limits.questions:
            self._waiting.clear()  # who waits still asks again
        self._waiting.setdefault(queue, {})[ask.operation] = source
        if queue in kept.busy:
            return
        served = home is not None and home.active and home.master in presence.keepers
        if home is None and queue in kept.unreadable:  # controller, rule 16
            if ask.lost:
                self._bury(queue, End(ask.operation, NOT_COUNTED), presence)
            else:
                self._tell(queue, ask.operation, Declined("StoreDamaged", kept.why(queue)))
        elif left is not None and left.end and left.end.by != ask.operation:  # rule 10
            self._bury(queue, End(ask.operation, Deleted(counted=True)), presence)
        elif home is None:
            self._is_done(queue)
        elif other := self._other(queue):  # rule 11
            text = f"partition {other!r} was made again meanwhile: delete the queue once more"
            self._tell(queue, ask.operation, Declined("QueueExists", text))
        elif served:  # rule 1
            self._closing[queue] = ask, self._outbox.now
            kept.busy[queue] = home.term
            self._close(home, ask)
        elif ask.lost:  # rule 7
            self._bury(queue, End(ask.operation, NOT_COUNTED), presence)
        elif (whom := waits(home, presence, self._outbox.now)) is not None:
            text = f"{whom.text}, or delete it with lost=True (--lost), and what it has is given up"
            self._tell(queue, ask.operation, Declined(whom.error, text))

    def _close(self, home: Assignment, ask: DeleteQueue) -> None:
        word = Close(home.queue, home.term, ask.if_empty, ask.lost)
        self._outbox.send(node_of(home.master), word)
        self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))

    def closed(self, source: NodeId, word: CopyClosed) -> None:
        """Its leader says what is in it, or that it does not lead."""
        kept, queue, held = self._kept, word.queue, word.held
        presence, closing, home = kept.presence, self._closing.get(queue), kept.known.get(queue)
        if presence is None or closing is None or home is None or word.term != home.term:
            return
        if node_of(home.master) != source:
            return
        ask, since = closing
        if held is None:
            self._closed_nothing(home)
        elif ask.if_empty and held.items:
            text = f"{queue!r} has {held.text}; if_empty deletes only an empty queue"
            self._tell(queue, ask.operation, Declined("NotEmpty", text))
            self._closed_nothing(home)
        elif word.open:
            if later(since, OPEN_FOR) <= self._outbox.now:  # or it is asked again
                self._tell(queue, ask.operation, Declined("NotEmpty", _has_open(queue, word.open)))
                self._closed_nothing(home)
        else:
            del self._closing[queue]
            self._bury(queue, End(ask.operation, held, ask.moved_to), presence)

    def _closed_nothing(self, home: Assignment) -> None:
        """It stays as it was; a view may have come meanwhile."""
        del self._closing[home.queue]
        self._kept.keep(home)

    # --- what is left of it -----------------------------------------------------------------------

    def _bury(self, queue: str, end: End, presence: Presence) -> None:
        # Rule 2.
        self._erasing[queue] = dict.fromkeys(presence.streams)
        self._forget_some()
        self._kept.keep(buried(queue, self._kept.next_term(queue), end))

    def buried(self, grave: Assignment) -> None:
        """It is written down: all are told (rule 3)."""
        self._outbox.note(f"{grave.queue} was deleted: its last term is {grave.term}")
        for run in self._erasing.get(grave.queue, {}):
            self._erase(run, grave.queue)
        self._is_erased(grave.queue)

    def erased(self, _: NodeId, word: Erased) -> None:
        """One has nothing of it any more."""
        runs = self._erasing.get(word.queue)
        if runs is not None and word.run in runs and word.term == self._since(word.queue):
            del runs[word.run]
            self._is_erased(word.queue)

    def _is_erased(self, queue: str) -> None:
        if queue not in self._kept.busy and not self._erasing.get(queue):
            self._erasing.pop(queue, None)
            self._is_done(queue)
        else:
            self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))

    def _is_done(self, queue: str) -> None:
        """Who waits is told, if there is nothing of it any more (rules 3 and 8)."""
        grave = self._grave(queue)
        if self.erasing(queue):
            return
        for operation in list(self._waiting.get(queue, ())):
            if grave is not None and grave.end is not None and grave.end.by == operation:
                self._tell(queue, operation, grave.end.told)
            elif queue not in self._kept.known:
                gone = self.nowhere(queue)
                self._tell(queue, operation, Declined(gone.error, gone.text))

    def _tell(self, queue: str, operation: OperationId, answer: Deleted | Declined) -> None:
        waiting = self._waiting.get(queue, {})
        if operation in waiting:
            self._outbox.send(waiting.pop(operation), DeleteAnswered(operation, answer))
        if not waiting:
            self._waiting.pop(queue, None)

    def erasing(self, queue: str) -> bool:
        """Whether none of this name may be made yet (rule 3)."""
        return queue in self._erasing

    # --- who comes back ---------------------------------------------------------------------------

    def is_over(self, run: str, held: CopyReport) -> bool:
        """Whether a copy is of a queue that was deleted; who has it is told (rules 4 and 6)."""
        kept, queue = self._kept, held.queue
        met = max(held.fence, 0 if held.home is None else held.home.term)
        if held.deleted:
            self._marks[queue] = max(held.fence, self._marks.get(queue, 0))
            return kept.decides and self.was_deleted(queue)
        if queue in kept.known or queue in kept.graves:
            if met >= self._since(queue):
                return False
            self._erasing.setdefault(queue, {})[run] = None
            self._erase(run, queue)
            self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))
            return True
        if queue in kept.unreadable or not kept.first_term <= met < kept.floor:
            return False
        self._outbox.send(node_of(run), self.nowhere(queue))
        return True

    def was_deleted(self, queue: str) -> bool:
        """Whether one that did not go on yet, as an older disk knows it, was deleted (rule 9)."""
        kept, home = self._kept, self._kept.known.get(queue)
        if home is None or home.active or queue in kept.busy:
            return False
        if self._marks.get(queue, -1) < home.since:
            return False
        kept.keep(buried(queue, kept.next_term(queue)))
        return True

    def nowhere(self, queue: str) -> Nowhere:
        """There is none, and what is left of it may be erased."""
        left = self._moved(queue)
        if left is not None and left.end is not None:
            return moved(queue, left.end.moved_to, self._since(queue))
        kept, text = self._kept, f"there is no queue {queue!r}"
        first = 0 if queue in kept.graves else kept.first_term
        below = self._since(queue) if queue in kept.graves else kept.floor
        return Nowhere(queue, "NoSuchQueue", text, first, below)

    def _since(self, queue: str) -> int:
        """Copies from before this term are over (rule 5)."""
        home, grave = self._kept.known.get(queue), self._kept.graves.get(queue)
        if home is not None:
            return home.since
        return 0 if grave is None else grave.term + 1

    def _grave(self, queue: str) -> Assignment | None:
        """That of a queue, or of its first partition (rule 10)."""
        graves = self._kept.graves
        return graves.get(queue) or graves.get(part_name(queue, 0))

    def _moved(self, queue: str) -> Assignment | None:
        """What is left of a queue whose items went into another, until its name is free."""
        kept, left = self._kept, self._grave(queue)
        there = queue in kept.known or part_name(queue, 0) in kept.known
        return left if left and left.end and left.end.moved_to and not there else None

    def _other(self, queue: str) -> str:
        """Of the first partition: one of the others, if it is there or is being made."""
        known, busy = self._kept.known, self._kept.busy
        _, *names = part_names(whole_of(queue), PARTITIONS_MAX if part_of(queue) == 0 else 1)
        return next((name for name in names if name in known or name in busy), "")

    def _erase(self, run: str, queue: str) -> None:
        left = self._kept.graves.get(queue)
        to = left.end.moved_to if left is not None and left.end is not None else ""
        lives = queue in self._kept.known
        self._outbox.send(node_of(run), EraseCopy(queue, self._since(queue), to, lives))

    def _forget_some(self) -> None:
        # Rule 6.
        kept = self._kept
        old = [
            queue
            for queue, grave in kept.graves.items()
            if queue not in self._erasing
            and queue not in kept.busy
            and grave.term > kept.first_term
        ]
        if len(old) > self._outbox.limits.graves:
            kept.forget_graves(old[: len(old) // 2])

    # --- as time goes by --------------------------------------------------------------------------

    def viewed(self, presence: Presence) -> None:
        """Who is gone is not waited for."""
        for queue in list(self._closing):
            home = self._kept.known[queue]
            if home.master not in presence.keepers:
                self._closed_nothing(home)
        for queue, runs in list(self._erasing.items()):
            self._erasing[queue] = {run: None for run in runs if run in presence.streams}
            self._is_erased(queue)

    def tick(self) -> None:
        """What has no answer is said again."""
        kept, now = self._kept, self._outbox.now
        if kept.presence is None or not (self._closing or self._erasing):
            return
        self._outbox.wake(later(now, AGAIN_AFTER))
        if later(self._asked, AGAIN_AFTER) > now:
            return
        self._asked = now
        for queue, (ask, _) in self._closing.items():
            self._close(kept.known[queue], ask)
        for queue, runs in self._erasing.items():
            for run in runs if queue not in kept.busy else ():
                self._erase(run, queue)


def _has_open(queue: str, count: int) -> str:
    return (
        f"{queue!r} decided {count} steps of which queues that are full or away have a part: make "
        "room, or delete it with lost=True (--lost), and what they do not have yet is given up"
    )
