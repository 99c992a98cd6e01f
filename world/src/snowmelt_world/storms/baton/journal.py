"""What each worker writes down as it goes, and what is read of it when it is dead.

Every line is one write to the file's end, so a process that is killed has written all that it has
done, but for a last line that may be torn. All times are of the machine's monotonic clock.
"""

from enum import Enum
from typing import Final

import msgspec


class BatonStep(Enum):
    """What is written down of a turn."""

    STARTED = "started"
    ASKED = "asked"
    DENIED = "denied"
    """The turn did not come in time."""
    FAILED = "failed"
    """No turn, for another reason."""
    GRANTED = "granted"
    ACTED = "acted"
    REFUSED = "refused"
    """The guard knew a larger fence."""
    FORKED = "forked"
    """A child of the holder left its hold alone."""
    SAVING = "saving"
    SAVED = "saved"
    RELEASING = "releasing"
    RELEASED = "released"
    UNSURE = "unsure"
    """A release, or a save, that may have been heard."""
    LOST = "lost"
    """The worker was told that the baton is no longer its own."""


HOLDING: Final = (
    BatonStep.GRANTED,
    BatonStep.ACTED,
    BatonStep.REFUSED,
    BatonStep.FORKED,
    BatonStep.SAVING,
    BatonStep.SAVED,
)
"""Whose last line is one of these holds a baton, as far as it knows."""


class BatonLine(msgspec.Struct, frozen=True, array_like=True):
    """One line of a journal."""

    at: int
    what: BatonStep
    baton: str = ""
    fence: int = 0
    made: int = 0
    value: str = ""
    """What was granted, or is to be left or saved; or why something failed."""
    checked: int = 0
    """Of an act: when the worker began to make sure that it still holds."""
