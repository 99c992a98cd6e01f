"""What the values of batons take that clients of one node gave: nobody may have most of it."""

from typing import Final

from snowmelt.core.shares import SharesHeld

VALUES_BYTES: Final = 256 << 20
"""So much they take together: they are in memory, for ever."""
VALUE_COST: Final = 1 << 10
"""What each takes besides its bytes."""


class GivenValues:
    """Each with who pays for it, by the baton's name."""

    def __init__(self) -> None:
        self._shares = SharesHeld[str]()
        self._given: dict[str, tuple[str, int]] = {}

    def give(self, name: str, value: bytes | None, who: str) -> str:
        """It counts from now on, in place of the one before; else why it has no room."""
        if value is None:
            return ""
        whose, before = self._given.pop(name, (who, 0))
        if before:
            self._shares.remove(whose, before)
        size = len(value) + VALUE_COST if value else 0
        fits = size <= before or self._shares.has_room(who, size, VALUES_BYTES)
        if fits:
            whose, before = who, size
        if before:
            self._given[name] = whose, before
            self._shares.add(whose, before)
        if fits:
            return ""
        text = f"values of batons take {self._shares.total} bytes of {VALUES_BYTES} that were"
        return f"{text} given at this node, and nobody may have most of them"
