"""More copies of queues of which nobody said how many there are: one more, and another.

1. There are to be as many as is usual, or as there are nodes that stay (`settings.py`, `grown`).
2. A term has one more. The next has another when all that are named have what their leader has.
3. Few queues begin at once, so thousands of them do not keep each other from being served.
4. When nodes leave in order there are fewer, if there must be. A node that is away
   is waited for, as with any number that somebody said.
"""

from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.protocols.queue.controller.homes import Homes
from snowmelt.protocols.queue.controller.next_homes import mirrored_by, towards
from snowmelt.protocols.queue.messages.home_words import Assignment, Needs
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.streams import Presence

QUITS_FOR: Final = seconds(3)
"""Who asks no more stays."""
TOLD: Final = 100
AGAIN_AFTER: Final[Duration] = milliseconds(200)
AT_ONCE: Final = 8


class Quitting:
    """The nodes that leave in order, by their runs."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._until: dict[str, Instant] = {}

    def quits(self, run: str) -> None:
        """It asks to keep nothing, and asks again for as long as that is to be so."""
        self._until[run] = later(self._outbox.now, QUITS_FOR)
        self._outbox.wake(self._until[run])

    def stays(self) -> bool:
        """Whether somebody asks no more, who did."""
        before, now = len(self._until), self._outbox.now
        self._until = {run: end for run, end in self._until.items() if end > now}
        if self._until:
            self._outbox.wake(min(self._until.values()))
        return len(self._until) < before

    def staying(self, presence: Presence, needed: int) -> Presence:
        """Who stays; all who are here, where fewer than are needed would be left."""
        if not self._until:
            return presence
        left = presence.without(self._until)
        return left if len(left.keepers) >= needed else presence

    def stay_for(self, home: Assignment, presence: Presence) -> tuple[Presence, Assignment]:
        """Who stays for a queue, and what it is to be: perhaps with fewer copies.

        That is so where nobody said how many, and all who have one are here to hand it over.
        """
        settings = home.settings
        whole = (
            home.active
            and home.wanted is None
            and all(one in presence.keepers for one in home.keepers)
        )
        needed = settings.fewest if whole else settings.copies_needed
        staying = self.staying(presence, needed)
        count = len(staying.keepers)
        if count < settings.copies_needed and whole:
            fewer = msgspec.structs.replace(settings, replicas=count)
            return staying, msgspec.structs.replace(home, settings=fewer)
        return staying, home

    def needs(self, run: str, homes: list[Assignment], presence: Presence) -> Needs:
        """Which of these can't do without it yet."""
        keeper = run.rpartition("/")[0]
        there = [one for one in homes if keeper in (*one.keepers, *one.before)]
        stuck = [one for one in there if keeper in self.stay_for(one, presence)[0].keepers]
        names = tuple(one.queue for one in (stuck or there)[:TOLD])
        return Needs(run, names, len(stuck or there), stuck=len(stuck) > 0, there=len(there))


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
