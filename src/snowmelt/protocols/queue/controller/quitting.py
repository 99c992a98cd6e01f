"""Who is to leave in order, or to be empty, as whoever decides on homes knows it."""

from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.protocols.queue.messages.home_words import Assignment, Needs
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.streams import Presence

QUITS_FOR: Final = seconds(3)
"""Who asks no more stays."""
TOLD: Final = 100


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
