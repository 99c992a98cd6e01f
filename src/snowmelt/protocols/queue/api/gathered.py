"""What a get of a queue with several partitions is answered: a lease in each that has some."""

from typing import Annotated

import msgspec

from snowmelt.protocols.queue.api.calls import Leased
from snowmelt.protocols.queue.api.phase_stamp import Number, Parts
from snowmelt.protocols.queue.api.settings import PARTITIONS_MAX


class PartitionLease(msgspec.Struct, frozen=True, array_like=True):
    """What one partition gives: it is settled there, under the lease's own token."""

    part: Number
    leased: Leased


class Gathered(msgspec.Struct, frozen=True, tag="fifo.gathered", array_like=True):
    """The answer to a `Get` that names the whole queue; without pieces nothing came in its time."""

    pieces: Annotated[tuple[PartitionLease, ...], msgspec.Meta(max_length=PARTITIONS_MAX)]
    """By partitions. The order of items over all of them is that of positions, or of keys."""
    away: Parts = ()
    """Partitions of which nobody who is here has a copy: what they hold was left out."""
