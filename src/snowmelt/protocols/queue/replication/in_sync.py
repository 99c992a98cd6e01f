"""Which copies count where fewer than a majority must be durable: the *set* that is in sync.

1. A step is safe when so many copies of the set have it as `quorum` says: most of them, or more
   where more must be durable. At first the set is all copies.
2. Who is to lead goes on from copies of the set, and from no others (`takeover.py`).
3. When a step or a question waits for too long, those who have answered are to be the set. Nobody
   counts without the others before the controller has written that down.
4. Who has what the leader has comes into the set again, one at a time.
5. What is to be the set may be so already. Until that is known, a step is safe only when it is so
   in both.
6. Sets of a term have numbers, and the controller writes each down once: what it said of an earlier
   one is not taken for a later one.
7. Where a majority must be durable the set is all copies, always.
"""

from collections.abc import Mapping
from typing import Final

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.protocols.queue.messages.home_words import Among, Assignment
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.replication.follower_progress import (
    AGAIN_AFTER,
    FollowerProgress,
    Followers,
)

PATIENCE: Final = milliseconds(1000)
REST: Final = seconds(5)
"""So long after somebody was left out nobody comes in again."""
NEAR_STEPS: Final = 64


class InSync:
    """Of one queue, in one term, as its leader knows it."""

    def __init__(self, outbox: Outbox, home: Assignment, followers: Followers) -> None:
        self.varies = home.settings.copies_needed <= home.settings.replicas // 2
        """Whether there is a majority that need not be durable (rule 7)."""
        self.members = frozenset(home.counted)
        self._number = home.sets
        self._next: frozenset[str] | None = None
        """What is to be the set (rule 5)."""
        self._asked: Instant | None = None
        """When the controller was told so last."""
        self._outbox = outbox
        self._home = home
        self._followers = followers
        self._seen = (-1, -1)
        self._since = outbox.now
        """Since when no more than that was safe and confirmed."""
        self._rests = outbox.now

    # --- what is safe -----------------------------------------------------------------------------

    def has(self, own: int) -> int:
        """The last step that enough copies have, with this node's own."""
        steps = {name: one.appended or 0 for name, one in self._followers.all.items()}
        return self._reached({self._home.master: own, **steps})

    def sure(self) -> int:
        """Up to which question enough have confirmed that this leader leads, with itself."""
        questions = {name: one.confirmed for name, one in self._followers.all.items()}
        return self._reached({self._home.master: self._followers.asked, **questions})

    def _reached(self, numbers: Mapping[str, int]) -> int:
        """The greatest number that enough have reached (rules 1 and 5)."""
        sets = [self.members] if self._next is None else [self.members, self._next]
        return min([self._reached_in(one, numbers) for one in sets])

    def _reached_in(self, members: frozenset[str], numbers: Mapping[str, int]) -> int:
        found = sorted([numbers[one] for one in members], reverse=True)
        return found[self._home.settings.quorum(len(found)) - 1]

    # --- another set ------------------------------------------------------------------------------

    def look(self, own: int, safe: int, confirmed: int, *, waits: bool) -> None:
        """Whether another set is to be; something may wait for more than is safe and confirmed."""
        now, seen = self._outbox.now, (safe, confirmed)
        if seen != self._seen or not waits:
            self._seen, self._since = seen, now
        stuck = later(self._since, PATIENCE) <= now
        if self._asked is not None:
            if later(self._asked, AGAIN_AFTER) <= now:
                self._ask()
        elif self._next is not None:
            if self._have(self._next, safe):
                self._ask()
            elif stuck:
                self._next, self._rests = None, later(now, REST)
        elif stuck:
            self._narrow(own, safe, confirmed)
        elif len(self.members) <= len(self._followers.all):
            self._widen(safe)
        if waits or self._asked is not None:
            self._outbox.wake(later(now, AGAIN_AFTER))

    def _have(self, members: frozenset[str], safe: int) -> bool:
        others = self._followers.all
        return all((others[one].appended or 0) >= safe for one in members if one in others)

    def _narrow(self, own: int, safe: int, confirmed: int) -> None:
        # Rule 3.
        followers, head = self._followers, self._followers.copy.head.step
        least_step, least_question = min(safe + 1, head), min(confirmed + 1, followers.asked)

        def answered(one: FollowerProgress) -> bool:
            return (one.appended or 0) >= least_step and one.confirmed >= least_question

        there = {name for name, one in followers.all.items() if answered(one)} & self.members
        if own >= least_step:
            there.add(self._home.master)
        enough = self._home.master in there and len(there) >= self._home.settings.copies_needed
        if enough and there < self.members:
            self._next, self._rests = frozenset(there), later(self._outbox.now, REST)
            self._ask()

    def _widen(self, safe: int) -> None:
        # Rule 4.
        now, head = self._outbox.now, self._followers.copy.head.step
        if now < self._rests:
            self._outbox.wake(self._rests)
            return
        for name, one in self._followers.all.items():
            lacks = NEAR_STEPS + 1 if one.appended is None else head - one.appended
            lively = later(one.heard, AGAIN_AFTER) >= now
            if name not in self.members and lacks <= (NEAR_STEPS if lively else 0):
                self._next = self.members | {name}
                if self._have(self._next, safe):
                    self._ask()
                return

    def _ask(self) -> None:
        assert self._next is not None
        self._asked = self._outbox.now
        home, members = self._home, tuple(sorted(self._next))
        word = Among(home.queue, home.term, home.run, self._number + 1, members)
        self._outbox.to_coordinator(word)

    def written(self, home: Assignment) -> None:
        """The controller says what is written down (rule 6)."""
        if self._asked is not None and home.sets == self._number + 1:
            self._outbox.note(f"{home.queue}: {', '.join(home.in_sync)} are in sync")
            self.members, self._number = frozenset(home.in_sync), home.sets
            self._next = self._asked = None
