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


LOOPS: Final = ("f*: loop.{}", "priority: loop.{}")
"""Those over leased items: `f*` is the fifo and the folder."""


def loops(*calls: str) -> tuple[str, ...]:
    """These calls of all such loops."""
    return tuple(rows.format(call) for rows in LOOPS for call in calls)


KNOWN: Final[list[Known]] = [
    Known(
        loops("with", "close"),
        "two loops",
        "a loop over a queue that another event loop leaves waits there for ever",
    ),
    Known(
        loops("next"),
        "two loops",
        "another event loop that asks for the next is refused, and ends the loop for its own",
    ),
    Known(
        ("baton: Held.with", "baton: Held.release", "baton: Held.through"),
        "two loops",
        "another event loop that releases a baton is refused, and its holder has lost it",
    ),
    Known(
        (
            "folder: EmbeddedCluster.delete",
            "folder: EmbeddedCluster.overview",
            "folder: EmbeddedCluster.queues",
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
