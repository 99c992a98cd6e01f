"""Cells that fail today, and why: one list, which is to become empty."""

from fnmatch import fnmatch
from typing import Final, NamedTuple


class Known(NamedTuple):
    """Some cells of one column."""

    rows: tuple[str, ...]
    """As the shell matches names."""
    column: str
    lacks: str
    """What is missing, in words."""


KNOWN: Final[list[Known]] = [
    Known(
        (
            "folder: EmbeddedCluster.backup",
            "folder: EmbeddedCluster.delete",
            "folder: EmbeddedCluster.export",
            "folder: EmbeddedCluster.overview",
            "folder: EmbeddedCluster.queues",
            "folder: EmbeddedCluster.restore",
            "folder: Fifo.[!gv]*",
            "folder: Item*.[!f]*",
            "folder: loop.next",
            "folder: Group.*",
            "folder: Fifo.get*",
            "folder: Fifo.groups",
        ),
        "exception from outside",
        "thrown in the middle of a step, it stops the folder's machine: it has to be opened anew",
    ),
]


def known(row: str, column: str) -> str:
    """Why this cell fails; nothing if it is not known to."""
    for one in KNOWN:
        if one.column == column and any(fnmatch(row, rows) for rows in one.rows):
            return one.lacks
    return ""
