"""What is ready in a queue of any priorities: positions, and their order by keys."""

from bisect import bisect_left
from collections.abc import Collection, Iterable
from decimal import ROUND_CEILING, Decimal

from snowmelt.core.interval import POSITION_MAX, Interval, IntervalSet
from snowmelt.protocols.queue.api.calls import Select
from snowmelt.protocols.queue.api.settings import PRIORITIES_MAX
from snowmelt.protocols.queue.state.batches import Batches
from snowmelt.protocols.queue.state.index import FEW, Entry, Index, entries_of
from snowmelt.protocols.queue.state.keys import KeysByPosition
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS


class Keyed(IntervalSet):
    """A set of positions that knows which come first.

    >>> from snowmelt.protocols.queue.state.batches import StoredBatch
    >>> from snowmelt.core.keys import packed
    >>> batches, keys = Batches({}), KeysByPosition({})
    >>> batches.add(StoredBatch(0, 3, 30, 1)); keys.add(0, packed([7, 2, 7]))
    >>> ready = Keyed(keys); ready.add(Interval(0, 3))
    >>> ready.foremost(2, 100, batches), ready.foremost(9, 1, batches), ready.nth(3)
    ([1, 0], [1], 2)
    """

    __slots__ = ("_index", "_keys")

    def __init__(self, keys: KeysByPosition) -> None:
        super().__init__()
        self._keys = keys
        self._index = Index()

    def _entries(self, parts: Iterable[Interval]) -> list[Entry]:
        return [one for part in parts for one in entries_of(self._keys.of(part), part.start)]

    def add(self, interval: Interval) -> None:
        self._index_these([interval] if not self.common(interval) else self._new([interval]))
        super().add(interval)

    def add_all(self, intervals: Iterable[Interval]) -> None:
        """The same, of which there may be many."""
        new = self._new(intervals)
        self._index_these(new)
        super().add_all(new)

    def _new(self, intervals: Iterable[Interval]) -> list[Interval]:
        new = IntervalSet(intervals)
        new.remove_all([part for one in new for part in self.common(one)])
        return list(new)

    def _index_these(self, new: list[Interval]) -> None:
        for one in new:
            if one.size >= FEW:
                self._index.add_row(one.start, self._keys.row(one))
        self._index.add(self._entries([one for one in new if one.size < FEW]))

    def remove(self, interval: Interval) -> None:
        self._index.remove(self._entries(self.common(interval)))
        super().remove(interval)

    def remove_all(self, intervals: Collection[Interval]) -> None:
        """The same; all that comes first, by positions, is removed most quickly."""
        entries = self._index.first(sum([one.size for one in intervals]))
        if stretches(sorted([place for _, place in entries])) != intervals:
            entries = self._entries([part for one in intervals for part in self.common(one)])
        self._index.remove(entries)
        for one in intervals:
            super().remove(one)

    def foremost(
        self, items_max: int, bytes_max: int, batches: Batches, below: int = POSITION_MAX
    ) -> list[int]:
        """The first, as many as are asked for, and one if there is any; in their order.

        Those that stand at a bound or above are passed by.
        """
        if below == POSITION_MAX and items_max * batches.largest <= bytes_max:  # as mostly
            return [place for _, place in self._index.first(items_max)]
        places: list[int] = []
        passed = self.common(Interval(below, POSITION_MAX))
        for _, place in self._index.first(items_max + sum([one.size for one in passed])):
            if place >= below:
                continue
            if len(places) == items_max:
                break
            bytes_max -= batches.mean(place)
            if bytes_max < 0 and places:
                break
            places.append(place)
        return places

    def ahead_of(self, place: int, places: list[int]) -> list[int]:
        """Which of these, in their order, come before the item at a place. O(log n)."""
        return places[: bisect_left(places, self._entry(place), key=self._entry)]

    def _entry(self, place: int) -> Entry:
        return self._keys.of(Interval(place, place + 1))[0], place

    def check(self) -> None:
        super().check()
        assert sorted(self._entries(self)) == list(self._index), "the index has something else"
        assert self._index.total == self.total

    def nth(self, rank: int) -> int | None:
        """The position of a rank, from 1 on. O(runs log n), or O(n log n) once much was removed."""
        return self._index.nth(rank)

    def last_of(self, key: int) -> int | None:
        """The last position of a key; None where it has none. O(runs log n)."""
        return self._index.last_of(key)

    def ordered(self, some: Iterable[Interval]) -> list[Interval]:
        """Any positions in their order."""
        return stretches([place for _, place in sorted(self._entries(some))])


def stretches(places: list[int]) -> list[Interval]:
    """Positions as they stand, as intervals.

    >>> stretches([7, 8, 3])
    [Interval(start=7, stop=9), Interval(start=3, stop=4)]
    """
    if not places:
        return []
    found: list[Interval] = []
    start = stop = places[0]
    for place in places:
        if place != stop:
            found.append(Interval(start, stop))
            start = place
        stop = place + 1
    found.append(Interval(start, stop))
    return found


def first_in(pieces: int, places: list[int]) -> list[int]:
    """As many as lie in so many pieces. Of what comes by turns the last one may lie before others.

    >>> first_in(2, [3, 7, 4, 1, 8])
    [3, 7, 4]
    """
    among = set[int]()
    for count, place in enumerate(places):
        pieces -= 1 - (place - 1 in among) - (place + 1 in among)
        if pieces < 0:
            return places[:count]
        among.add(place)
    return places


def selected(ready: IntervalSet, ask: Select) -> tuple[Interval, ...]:
    """Where the item of a rank is; nowhere if there is none. O(intervals), or as keys have it.

    A share is what its digits say: 0.07 of a hundred is the seventh.

    >>> ready = IntervalSet([Interval(0, 4), Interval(9, 105)])
    >>> selected(ready, Select("q", rank=5)), selected(ready, Select("q", share=0.07))
    ((Interval(start=9, stop=10),), (Interval(start=11, stop=12),))
    """
    if ask.key is not None:
        return _last_of(ready, ask.key)
    part = Decimal(repr(float(ask.share))) * ready.total
    left = ask.rank or max(1, int(part.to_integral_value(ROUND_CEILING)))
    if isinstance(ready, Keyed):
        place = ready.nth(left)
        return () if place is None else (Interval(place, place + 1),)
    for one in ready:
        if left <= one.size:
            return (Interval(one.start + left - 1, one.start + left),)
        left -= one.size
    return ()


def _last_of(ready: IntervalSet, key: int) -> tuple[Interval, ...]:
    """Where the last item of a key is, or of a numbered priority.

    >>> first = 3 << PRIORITY_BITS
    >>> ready = IntervalSet([Interval(4, 6), Interval(first, first + 2)])
    >>> _last_of(ready, 0), _last_of(ready, 1), _last_of(ready, 1 << 40)
    ((Interval(start=5, stop=6),), (), ())
    """
    if isinstance(ready, Keyed):
        place = ready.last_of(key)
        return () if place is None else (Interval(place, place + 1),)
    if not 0 <= key < PRIORITIES_MAX:
        return ()
    some = ready.common(Interval(key << PRIORITY_BITS, (key + 1) << PRIORITY_BITS))
    return (Interval(some[-1].stop - 1, some[-1].stop),) if some else ()
