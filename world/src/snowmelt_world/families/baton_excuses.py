"""What the promises of a baton do not cover, from when to when, and because of what.

Each rests on a sentence of docs/explanation:

1. "One holder at a time, as long as clocks run equally fast and nobody sleeps through a lease."
   What somebody believed before a clock leapt or stood still may overlap with what came after; and
   who slept with a clock that stood still takes itself for a member for as long as members are.
2. "A holder whose connections have all ended, and which can't be heard for a second, has lost the
   baton. It may believe in it until its lease is over."
3. "The holder's node dies" (or is cut off, or can't be heard): "the baton is lost", and is made
   anew. Without such a thing it never is.
4. "A coordinator whose disk was put back from an older copy may not know who is here [...] for up
   to a lease two may hold a baton then. What was saved since that copy may be lost."

Fences are judged whatever happens, and so are values that went from holder to holder.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.protocols.etcd import ETCD
from snowmelt_world.faults import (
    ClockJump,
    ClockSkew,
    Crash,
    Duplication,
    FailingDisk,
    Fault,
    FlippedBit,
    FullDisk,
    LostDisk,
    LostWrites,
    OfLeader,
    OlderDisk,
    Reordering,
    RollingRestart,
    Suspend,
    TornRecord,
    WallClock,
)

NEWS: Final = seconds(19)
"""After so long everybody current has a view with whoever came back."""
NEW: Final = seconds(6)
"""After so long everybody current knows of a process that began."""
RESTARTS: Final = (
    *(Crash, LostWrites, TornRecord, LostDisk, OlderDisk, RollingRestart, FailingDisk),
)
"""With these a process ends and begins again, and nothing else happens."""
HARMLESS: Final = (ClockSkew, Duplication, FlippedBit, FullDisk, Reordering, WallClock)
"""For these no baton is lost."""


class Span(msgspec.Struct, frozen=True):
    """From when to when, and because of what."""

    since: Instant
    until: Instant
    reason: str

    def meets(self, since: Instant, until: Instant) -> bool:
        """Whether any of that time lies in it."""
        return self.since <= until and since <= self.until


class AllowedLosses:
    """For all batons of a life."""

    def __init__(self, faults: Sequence[Fault | OfLeader]) -> None:
        self.clocks: list[Span] = []
        """When two may believe that they hold a baton (1, 4)."""
        self.shaken: list[Span] = []
        """When a baton may be lost, and whoever wants it wait (3)."""
        self.undone: list[Span] = []
        """When what was saved may be undone (4)."""
        for fault in faults:
            until = getattr(fault, "until", fault.at)
            of_etcd = getattr(fault, "node", None) == ETCD  # its clock is nobody's who holds
            if isinstance(fault, ClockJump | Suspend) and not of_etcd:
                longer = NEWS if isinstance(fault, Suspend) else Duration(0)
                self.clocks.append(Span(fault.at, later(until, longer), "clock"))
            if not isinstance(fault, HARMLESS):
                longer = NEW if isinstance(fault, RESTARTS) else NEWS
                self.shaken.append(Span(fault.at, later(until, longer), "fault"))

    def shakes(self, at: Instant) -> None:
        """Something happened with which a baton may be lost (3)."""
        self.shaken.append(Span(at, at, "node"))

    def begins(self, at: Instant) -> None:
        """A process begins; some time later everybody knows it (3)."""
        self.shaken.append(Span(at, later(at, NEW), "node"))

    def set_back(self, taken: Instant, at: Instant) -> None:
        """The coordinator has what it had then (4)."""
        self.undone.append(Span(taken, at, "older disk"))
        self.clocks.append(Span(at, later(at, NEWS), "older disk"))
        self.shakes(at)


def covering(spans: Sequence[Span], since: Instant, until: Instant) -> Span | None:
    """The first of them that meets this time."""
    return next((span for span in spans if span.meets(since, until)), None)
