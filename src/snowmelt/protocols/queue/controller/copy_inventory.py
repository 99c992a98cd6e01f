"""What the nodes keep, asked by a coordinator: each run of each node once.

The coordinator's disk may be an older copy than the others' (it was put back), and then knows
nothing of later terms, or of some queues at all; those who have copies do.
"""

from typing import Final

from snowmelt.core.instant import Instant, later, milliseconds
from snowmelt.protocols.queue.messages.home_words import CopiesListed, ListCopies
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.streams import Presence

AGAIN_AFTER: Final = milliseconds(500)
AT_ONCE: Final = 200
"""So many copies a node tells of in one answer."""


class CopyInventory:
    """Whom the coordinator has heard to the end, and whom not yet."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._heard: dict[str, None] = {}
        self._asked: dict[str, tuple[str, Instant]] = {}
        self.begun = False
        """Whether anybody was asked yet."""

    @property
    def complete(self) -> bool:
        """Whether all who are here have told everything."""
        return self.begun and not self._asked

    def viewed(self, presence: Presence) -> None:
        """Who is new is asked; who is gone is not waited for."""
        self._heard = {run: None for run in self._heard if run in presence.streams}
        self._asked = {
            run: self._asked.get(run, ("", Instant(0)))
            for run in presence.streams
            if run not in self._heard
        }
        self.begun = True
        self.tick()

    def sought(self, message: CopiesListed) -> bool:
        """Whether this is news; asks on when there is more."""
        after, _ = self._asked.get(message.run, ("", Instant(0)))
        if message.run not in self._asked or after != message.after:
            return False
        if message.more and message.held:
            self._asked[message.run] = message.held[-1].queue, Instant(0)
            self.tick()
        else:
            del self._asked[message.run]
            self._heard[message.run] = None
        return True

    def tick(self) -> None:
        outbox = self._outbox
        if outbox.presence is None:
            return
        for run, (after, asked) in self._asked.items():
            if not asked or later(asked, AGAIN_AFTER) <= outbox.now:
                self._asked[run] = after, outbox.now
                outbox.send(outbox.presence.streams[run].id, ListCopies(after))
        if self._asked:
            outbox.wake(later(outbox.now, AGAIN_AFTER))
