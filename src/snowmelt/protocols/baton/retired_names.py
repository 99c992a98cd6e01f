"""What is kept of names that nobody uses: one line each (rule 15)."""

from collections.abc import Iterator
from typing import Final

import msgspec

from snowmelt.protocols.baton.messages import CensusRound, Version

LINES_MAX: Final = 100_000
"""So many are kept of batons that have no value, the last ones."""


class NameRecord(msgspec.Struct, frozen=True):
    """All that a node remembers of one name."""

    fence: int = 0
    """The largest that was here (rule 8)."""
    census: CensusRound = CensusRound()
    """The last that was answered (rule 11)."""
    made: int = 0
    """Which token rests here; 0 when none does."""
    version: Version = Version()
    value: bytes = b""


class RetiredNames:
    """The lines of one node, by name.

    >>> folds = RetiredNames(most=2)
    >>> for name in "abc":
    ...     folds.put(name, NameRecord(fence=7, made=7))
    >>> folds.put("v", NameRecord(fence=9, made=9, version=Version(9)))
    >>> list(folds), folds.floor
    (['b', 'c', 'v'], 7)
    >>> folds.take("b").made, folds.take("b")
    (7, None)
    """

    def __init__(self, most: int = LINES_MAX) -> None:
        self.floor = 0
        """No line that was dropped had a larger fence."""
        self._most = most
        self._plain: dict[str, NameRecord] = {}
        self._valued: dict[str, NameRecord] = {}
        """These stay: their values are on the root's disk for ever."""

    def __iter__(self) -> Iterator[str]:
        yield from self._plain
        yield from self._valued

    def __contains__(self, name: str) -> bool:
        return name in self._plain or name in self._valued

    def get(self, name: str) -> NameRecord:
        """The line of a name, which stays; an empty one when there is none."""
        return self._plain.get(name) or self._valued.get(name) or NameRecord()

    def take(self, name: str) -> NameRecord | None:
        return self._plain.pop(name, None) or self._valued.pop(name, None)

    def put(self, name: str, line: NameRecord) -> None:
        lines = self._valued if line.version > Version() else self._plain
        lines[name] = line
        while len(self._plain) > self._most:
            oldest = self._plain.pop(next(iter(self._plain)))
            self.floor = max(self.floor, oldest.fence)

    def lose(self) -> None:
        """No token that rests here is the baton any more (rule 9)."""
        for lines in (self._plain, self._valued):
            for name, line in lines.items():
                lines[name] = msgspec.structs.replace(line, made=0)
