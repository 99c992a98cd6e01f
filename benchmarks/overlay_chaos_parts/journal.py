"""What each process of clients writes down as it goes, before a call and after it."""

from enum import Enum

import msgspec
from benchmarks.chaos import journals


class What(Enum):
    """What is written down."""

    STARTED = "started"
    # a put's
    PUTTING = "putting"
    """It begins, with these items."""
    PUT = "put"
    """They are in the queue, at these places, with these orders."""
    REFUSED = "refused"
    """They are not, and never will be."""
    PERHAPS = "perhaps"
    """Nobody said what became of them."""
    # a get's
    GETTING = "getting"
    """It begins, and asks for `most`."""
    GOT = "got"
    NOTHING = "nothing"
    """There was none, at this order."""
    UNHEARD = "unheard"
    """Nobody said what became of it."""
    # a lease's; each first and then what came of it
    ACKING = "acking"
    BACKING = "backing"
    SETTLED = "settled"
    LATE = "late"
    """Some of them were another's by then."""
    UNSETTLED = "unsettled"
    """Nobody said what became of it."""
    EMPTIED = "emptied"
    """All was taken, and nothing was leased, held or dead."""
    REDRIVEN = "redriven"
    """So many dead ones (`most`) were brought back."""


class Line(msgspec.Struct, frozen=True, array_like=True):
    """One line of a journal."""

    at: int
    who: str
    what: What
    ids: tuple[int, ...] = ()
    priorities: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    orders: tuple[int, ...] = ()
    failures: tuple[int, ...] = ()
    """How often each was delivered in vain before."""
    token: int = 0
    most: int = 0
    """What a get asked for; when it is answered, how long its lease lasts from its call on."""


class Note:
    """What one client writes down."""

    def __init__(self, journal: journals.Journal, who: str) -> None:
        self._journal = journal
        self._who = who

    def __call__(self, what: What, **more: int | tuple[int, ...]) -> None:
        """Writes a line, now."""
        self._journal.add(Line(journals.now(), self._who, what, **more))  # type: ignore[arg-type]
