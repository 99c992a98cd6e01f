"""More copies of queues of which nobody said how many there are: one more, and another.

1. There are to be as many as is usual, or as there are nodes that stay (`settings.py`, `grown`).
2. A term has one more. The next has another when all that are named have what their leader has.
3. Few queues begin at once, so thousands of them do not keep each other from being served.
4. When nodes leave in order there are fewer, if there must be (`quitting.py`). A node that is away
   is waited for, as with any number that somebody said.
"""

from typing import Final

from snowmelt.core.instant import Duration, Instant, later, milliseconds
from snowmelt.protocols.queue.controller.homes import Homes
from snowmelt.protocols.queue.controller.next_homes import mirrored_by, towards
from snowmelt.protocols.queue.controller.quitting import Quitting
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.streams import Presence

AGAIN_AFTER: Final[Duration] = milliseconds(200)
AT_ONCE: Final = 8


class Growing:
    """Of all queues, at whoever decides on homes."""

    def __init__(self, outbox: Outbox, kept: Homes, quitting: Quitting) -> None:
        self._outbox = outbox
        self._kept = kept
        self._quitting = quitting
        self._queues: dict[str, None] = {}
        """Those that may be about to have more."""
        self._looked = Instant(0)

    def look_at(self, home: Assignment, presence: Presence) -> None:
        """It is decided on, or others are here."""
        if self._staying(home, presence) is not None:
            self._queues[home.queue] = None
            self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))

    def tick(self, presence: Presence) -> None:
        # Rule 3.
        now = self._outbox.now
        if not self._queues or later(self._looked, AGAIN_AFTER) > now:
            return
        self._looked, begun = now, 0
        self._outbox.wake(later(now, AGAIN_AFTER))
        for queue in list(self._queues):
            home = self._kept.known.get(queue)
            staying = None if home is None else self._staying(home, presence)
            if home is None or staying is None:
                del self._queues[queue]
            elif self._kept.may_change(home) and _is_whole(home):
                self._grow(home, staying)
                begun += 1
                if begun == AT_ONCE:
                    break

    def _staying(self, home: Assignment, presence: Presence) -> Presence | None:
        """Who stays, if there are to be more copies than now (rule 1)."""
        settings = home.asked_for
        if not settings.grows:
            return None
        staying = self._quitting.staying(presence, settings.copies_needed)
        return None if settings.grown(len(staying.keepers)) is settings else staying

    def _grow(self, home: Assignment, staying: Presence) -> None:
        more = towards(home, home.settings.grown(len(staying.keepers)))
        mirrors = mirrored_by(home.master, more, staying)
        self._kept.renew(home, home.master, mirrors, home.run, more)


def _is_whole(home: Assignment) -> bool:
    """Whether all that are named have what their leader has, as far as it said (rule 2)."""
    counted = not home.in_sync or {*home.in_sync} == {*home.keepers}
    return home.active and home.wanted is None and counted
