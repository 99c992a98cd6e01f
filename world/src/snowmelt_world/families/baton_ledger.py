"""What is known of one baton of a simulated world, and what of it may never be seen.

Grants are witnessed where they are made, so also those of which nobody ever hears. Every other fact
is seen from the users' side: when somebody began to ask, until when somebody believes that it holds
the baton, what it did meanwhile with the thing that the baton guards, and which values it sent on.
"""

from itertools import pairwise
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, seconds, spelled
from snowmelt.core.names import NodeId
from snowmelt.protocols.baton.calls import Granted
from snowmelt_world.families.baton_excuses import AllowedLosses, covering
from snowmelt_world.world import Broken

LATER: Final = seconds(2)
"""Who began to ask so much later than another stands behind it; else either may be first."""

SERVED: Final = seconds(20)
"""So long nobody waits among those who hold for a moment: one may die, and one say nothing more."""

PASSED_OVER: Final = 40
"""And nobody whom a node has heard waits while so many have it who came later."""


class Want(msgspec.Struct):
    user: NodeId
    ticket: int
    asked: Instant
    came: Instant | None = None
    """When a node first heard of it: "A place counts from when a node has the request"."""
    granted: bool = False
    over: bool = False
    """Whether it was given up, or its process is gone."""
    waited: Instant | None = None
    """Until when it waited."""


class Hold(msgspec.Struct):
    user: NodeId
    ticket: int
    granted: Granted
    at: Instant
    age: int
    """How many values had been said, for the last time so far, before the one it got."""
    said: list[bytes] = []
    """The values that its holder sent on or saved, in order, whether that was heard or not."""
    saved: int = 0
    """How many of these it knows to be on a disk, or replaced there."""
    saved_at: Instant = Instant(0)
    saved_age: int = 0
    passed: bool = False
    """Whether it was told that the last of them has gone on (or what it got, when it said none)."""
    meant: bytes | None = None
    """What it means to leave; None when nothing is known of that."""

    @property
    def leaves(self) -> list[bytes]:
        """The values that may come next; one, once it was told what has become of it."""
        values = [self.granted.value, *self.said]
        return values[-1:] if self.passed else values[self.saved :]


class Belief(msgspec.Struct, frozen=True):
    """Somebody's own view: it holds the baton with this fence until then."""

    fence: int
    until: Instant
    since: Instant
    """When it asked what was answered so."""


class Ledger:
    def __init__(self, name: str, excuses: AllowedLosses) -> None:
        self.name = name
        self.excuses = excuses
        self.calls = 0
        """How many grants, renewals and confirmations were judged."""
        self.excused: dict[str, int] = {}
        self.ordered_from: Instant | None = None
        """From when on grants follow the order of the wants; None where faults may change it."""
        self.accepted = 0
        self.rejected = 0
        """How many acts came too late, and were turned away by their fence."""
        self.holds: dict[int, Hold] = {}
        """By fence."""
        self._wants: dict[int, Want] = {}
        self._largest_acted = 0
        self._beliefs: dict[NodeId, Belief] = {}
        self._unheard: dict[NodeId, Instant] = {}
        """Whose connections ended, and when."""
        self._ages: dict[bytes, int] = {b"": 0}
        """How many values were said before this one was for the last time."""
        self._said = 0
        self._undone: dict[Instant, None] = {}
        """When what was told that may be undone."""

    @property
    def wanted(self) -> bool:
        """Whether anybody ever wanted it; what nobody wants is nowhere."""
        return bool(self._wants)

    # --- asking and being granted -----------------------------------------------------------------

    def wants(self, user: NodeId, ticket: int, at: Instant) -> None:
        self._wants[ticket] = Want(user, ticket, at)

    def comes(self, ticket: int, at: Instant) -> None:
        want = self._wants[ticket]
        want.came = at if want.came is None else want.came

    def ends_want(self, ticket: int, at: Instant) -> None:
        want = self._wants[ticket]
        want.over, want.waited = True, want.waited or at

    def grants(self, ticket: int, granted: Granted, at: Instant) -> None:
        """A node says, perhaps again, that it is this one's turn."""
        want, fence = self._wants[ticket], granted.fence
        self.calls += 1
        first = self.holds.get(fence)
        if first is not None:
            if first.ticket != ticket:
                text = f"{first.user} and {want.user} were both granted {self.name} with fence"
                raise Broken(f"{text} {fence}", want.user)
            return
        age = self._ages.get(granted.value, 0)
        self.holds[fence] = Hold(want.user, ticket, granted, at, age)
        if fence <= self._largest_acted and not self._stale(at):
            text = f"{want.user} was granted {self.name} with fence {fence}, after"
            raise Broken(f"{text} {self._largest_acted} had acted", want.user)
        if granted.value not in self._ages:
            text = f"{want.user} was granted {self.name} with {granted.value!r}"
            raise Broken(f"{text}, which nobody ever sent on", want.user)
        self._check_order(want, at)
        want.granted, want.waited = True, at

    def _stale(self, at: Instant) -> bool:
        """Whether a node may grant what it has no more; fences keep out whoever believes it."""
        span = covering(self.excuses.clocks, at, at)
        return span is not None and self._excuse(span.reason)

    def _check_order(self, want: Want, at: Instant) -> None:
        if self.ordered_from is None or want.asked < self.ordered_from or want.granted:
            return
        for other in self._wants.values():
            waits = not (other.granted or other.over) and other.asked >= self.ordered_from
            if waits and later(other.asked, LATER) < want.asked:
                text = f"{want.user}, which wanted {self.name} at {spelled(want.asked)}, was"
                text += f" granted it at {spelled(at)} before {other.user}, which had wanted it"
                raise Broken(f"{text} since {spelled(other.asked)}", want.user)

    # --- holding ----------------------------------------------------------------------------------

    def believes(
        self, user: NodeId, fence: int, until: Instant, since: Instant, now: Instant
    ) -> None:
        """Somebody was told that it holds, or still holds, the baton, as it had asked then."""
        self.calls += 1
        if until <= now:
            return
        own = self._beliefs[user] = Belief(fence, until, since)
        for other, belief in self._beliefs.items():
            if other == user or belief.until <= now:
                continue
            before = (user, own) if fence < belief.fence else (other, belief)
            if not self._may_overlap(*before, now):
                text = f"{user} believes that it holds {self.name} with fence {fence}, and {other}"
                text += f" that it does with {belief.fence} until {spelled(belief.until)}"
                raise Broken(text, user)

    def _may_overlap(self, user: NodeId, belief: Belief, now: Instant) -> bool:
        """Whether it may have been taken from this one, who had it first, without its knowing."""
        if self._unheard.get(user, Instant(-1)) >= belief.since:
            return self._excuse("connection ended")
        span = covering(self.excuses.clocks, belief.since, now)
        return span is not None and self._excuse(span.reason)

    def _excuse(self, reason: str) -> bool:
        self.excused[reason] = self.excused.get(reason, 0) + 1
        return True

    def unheard(self, user: NodeId, at: Instant) -> None:
        self._unheard[user] = at

    def doubts(self, user: NodeId) -> None:
        """Somebody does not believe any more that it holds the baton."""
        self._beliefs.pop(user, None)

    def acts(self, fence: int) -> None:
        """Something is done to what the baton guards, which turns smaller fences away."""
        if fence < self._largest_acted:
            self.rejected += 1
            return
        self.accepted += 1
        self._largest_acted = fence

    # --- values -----------------------------------------------------------------------------------

    def says(self, fence: int, value: bytes) -> None:
        """A holder begins to save or to send on a value."""
        self._said += 1
        self._ages[value] = self._said
        self.holds[fence].said.append(value)

    def saved(self, fence: int, value: bytes, at: Instant) -> None:
        self.calls += 1
        hold = self.holds[fence]
        hold.saved, hold.saved_at = max(hold.saved, hold.said.index(value) + 1), at
        hold.saved_age = self._ages[value]

    def releases(self, user: NodeId, fence: int, value: bytes | None) -> None:
        """A holder gives the baton up, with what it got if no value is named."""
        hold = self.holds[fence]
        leaves = hold.granted.value if value is None else value
        if value is None and hold.said:
            text = f"{user} gives {self.name} up as it got it, and said {hold.said} meanwhile"
            raise Broken(text, user)
        if hold.meant is not None and leaves != hold.meant:
            text = f"{user} gives {self.name} up with {leaves!r}, and means to leave"
            raise Broken(f"{text} {hold.meant!r}", user)
        if value is not None:
            self.says(fence, value)

    def passed(self, fence: int) -> None:
        self.holds[fence].passed = True

    # --- at the end -------------------------------------------------------------------------------

    def judge_waits(self, now: Instant) -> None:
        """Where nobody holds for long and nothing happens everybody is served soon."""
        turns = [(want.waited, want.came) for want in self._wants.values() if want.granted]
        for want in self._wants.values():
            until = want.waited or now
            soon = later(want.asked, SERVED)
            if until <= later(want.asked, LATER):
                continue
            if covering(self.excuses.shaken, want.asked, min(until, soon)):
                continue
            came = until if want.came is None else want.came
            behind = sum(
                at is not None and other is not None and at < until and came + LATER < other
                for at, other in turns
            )
            if until > soon or behind > PASSED_OVER:
                text = f"{want.user} wanted {self.name} at {spelled(want.asked)}, and waited"
                text += f" {spelled(Duration(until - want.asked))} for it, while {behind} others"
                raise Broken(f"{text} had it who came later, though nothing happened", want.user)

    def judge(self) -> None:
        """Values go from holder to holder, and what was saved is never forgotten."""
        holds = [self.holds[fence] for fence in sorted(self.holds)]
        for one, other in pairwise(holds):
            shaken = covering(self.excuses.shaken, one.at, other.at)
            if one.granted.made != other.granted.made and shaken is None:
                text = f"{self.name} was made anew, and nothing had happened to it"
                raise Broken(text, other.user)
        last: dict[int, Hold] = {}
        for hold in holds:
            before = last.get(hold.granted.made)
            if before is not None and hold.granted.value not in before.leaves:
                text = f"{hold.user} was granted {self.name} with fence {hold.granted.fence} and"
                text += f" {hold.granted.value!r}, but {before.user} had left it with one of"
                raise Broken(f"{text} {before.leaves}", hold.user)
            last[hold.granted.made] = hold
        self._judge_saved(holds)

    def _judge_saved(self, holds: list[Hold]) -> None:
        saved = [hold for hold in holds if hold.saved]
        for hold in holds:
            for before in saved:
                value = before.said[before.saved - 1]
                behind = before.granted.fence < hold.granted.fence and before.saved_at < hold.at
                if (
                    behind
                    and hold.age < before.saved_age
                    and not self.undone(before.at, before.saved_at)
                ):
                    text = f"{hold.user} was granted {self.name} with {hold.granted.value!r}, which"
                    raise Broken(f"{text} is older than {value!r}, which was saved", hold.user)

    def undone(self, since: Instant, until: Instant) -> bool:
        """Whether what was saved in that time may be undone."""
        span = covering(self.excuses.undone, since, until)
        if span is None:
            return False
        if since not in self._undone:
            self._undone[since] = None
            self._excuse(span.reason)
        return True
