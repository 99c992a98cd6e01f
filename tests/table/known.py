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


KNOWN: Final[list[Known]] = []


def known(row: str, column: str) -> str:
    """Why this cell fails; nothing if it is not known to."""
    for one in KNOWN:
        if one.column == column and fnmatch(row, one.rows):
            return one.lacks
    return ""
