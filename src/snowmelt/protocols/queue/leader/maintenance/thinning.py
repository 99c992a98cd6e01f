"""Bodies of which little lives are written anew without what has ended, in the background.

1. When bodies take more than twice what lives of them, and some more, those are written anew of
   which a third has ended: about `ONCE_BYTES` each `EVERY`.
2. What goes ended in a step that is safe: whoever leads next, it is over. Where flushes may linger
   no step is safe in that way. While a copy is on its way none goes, either (`log.py`, rule 4).
3. Each copy does so by itself (`write_queue.py`, rule 4). Who has not that step yet, or does not
   hear of it, keeps the body as it is.
4. A body that was written anew tells what is in it: nobody takes what ended for an empty item.
"""

from typing import Final

from snowmelt.core.instant import Instant, later, milliseconds
from snowmelt.protocols.queue.leader.part import LeaderPart, Own
from snowmelt.protocols.queue.messages.words import Thin, Thinner
from snowmelt.protocols.queue.replication.follower_progress import Followers
from snowmelt.protocols.queue.store.write_queue import WriteQueue
from snowmelt.protocols.queue.streams import node_of

ONCE_BYTES: Final = 1 << 20
EVERY: Final = milliseconds(20)


class Thinning(LeaderPart):
    """Of one queue, in one term."""

    def __init__(self, own: Own, disk: WriteQueue, followers: Followers) -> None:
        super().__init__(own)
        self.word: Thin | None = None
        """What is to be done when its step is safe (rule 2)."""
        self._disk = disk
        self._followers = followers
        self._at = 0
        """From which position on it is looked next."""
        self._next = Instant(0)

    def look(self) -> None:
        """Some more, if it is time."""
        if self.word is not None:
            if self._log.safe >= self.word.head.step and not self._followers.sends:
                self._tell(self.word)
                self.word = None
        elif self._disk.is_thinning or self._disk.full or self._log.lingers or self._state.changed:
            return
        elif self._outbox.now < self._next:
            self._outbox.wake(self._next)
        else:
            self._next = later(self._outbox.now, EVERY)
            self._outbox.wake(self._next)
            found, self._at = self._state.batches.thinned(self._at, ONCE_BYTES)
            some = tuple([Thinner(batch.place, batch.term, left) for batch, left in found])
            home = self._followers.home
            if some:
                self.word = Thin(home.queue, home.term, self._followers.copy.head, some)

    def _tell(self, word: Thin) -> None:
        """To all copies that go on by steps (rule 3)."""
        self._outbox.inside.append(word)
        for keeper, follower in self._followers.all.items():
            if follower.appended is not None:
                self._outbox.send(node_of(keeper), word)
