"""Elements in their order, of which some come and go all the time."""

from abc import abstractmethod
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, overload

from snowmelt.protocols.select.elements import Element

CHUNK: Final = 512


class Ranked(Sequence[Element]):
    """A sorted row that knows how many are less than something."""

    @abstractmethod
    def rank(self, element: Element) -> int:
        """How many are smaller."""

    @abstractmethod
    def among(self, start: Element | None, stop: Element | None) -> list[Element]:
        """Those from one on, up to another without it, in any order; None is no bound."""


class Ordered(Ranked):
    """A sorted row in chunks: to put in, to take out and to find cost O(m / CHUNK + CHUNK).

    >>> row = Ordered([Element(7, 1), Element(2, 5)])
    >>> row.add(Element(3, 9)); [one.priority for one in row], row.rank(Element(3, 0)), len(row)
    ([2, 3, 7], 1, 3)
    >>> row.take(2), len(row)
    ([Element(priority=2, id=5), Element(priority=3, id=9)], 1)
    """

    def __init__(self, elements: Iterable[Element] = ()) -> None:
        row = sorted(elements)
        self._chunks = [row[at : at + CHUNK] for at in range(0, len(row), CHUNK)]
        self._greatest = [chunk[-1] for chunk in self._chunks]
        self._size = len(row)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Element]:
        return chain.from_iterable(self._chunks)

    @overload
    def __getitem__(self, at: int) -> Element: ...

    @overload
    def __getitem__(self, at: slice) -> list[Element]: ...

    def __getitem__(self, at: int | slice) -> Element | list[Element]:
        """By place, from 0 on."""
        if isinstance(at, slice):
            start, stop, _ = at.indices(self._size)
            return self._slice(start, stop)
        if not 0 <= at < self._size:
            raise IndexError(at)
        return self._slice(at, at + 1)[0]

    def add(self, element: Element) -> None:
        self._size += 1
        if not self._chunks:
            self._chunks, self._greatest = [[element]], [element]
            return
        at = min(bisect_left(self._greatest, element), len(self._chunks) - 1)
        chunk = self._chunks[at]
        insort(chunk, element)
        if len(chunk) > 2 * CHUNK:
            self._chunks[at : at + 1] = [chunk[:CHUNK], chunk[CHUNK:]]
            self._greatest[at : at + 1] = [chunk[CHUNK - 1], chunk[-1]]
        else:
            self._greatest[at] = chunk[-1]

    def take(self, count: int) -> list[Element]:
        taken: list[Element] = []
        whole = 0
        for chunk in self._chunks:
            if len(taken) + len(chunk) > count:
                break
            taken.extend(chunk)
            whole += 1
        del self._chunks[:whole], self._greatest[:whole]
        rest = count - len(taken)
        if rest > 0 and self._chunks:
            taken.extend(self._chunks[0][:rest])
            del self._chunks[0][:rest]
        self._size -= len(taken)
        return taken

    def rank(self, element: Element) -> int:
        at = bisect_left(self._greatest, element)
        before = sum([len(chunk) for chunk in islice(self._chunks, at)])
        return before + (bisect_left(self._chunks[at], element) if at < len(self._chunks) else 0)

    def among(self, start: Element | None, stop: Element | None) -> list[Element]:
        """Those from one on, up to another without it."""
        first = 0 if start is None else self.rank(start)
        return self._slice(first, self._size if stop is None else self.rank(stop))

    def _slice(self, start: int, stop: int) -> list[Element]:
        found: list[Element] = []
        for chunk in self._chunks:
            if stop <= 0:
                break
            if start < len(chunk):
                found.extend(chunk[max(0, start) : stop])
            start, stop = start - len(chunk), stop - len(chunk)
        return found
