"""Items that may have ended the process that had them, and how others are kept from their fate.

When a process dies its leases end, and nodes can't know which of the items were in hand and which
were only leased ahead. So what was leased ahead only comes under suspicion (`core/failures.py`).

1. An item whose last lease ended is leased by itself: of what came with it the rest goes back, as
   if it had not been taken. Acknowledgements are sent before. So it is begun, and counts.
2. Once two processes died with it, or where one more failure is its last, nothing more is begun in
   its process while it is in hand. So an item that harms nobody fails at most once by those that
   do, and is never dead by them.
3. Where the first failure is the last, nothing is leased ahead.
"""

from typing import Final

from snowmelt.client.leases.delivered import LeasedItems, in_order, portion
from snowmelt.core.failures import in_vain, is_suspect
from snowmelt.protocols.queue.api.calls import ItemRun

ALONE: Final = 2
"""After so many deaths of its processes an item is worked on alone."""


def kept_together(delivered: LeasedItems) -> tuple[ItemRun, ...]:
    """What of a lease may be worked on: the first if it is a suspect, or all before one."""
    if not any(is_suspect(part.reason) for part in delivered.parts):
        return delivered.parts
    parts = in_order(delivered.parts)
    first = next(at for at, part in enumerate(parts) if is_suspect(part.reason))
    return parts[:first] or (portion(parts[0], 0, 1),)


def works_alone(failures: int, reason: str, deliveries_max: int) -> bool:
    """Whether nothing else may be begun while this is in hand.

    >>> from snowmelt.core.failures import SUSPECTED
    >>> works_alone(0, SUSPECTED, 3), works_alone(0, SUSPECTED, 2), works_alone(7, "KeyError", 9)
    (False, True, False)
    """
    return is_suspect(reason) and in_vain(failures, reason) >= min(ALONE, deliveries_max - 1)
