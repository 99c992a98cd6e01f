"""Why a delivery failed, as the next consumer of the item sees it."""

from typing import Final

from snowmelt.client.leases.delivered import shortened
from snowmelt.core.errors import BadOption

UNTOLD: Final = "given back without a reason"
"""The reason that stands for none: an empty one would not count as a delivery that failed."""


def told_reason(reason: str) -> str:
    """What somebody gave as the reason; raises `BadOption` for what is no text.

    >>> told_reason(""), told_reason("no such file")
    ('given back without a reason', 'no such file')
    """
    if not isinstance(reason, str):
        raise BadOption("reason", reason, "text, as str(error) is")
    return reason or UNTOLD


def failure_text(error: BaseException) -> str:
    """An exception as the reason of a delivery that failed.

    >>> failure_text(KeyError("name"))
    "KeyError: 'name'"
    """
    return shortened(f"{type(error).__name__}: {text_of(error)}")


def text_of(error: BaseException) -> str:
    """What an exception says; an exception that can't be written is no reason to fail once more."""
    try:
        return str(error)
    except Exception as failure:
        return f"what it says raised {type(failure).__name__}"
