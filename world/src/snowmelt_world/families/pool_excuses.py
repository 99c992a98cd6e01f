"""What the promises of a pool do not cover, from when to when, and because of what.

Each rests on a sentence of docs/explanation:

1. "A producer: its objects are gone." What was made, or taken over, by a process without a spill
   that died, or that said on leaving how many nobody took ("not taken over, nor acknowledged").
2. "At most once: what a dying consumer had is lost." So what was on its way to one is lost where it
   dies or leaves, also before it is sent (what it asked for may be long on its way), where its
   producer does, or where the way between them fails (or had failed, and its producer had not
   noticed), or a process sleeps or a message is lost or late, within a lease.
3. "With `spill` it is on the producer's disk": a record of it that can't be read is lost.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.etcd import ETCD
from snowmelt_world.faults import (
    ClockSkew,
    Crash,
    CutLinks,
    Duplication,
    FailingDisk,
    Fault,
    FillingDisk,
    FlippedBit,
    FullDisk,
    LeaderCrash,
    LeaderHeld,
    LostWrites,
    OfLeader,
    QuickRestarts,
    Reordering,
    RollingRestart,
    SlowDisk,
    TornRecord,
)

HARMLESS: Final = (
    *(ClockSkew, Crash, Duplication, FailingDisk, FillingDisk, FlippedBit, FullDisk, LostWrites),
    *(Reordering, RollingRestart, SlowDisk, TornRecord, LeaderCrash, LeaderHeld),
)
"""With these no message is lost and nobody sleeps; that a process ended is known by itself."""
AFTER: Final = seconds(1)
"""So long after a fault what was held back by it is heard and passed on."""
LATE: Final = seconds(4)
"""How much longer than a lease may pass until a loan is over."""


class Span(msgspec.Struct, frozen=True):
    """From when to when messages were lost or late, or somebody slept."""

    since: Instant
    until: Instant


def _of_etcd(fault: Fault | OfLeader) -> bool:
    """Whether it befalls etcd, or the way to it, alone."""
    if isinstance(fault, CutLinks):
        return all(ETCD in link for link in fault.links)
    return getattr(fault, "node", None) == ETCD


def _over(fault: Fault | OfLeader) -> Instant:
    """When what was late because of it, or was slept over, has come, and all behind it."""
    until: Instant = getattr(fault, "until", fault.at)
    return later(until, Duration(getattr(fault, "extra", 0) + AFTER))


class AllowedLosses:
    def __init__(self, faults: Sequence[Fault | OfLeader], lease: Duration) -> None:
        self._after = Duration(lease + LATE)
        self._spans = [
            Span(fault.at, _over(fault))
            for fault in faults
            if not isinstance(fault, HARMLESS)
            and not _of_etcd(fault)
            and not (isinstance(fault, QuickRestarts) and not fault.cut)
        ]
        self.breaks: list[tuple[Instant, NodeId, NodeId]] = []
        """When the way between which two ended."""

    def fails(self, one: NodeId, other: NodeId, at: Instant, until: Instant) -> bool:
        """Whether what one gave another then may not have come, or nobody heard that it did (2).

        Or what it said of it until then, when it gave it back.
        """
        end = later(until, self._after)
        if any(span.since <= end and at <= span.until for span in self._spans):
            return True
        pair = (one, other), (other, one)
        return any(at <= when <= end and (a, b) in pair for when, a, b in self.breaks)

    def ends(self, ended: Instant | None, at: Instant, until: Instant) -> bool:
        """Whether a process that was given something then ended before it was over.

        Or not long before: its request stands in line until somebody tells that it is gone.
        """
        return (
            ended is not None
            and ended <= later(until, self._after)
            and at <= later(ended, self._after)
        )
