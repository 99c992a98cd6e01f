"""One topic's messages at one node, in order: rules 6, 8, 10 and 12."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from enum import Enum
from itertools import pairwise
from typing import Final

import msgspec

from snowmelt.protocols.multicast.calls import Position, Publication

ZERO: Final = Position()
"""Before everything."""
HOLES_MAX: Final = 1_000
SLACK: Final = 8
"""What is kept may be larger than allowed by one part in so many, so that trimming is rare."""


class Arrival(Enum):
    HERE = "it is kept here, or was"
    BEYOND = "this node has gone past it"
    NO_ROOM = "too much waits already for what comes before"


class Hole(msgspec.Struct, frozen=True):
    """Positions that the order has skipped."""

    start: Position
    stop: Position


class TopicRead(msgspec.Struct, frozen=True):
    publications: tuple[Publication, ...]
    next: Position
    missed: bool


class TopicLog:
    """What was handed on, what comes next, and what came too early.

    >>> line = TopicLog(messages_max=10, bytes_max=100)
    >>> one, two = (Publication(Position(5, at), at, (b"x",)) for at in (0, 1))
    >>> line.take(two), line.next
    (<Arrival.HERE: 'it is kept here, or was'>, Position(era=0, number=0))
    >>> line.take(one), line.skip()
    (<Arrival.HERE: 'it is kept here, or was'>, Position(era=5, number=2))
    >>> line.read(Position(5, 1), bytes_max=100).publications == (two,)
    True
    """

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self.next = ZERO
        self.bytes = 0
        """Of all that is kept in order."""
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._messages = 0
        self._log: list[Publication] = []
        self._firsts: list[Position] = []  # of the log, for bisection
        self._early: dict[Position, Publication] = {}
        # Both in order: a member may fill this with what nobody ever hands on, word after word.
        self._early_firsts: list[Position] = []
        self._early_stops: list[Position] = []
        self._early_bytes = 0
        self._tickets: dict[int, Position] = {}
        self._holes: list[Hole] = []
        self._horizon = ZERO  # what was skipped before it is no longer known

    # --- what comes -------------------------------------------------------------------------------

    def take(self, come: Publication, *, own: bool = False) -> Arrival:
        """A publication comes; its own node's always finds room."""
        first = come.first
        if first < self.next:
            return Arrival.HERE if self._passed(come) else Arrival.BEYOND
        if first in self._early:
            same = self._early[first].ticket == come.ticket
            return Arrival.HERE if same else Arrival.BEYOND
        if first != self.next and not own and not self._room(first):
            return Arrival.NO_ROOM
        self._early[first] = come
        self._early_bytes += come.size
        insort(self._early_firsts, first)
        insort(self._early_stops, come.stop)
        self._hand_on()
        return Arrival.HERE

    def skip(self) -> Position:
        """Goes on from the first that came too early; returns what is next then."""
        target = self.early
        if target is not None:
            if target > self.next:
                self._skipped(Hole(self.next, target))
                self.next = target
            self._hand_on()
        return self.next

    def begin(self, at: Position) -> None:
        """Here is the end, and nobody has what lies before; who handed on something stays there."""
        if self.next == ZERO < at:
            self._skipped(Hole(ZERO, at))
            self.next = at

    @property
    def early(self) -> Position | None:
        """The first that came too early."""
        return self._early_firsts[0] if self._early_firsts else None

    @property
    def furthest(self) -> Position:
        """The end of the last that is known here."""
        return self._early_stops[-1] if self._early_stops else self.next

    def _hand_on(self) -> None:
        while self.early == self.next:
            one = self._taken_out()
            self._log.append(one)
            self._firsts.append(one.first)
            self._tickets[one.ticket] = one.first
            self._messages += len(one.bodies)
            self.bytes += one.size
            self.next = one.stop
            # No two publications share a position (rule 3); if some did, one of them goes on.
            while self._early_firsts and self._early_firsts[0] < self.next:
                self._taken_out()

    def _taken_out(self) -> Publication:
        """The first of those that came too early, which it is no more."""
        one = self._early.pop(self._early_firsts.pop(0))
        self._early_bytes -= one.size
        del self._early_stops[bisect_left(self._early_stops, one.stop)]
        return one

    def _room(self, first: Position) -> bool:
        """Whether there is room for one that is too early; what is held up for always has some."""
        if len(self._early) < self._messages_max and self._early_bytes < self._bytes_max:
            return True
        return first < self._early_firsts[0]

    # --- what is past -----------------------------------------------------------------------------

    def _passed(self, come: Publication) -> bool:
        """Whether this was handed on, rather than skipped, or another in its place.

        What is not kept any more can't be compared; its position is all that is known.
        """
        first = come.first
        at = bisect_right(self._firsts, first) - 1
        if at >= 0 and first < self._log[at].stop:
            return self._log[at].ticket == come.ticket and self._firsts[at] == first
        if first < self._horizon:
            return False
        at = bisect_right(self._holes, first, key=lambda hole: hole.start) - 1
        return at < 0 or first >= self._holes[at].stop

    def _skipped(self, hole: Hole) -> None:
        self._holes.append(hole)
        if len(self._holes) > HOLES_MAX:
            self._horizon = self._holes.pop(0).stop

    def trim(self, bytes_max: int | None = None) -> None:
        """Forgets the oldest until what is left is within the bounds."""
        bytes_max = self._bytes_max if bytes_max is None else bytes_max
        messages_most = self._messages_max + self._messages_max // SLACK
        if self._messages <= messages_most and self.bytes <= bytes_max + bytes_max // SLACK:
            return
        count = 0
        while self._messages > self._messages_max or self.bytes > bytes_max:
            old = self._log[count]
            count += 1
            self._messages -= len(old.bodies)
            self.bytes -= old.size
            if self._tickets.get(old.ticket) == old.first:
                del self._tickets[old.ticket]
        del self._log[:count], self._firsts[:count]

    # --- what is asked ----------------------------------------------------------------------------

    def known(self, ticket: int) -> Publication | None:
        """What was handed on under a ticket, if it is still kept."""
        first = self._tickets.get(ticket)
        return None if first is None else self._log[bisect_left(self._firsts, first)]

    def disown(self, ticket: int) -> None:
        """What stands here under this ticket is not where everybody has it."""
        self._tickets.pop(ticket, None)

    def first_from(self, start: Position) -> Position | None:
        """The first that is here from a position on."""
        at = bisect_left(self._firsts, start)
        if at < len(self._firsts):
            return self._firsts[at]
        at = bisect_left(self._early_firsts, start)
        return self._early_firsts[at] if at < len(self._early_firsts) else None

    def kept_from(self, start: Position, bytes_max: int) -> tuple[Publication, ...]:
        """What is here from a position on, whether it was handed on or not; one at least."""
        kept = _some(self._log, bisect_left(self._firsts, start), bytes_max)
        if kept:
            return kept
        early = self._early_firsts[bisect_left(self._early_firsts, start) :]
        return _some([self._early[one] for one in early], 0, bytes_max)

    def read(self, start: Position, bytes_max: int) -> TopicRead:
        found = _some(self._log, bisect_left(self._firsts, start), bytes_max)
        following, missed = start, False
        for one in found:
            missed |= one.first != following
            following = one.stop
        return TopicRead(found, following, missed)

    def check(self) -> None:
        assert self.next not in self._early, f"{self.next} is here and not handed on"
        assert all(one > self.next for one in self._early), f"what is before {self.next} waits"
        assert self._early_firsts == sorted(self._early)
        assert self._early_stops == sorted(one.stop for one in self._early.values())
        if self._log:
            assert self._log[-1].stop <= self.next, f"{self._log[-1].first} is behind the end"
            last = self._firsts[-10:]
            assert all(one < other for one, other in pairwise(last)), f"{last} do not grow"


def _some(pile: Sequence[Publication], at: int, bytes_max: int) -> tuple[Publication, ...]:
    """Those from an index on, as many as fit, one at least."""
    size, stop = 0, at
    while stop < len(pile) and (stop == at or size + pile[stop].size <= bytes_max):
        size += pile[stop].size
        stop += 1
    return tuple(pile[at:stop])
