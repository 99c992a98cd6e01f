"""Who is heard next: what has come waits until the loop has looked at all, and then has its turn.

A node that hears each connection as its bytes come works for whoever sends most. So bytes are only
cut into frames as they come (`connection.py`), and a turn of the loop hears them by these rules:

1. Timers come first: the loop sees to them before each turn.
2. Then nodes are heard, each connection for one slice, for `NODES_SECONDS` in all. What they say
   mostly belongs to what was begun already, and is finished before more is begun.
3. Then clients, for `TURN_SECONDS` in all, a slice each. The account that has cost the least of the
   processor is next, and of its connections the one that has. So an account that asks for all it
   can get has no more than its part, and one that asks seldom hardly waits. A call that is
   declined costs its account a whole slice more, as in rule 7: so nonsense is heard last.
4. Clients wait while the machines are behind with what was heard before.
5. While a node does not read what this one says to it (`slows`), an account rests after its slice,
   `HELD_UP` times as long: what it asks would mostly heap up here. Who asks for less than that does
   not see it.
6. Where the system holds this process up and several accounts ask, one that had more than an equal
   part lately (`recent_costs.py`) rests after its slice, as long as that took by the clock. Else
   the others would wait for what the system takes back of the processor, though it was not they
   who used it up.
7. A call by which a name may come into use, or a place, makes nodes speak to each other, here and
   elsewhere, and for a while (`caused.py`). That has no account where it is heard, so it is paid by
   whoever called: its slice counts as so much more. By rule 6 it counts `HELD_UP` times, and the
   account rests for that as well, at most for `REST_MOST`: a slice ends when it owes that much.
8. When nobody waits, what each has cost is forgotten. And what comes then is heard at once, as
   long as the loop has little to do: to let it go round first costs a call to the system.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from itertools import count
from time import perf_counter
from typing import Final, Generic, Protocol, TypeVar

from snowmelt.runtime.recent_costs import RecentCosts

K = TypeVar("K", bound=Hashable)

NODES_SECONDS: Final = 0.01
TURN_SECONDS: Final = 0.003
SLICE_SECONDS: Final = 0.001
"""A slice ends after so long, or after `connection.SLICE_FRAMES`."""
AT_ONCE_SECONDS: Final = 0.001
"""So much of each `TURN_SECONDS` is heard at once (rule 8)."""
HELD_UP: Final = 8
REST_MOST: Final = 0.1
OWES_MOST: Final = REST_MOST / HELD_UP
"""A slice that owes more ends: the longest rest pays for no more."""
REST_SECONDS: Final = 0.001
"""So often it is looked whose rest is over."""
REMEMBERED_MAX: Final = 1_000
"""Beside those that wait, what so many have cost is remembered."""


class Line(Hashable, Protocol):
    """A connection."""

    account: str
    """Who pays for it; nothing for nodes."""
    owes: float
    """Seconds that its calls cost beside what it was heard for (rules 3 and 7)."""

    def hear(self, until: float) -> bool:
        """Takes a slice of what came, until this moment; whether more is left to be heard."""


class LeastFirst(Generic[K]):
    """Who waits; whoever has cost the least is next.

    >>> line = LeastFirst[str]()
    >>> line.enter("ann"); line.enter("bob"); line.next()
    'ann'
    >>> line.paid("ann", 3.0); line.enter("ann"); line.next()
    'bob'
    >>> line.paid("bob", 1.0); line.enter("bob"); line.next()
    'bob'
    """

    __slots__ = ("_came", "_heap", "_least", "_paid", "_there")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, K]] = []
        self._there: set[K] = set()
        self._paid: dict[K, float] = {}
        self._least = 0.0
        """What the last one that was next had paid: whoever comes has paid as much."""
        self._came = count()

    def __len__(self) -> int:
        return len(self._heap)

    def enter(self, who: K) -> None:
        """It waits from now on, if it does not yet."""
        if who not in self._there:
            self._there.add(who)
            paid = max(self._paid.get(who, 0.0), self._least)
            heappush(self._heap, (paid, next(self._came), who))

    def next(self) -> K:
        """Who is next, and waits no more."""
        self._least, _, who = heappop(self._heap)
        self._there.remove(who)
        return who

    def paid(self, who: K, cost: float) -> None:
        """Whoever was next has cost so much."""
        self._paid[who] = self._least + cost
        if len(self._paid) > len(self._heap) + REMEMBERED_MAX:
            self._paid = {one: paid for one, paid in self._paid.items() if paid > self._least}


class Hearing:
    """Of one process."""

    def __init__(self) -> None:
        self.behind: Callable[[], bool] = lambda: False
        """Whether the machines have yet to do what was heard before (rule 4)."""
        self._nodes = OrderedDict[Line, None]()
        self._accounts = LeastFirst[str]()
        self._clients: dict[str, LeastFirst[Line]] = {}
        """Those of each account that waits, or is heard now."""
        self._heard = ""
        """The account that is heard now."""
        self._due = False
        self._full: set[Line] = set()
        """Nodes that do not read (rule 5)."""
        self._recent = RecentCosts()
        self._rests: dict[str, float] = {}
        """Until when each account rests."""
        self._look: asyncio.TimerHandle | None = None
        self._began, self._left = -TURN_SECONDS * 2, 0.0
        """Since when, and for how long yet, what comes is heard at once."""

    def came(self, line: Line) -> None:
        """Bytes came on it, and the loop does nothing else now."""
        if not (self._due or self._full or self._rests):
            now = perf_counter()
            if now - self._began > TURN_SECONDS:
                self._began, self._left = now, AT_ONCE_SECONDS
            if self._left > 0 and not self.behind():
                more, line.owes = line.hear(now + SLICE_SECONDS), 0.0
                self._left -= perf_counter() - now
                if not more:
                    return
        self.add(line)

    def add(self, line: Line) -> None:
        """Something has come on it."""
        account = line.account
        if not account:
            self._nodes[line] = None
        else:
            self._clients.setdefault(account, LeastFirst()).enter(line)
            if account != self._heard and account not in self._rests:
                self._accounts.enter(account)
        if not self._due:
            self._turn_soon()

    def full(self, line: Line) -> None:
        """A node does not read what it is sent."""
        self._full.add(line)

    def reads(self, line: Line) -> None:
        """It reads again, or is gone."""
        self._full.discard(line)

    def _turn_soon(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """One turn: rules 2 and 3."""
        self._due = False
        now = perf_counter()
        try:
            end = now + NODES_SECONDS
            for _ in range(len(self._nodes)):
                line, _ = self._nodes.popitem(last=False)
                if line.hear(now + SLICE_SECONDS):
                    self._nodes[line] = None
                now = perf_counter()
                if now >= end:
                    break
            self._recent.clock += now - end + NODES_SECONDS
            end = now + TURN_SECONDS
            while self._accounts and now < end and not self.behind():
                now = self._hear_one(now)
        finally:  # whatever one raised, the others are heard
            if self._nodes or self._accounts:
                self._turn_soon()
            elif not self._rests:  # rule 8
                self._accounts = LeastFirst()

    def _hear_one(self, now: float) -> float:
        """A slice of the account that is next; when it is over."""
        self._heard = account = self._accounts.next()
        lines = self._clients[account]
        line = lines.next()
        try:
            if line.hear(now + SLICE_SECONDS):
                lines.enter(line)
        finally:
            self._heard = ""
            end = perf_counter()
            self._charge(account, lines, line, now, end)
        return end

    def _charge(
        self, account: str, lines: LeastFirst[Line], line: Line, now: float, end: float
    ) -> None:
        """The slice has cost so much; its account is next by that, or rests."""
        took, owes, line.owes = end - now, line.owes, 0.0
        lines.paid(line, took + owes)
        self._accounts.paid(account, took + owes)
        later = min(HELD_UP * owes, REST_MOST)  # rule 7
        self._recent.add(account, took, end, later)
        rests = self._recent.rests(account)
        if self._full or rests:
            pause = (HELD_UP if self._full else 1) * took
            self._rests[account] = end + pause + (later if rests else 0.0)
            if self._look is None:
                self._look_soon()
        elif lines:
            self._accounts.enter(account)
        if not lines:
            del self._clients[account]

    def _look_soon(self) -> None:
        self._look = asyncio.get_running_loop().call_later(REST_SECONDS, self._look_at_rests)

    def _look_at_rests(self) -> None:
        """Who has rested asks on."""
        self._look, now = None, perf_counter()
        over = [one for one, end in self._rests.items() if end <= now]
        for account in over:
            del self._rests[account]
            if account in self._clients:
                self._accounts.enter(account)
        if self._rests:
            self._look_soon()
        if self._accounts:
            self._turn_soon()
