"""Items that may have ended the process that had them, and how others are kept from their fate.

When a process dies its leases end, and nodes can't know which of the items were in hand and which
were only leased ahead: all of them have failed. Most of them are innocent, and would die with one
that ends whatever works on it.

1. An item whose last lease ended is leased by itself: of what came with it the rest goes back, as
   if it had not been taken. What is acknowledged is told before.
2. Once it has failed so twice, nothing more is begun in its process while it is in hand. So an item
   that harms nobody fails twice at most by those that do.

An item whose handler raised has another reason, and is no suspect.
"""

from typing import Final

from snowmelt.client.leases.delivered import Delivered, Part, in_order, portion
from snowmelt.core.errors import LEASE_ENDED

ALONE: Final = 2
"""After so many failures an item is worked on alone."""


def suspected(part: Part) -> bool:
    """Whether whoever had these items last was not heard of again."""
    return part.failures > 0 and part.reason == LEASE_ENDED


def kept_together(delivered: Delivered) -> tuple[Part, ...]:
    """What of a lease may be worked on: the first if it is a suspect, or all before one."""
    if not any(map(suspected, delivered.parts)):
        return delivered.parts
    parts = in_order(delivered.parts)
    if suspected(parts[0]):
        return (portion(parts[0], 0, 1),)
    return parts[: next(at for at, part in enumerate(parts) if suspected(part))]


def works_alone(failures: int, reason: str) -> bool:
    """Whether nothing else may be begun while this is in hand.

    >>> works_alone(2, LEASE_ENDED), works_alone(1, LEASE_ENDED), works_alone(7, "KeyError: 'id'")
    (True, False, False)
    """
    return failures >= ALONE and reason == LEASE_ENDED
