"""How patient the layers are."""

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Duration, seconds


class ArrowSettings(msgspec.Struct, frozen=True):
    """The watch over edges.

    >>> ArrowSettings(timeout=seconds(0))
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: timeout is 0; allowed: more than 0
    """

    timeout: Duration = seconds(2)
    """From one observation of an edge to the next: at least two of the longest round trips."""

    def __post_init__(self) -> None:
        if self.timeout <= 0:
            raise BadOption("timeout", self.timeout, "more than 0")


class TreeSettings(msgspec.Struct, frozen=True):
    """The growing of the tree.

    >>> TreeSettings(beat=seconds(-1))
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: beat is -1000000000; allowed: more than 0
    """

    beat: Duration = seconds(1)
    """From one round of claims to the next."""

    def __post_init__(self) -> None:
        if self.beat <= 0:
            raise BadOption("beat", self.beat, "more than 0")
