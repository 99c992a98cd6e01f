"""What clients ask, and are told, of the end of a queue."""

from typing import Any, Final

import msgspec

from snowmelt.core.ahead import Label, Whole


class Delete(msgspec.Struct, frozen=True, tag="fifo.delete", array_like=True):
    """Has a queue deleted, with all that is in it."""

    queue: Label
    if_empty: bool = False
    """Only if nothing is."""
    lost: bool = False
    """Also where nobody who is here can say what is in it."""
    moved_to: Label = ""
    """Into which queue what was in it went: that is said to whoever asks for it from then on."""


class Deleted(msgspec.Struct, frozen=True, tag="fifo.deleted", array_like=True):
    """It is; so many items were thrown away."""

    counted: bool
    """Whether they could be counted: else its nodes were away, and nobody knows."""
    ready: Whole = 0
    delayed: Whole = 0
    leased: Whole = 0
    dead: Whole = 0
    assigned: Whole = 0
    """How many were held by groups that were not done with them."""
    staged: Whole = 0
    """How many waited to be published."""

    @property
    def items(self) -> int:
        return self.ready + self.delayed + self.leased + self.dead + self.assigned + self.staged

    @property
    def text(self) -> str:
        """What there is, in words."""
        return ", ".join([f"{n} {name}" for name in COUNTS if (n := getattr(self, name))])


COUNTS: Final = Deleted.__struct_fields__[1:]
"""What of it says how many."""


def counted(status: Any) -> Deleted:
    """What is in a queue that has this status."""
    return Deleted(True, *[getattr(status, name, 0) for name in COUNTS])
