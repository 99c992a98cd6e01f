"""Cells that fail today, and why: one list, which is to become empty."""

from fnmatch import fnmatch
from typing import Final, NamedTuple


class Known(NamedTuple):
    """Some cells of one column."""

    rows: str
    """As the shell matches names."""
    column: str
    lacks: str
    """What is missing, in words."""


KNOWN: Final[list[Known]] = [
    Known(
        "*: loop.with",
        "two loops",
        "a loop over a queue that another event loop leaves waits for ever",
    ),
    Known(
        "*: loop.close",
        "two loops",
        "a loop over a queue that another event loop closes waits for ever",
    ),
    Known(
        "*: loop.next",
        "two loops",
        "another event loop that asks for the next is refused, and ends the loop for its own",
    ),
    Known(
        "*: loop.*",
        "SIGSTOP",
        "a loop that is left after its lease ended returns, though its acknowledgements are lost",
    ),
    Known(
        "folder: Fifo.read",
        "fork",
        "a child reads what its parent has open, and is not refused",
    ),
    Known(
        "baton: Held.*",
        "two loops",
        "another event loop that releases a baton is refused, and its holder has lost it",
    ),
]


def known(row: str, column: str) -> str:
    """Why this cell fails; nothing if it is not known to."""
    for one in KNOWN:
        if one.column == column and fnmatch(row, one.rows):
            return one.lacks
    return ""
