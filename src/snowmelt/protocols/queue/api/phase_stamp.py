"""What the phase saw in which a get was given something.

It is rule 11 of `leader/parted`. A lease has it, so whoever is the anchor next hears of it.
"""

from typing import Annotated, Final

import msgspec

from snowmelt.core.ahead import Count
from snowmelt.protocols.queue.api.settings import PARTITIONS_MAX

Number = Annotated[int, msgspec.Meta(ge=0, lt=PARTITIONS_MAX)]
"""Of a partition."""
Parts = Annotated[tuple[Number, ...], msgspec.Meta(max_length=PARTITIONS_MAX)]


class PhaseStamp(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A later phase's is larger."""

    anchor: Count
    """The term of the anchor."""
    number: Count
    """Of the phase, in that term."""
    upto: Count
    """Of what has numbers below this it saw all."""
    away: Parts = ()
    """Partitions that it left out, or a phase before that gave that get something (rule 13)."""


NEVER: Final = PhaseStamp(0, 0, 0)
