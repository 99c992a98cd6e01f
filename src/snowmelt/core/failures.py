"""How often an item was delivered in vain, and what a lease that ends by itself counts for."""

from typing import Final

from snowmelt.core.errors import LEASE_ENDED

SUSPECTED: Final = "the lease ended, perhaps before this was begun"
"""Why an item that was leased ahead came back: it has not failed yet."""


def failed(times: int, before: str, reason: str, *, ahead: bool = False) -> tuple[int, str]:
    """How often an item has failed by now, and why, when it fails for this reason.

    What was leased ahead may have waited behind the item that ended its process. So it is a
    suspect at first, and fails no more often; when its lease ends again, both times count.

    >>> failed(0, "", LEASE_ENDED), failed(0, "", LEASE_ENDED, ahead=True)
    ((1, 'the lease ended'), (0, 'the lease ended, perhaps before this was begun'))
    >>> failed(0, SUSPECTED, LEASE_ENDED), failed(0, SUSPECTED, "KeyError: 'id'")
    ((2, 'the lease ended'), (1, "KeyError: 'id'"))
    """
    if reason != LEASE_ENDED:
        return times + 1, reason
    if ahead and not is_suspect(before):
        return times, SUSPECTED
    return in_vain(times, before) + 1, reason


def in_vain(times: int, reason: str) -> int:
    """How often it was delivered in vain, with what was suspected last and does not count yet."""
    return times + (reason == SUSPECTED)


def is_suspect(reason: str) -> bool:
    """Whether whoever had an item last was not heard of again."""
    return reason in (LEASE_ENDED, SUSPECTED)
