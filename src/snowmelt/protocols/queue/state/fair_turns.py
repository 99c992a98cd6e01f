"""Whose turn it is among keys, where a queue is fair (`by_key.py`, rule 6)."""

from collections.abc import Collection, Mapping
from typing import Final

from snowmelt.protocols.queue.state.key_names import IDLE_MAX, KeyNames

TURN: Final = 1 << 32
"""So long is a turn of weight 1."""


class FairTurns:
    """Of one queue, in one term.

    >>> names = KeyNames({}); a, b = names.numbers((b"a", b"b"))
    >>> turns = FairTurns({b"a": 2}, names)
    >>> turns.give(a, [a, b]); turns.give(b, [a, b])
    >>> turns.share(a, 3) < turns.share(b, 1), turns.share(a, 2) < turns.share(b, 0)
    (True, False)
    """

    def __init__(self, weights: Mapping[bytes, int], names: KeyNames) -> None:
        self._weights = weights
        self._names = names
        self._next: dict[int, int] = {}
        """Of each key that had one: those that had none come first."""
        self._last = 0
        """The last that anybody had."""

    def share(self, number: int, held: int) -> tuple[int, int]:
        """How a key with so many in hand stands beside others; the least comes next."""
        if self._weights:
            held //= self._weight(number)
        return held, self._next.get(number, 0)

    def _weight(self, number: int) -> int:
        return self._weights.get(self._names.name(number), 1)

    def give(self, number: int, items: Collection[int]) -> None:
        """It has its turn; `items` has all keys that have items."""
        known, turn = self._next, self._last + 1
        own = known.get(number, 0)
        self._last = turn = own if own > turn else turn
        if not own and len(known) > 2 * len(items) + IDLE_MAX:
            self._next = known = {one: at for one, at in known.items() if one in items}
        known[number] = turn + (TURN // self._weight(number) if self._weights else TURN)
