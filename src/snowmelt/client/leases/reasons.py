"""Why a delivery failed, as whoever gets the item next is told."""

from typing import Final

from snowmelt.client.leases.delivered import shortened

UNTOLD: Final = "given back without a reason"
"""The reason that stands for none: an empty one would not count as a delivery that failed."""


def failure_text(error: BaseException) -> str:
    """An exception as the reason of a delivery that failed.

    >>> failure_text(KeyError("name"))
    "KeyError: 'name'"
    """
    return shortened(f"{type(error).__name__}: {error}")
