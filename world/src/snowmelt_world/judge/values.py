"""The values of which judges make up histories; plain, and of no family."""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant
from snowmelt.core.interval import Interval
from snowmelt_world.check.history import Ended

FOR_EVER: Final = Instant(2**62)
FASTEST_PPM: Final = 40_000
"""How fast a clock may run, by `sim.faults`: a lease may be over so much sooner."""
MANY: Final = 100
"""With so many deliveries nothing dies by itself."""


class Terms(msgspec.Struct, frozen=True):
    """What was agreed of a queue, under the names that families have for it."""

    lease: Duration
    replicas: int
    deliveries_max: int
    items_max: int
    bytes_max: int = 0
    linger: Duration = Duration(0)
    """How long a flush may be put off."""
    copies_needed: int = 1
    """How many copies must be safe before a put is told so."""
    keyed: bool = False
    """Whether its priorities have no number."""


class Place(msgspec.Struct, frozen=True):
    """Where an item stands; where an order has no priorities, they are 0."""

    priority: int
    position: int


class Came(msgspec.Struct, frozen=True):
    """One item as a node showed it."""

    place: Place
    value: str
    headers: bytes = b""
    priority: int = 0
    """Its own; where priorities have no number its place does not have it."""
    failures: int = 0
    """How often it was delivered before, in vain."""


class Given(msgspec.Struct, frozen=True):
    """A lease as a node told of it: where its items stand. A token of 0 is none."""

    token: int
    lease: Duration
    positions: tuple[int, ...]
    again: dict[int, None] = {}
    """Which were told to have been delivered before."""
    away: tuple[Interval, ...] = ()
    """What was passed over, as those who keep it are away."""


class LeftGet(msgspec.Struct):
    """A get that was lost since its client left it.

    What it took goes back as if nobody had had it.
    """

    called: Instant
    over: Instant = FOR_EVER
    """When the client was answered that the queue knows."""

    def ends(self, _: object, at: Instant) -> None:
        """The queue knows, or nobody knows whether it does."""
        self.over = at

    def may_hold(self, put: "Put", got: Instant) -> bool:
        """Whether it may have had an item of this put before a get was called that had it.

        >>> put = Put("p1", ("a",), b"", Instant(3))
        >>> left = LeftGet(Instant(5), Instant(9))
        >>> left.may_hold(put, Instant(4)), left.may_hold(put, Instant(7))
        (False, True)
        """
        return put.called <= self.over and self.called <= got


class Numbers(msgspec.Struct, frozen=True):
    """How many items a queue has, as a node told."""

    leader: str
    ready: int
    delayed: int
    leased: int
    assigned: int
    dead: int
    done: int
    lost: int
    bytes: int
    short_of_copies: int
    waiting_puts: int
    tails: tuple[int, ...]
    """By priority, behind the last position that was given."""
    ready_of: tuple[int, ...] = ()
    """How many are ready by priority, where there are several."""
    terms: Terms | None = None
    """What is agreed of it, as it says."""

    @property
    def bound(self) -> int:
        """How many count against the bound: all but the dead."""
        return self.ready + self.delayed + self.leased + self.assigned

    @property
    def inside(self) -> int:
        return self.bound + self.dead


class Put(msgspec.Struct):
    """What one call wants in the queue."""

    process: str
    values: tuple[str, ...]
    headers: bytes
    called: Instant
    number: int = 0
    """The sequence number that its producer gave it."""
    priorities: tuple[int, ...] = ()
    """Of each item."""
    keyed: bool = False
    """Whether its priorities have no number."""
    due: Instant = Instant(0)
    """Not to be delivered before; 0 for at once."""
    staged: bool = False
    """Whether it is put only when it is published."""
    sent: bool = False
    """Whether it was sent at all."""
    returned: Instant | None = None
    ended: Ended = Ended.UNKNOWN
    why: str = ""
    """With which words it was refused for good."""
    start: int | None = None
    """The position of its first item, where what one call puts stands together by priority."""

    @property
    def told(self) -> bool:
        """Whether somebody was told that it is in the queue."""
        return self.ended is Ended.SUCCEEDED and self.returned is not None

    @property
    def delay(self) -> Duration:
        """How long it is held back from when it is called."""
        return Duration(self.due - self.called if self.due else 0)

    @property
    def bodies(self) -> tuple[bytes, ...]:
        return tuple(value.encode() for value in self.values)

    def priority(self, value: str) -> int:
        return self.priorities[self.values.index(value)] if self.priorities else 0

    @property
    def runs(self) -> list[tuple[str, ...]]:
        """Its values by priority, the most urgent first; each alone where these have no number.

        What is staged there is staged in several calls, and stands as it was named.
        """
        if self.keyed and self.staged:
            return [(value,) for value in self.values]
        if not self.priorities:
            return [self.values]
        rows = sorted(zip(self.priorities, range(len(self.values)), self.values, strict=True))
        if self.keyed:
            return [(value,) for _, _, value in rows]
        return [tuple([one[2] for one in some]) for _, some in groupby(rows, itemgetter(0))]


class Lease(msgspec.Struct):
    """What one answer to a get brought."""

    process: str
    token: int
    called: Instant
    returned: Instant
    ends: Instant
    """Until then it holds for certain, by the fastest clock."""
    lasts: Instant
    """Until then whoever has it may take it to hold, by what nodes said."""
    named: dict[int, int] = {}
    """How many calls asked to take each of its places as done, or back."""

    def name(self, places: Iterable[int]) -> None:
        """One more call names these."""
        for where in places:
            self.named[where] = self.named.get(where, 0) + 1


def shortest(time: Duration) -> Duration:
    """How soon a time may be over, by the fastest clock."""
    return Duration(time * 1_000_000 // (1_000_000 + FASTEST_PPM))
