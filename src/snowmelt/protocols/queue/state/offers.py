"""What one of several partitions may give out by keys: it says so, and hears later what is granted.

It is rules 19 and 21 of `leader/parted`. `at_once` and `per_second` are divided, and rounded down.
"""

from collections.abc import Iterable
from heapq import heapify, heappop

from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.state.by_key import NO_LIMIT, PLACE, ByKey
from snowmelt.protocols.queue.state.pacing import LookAhead, Pace


class Offers(ByKey):
    """Of one partition."""

    def look(
        self, items_max: int, bytes_max: int, pace: Pace | None = None, before: int = -1
    ) -> tuple[list[int], bool]:
        """What a get may take now, and whether there is more; none of it is in hand by this."""
        ahead = None if pace is None else LookAhead(pace)
        places = self.choose(items_max, bytes_max, ahead, before=before)
        more = self.choose(1, bytes_max, ahead, before=before) if places else []
        for place in (*places, *more):
            self._rests.discard(self.hand[place])
            self.ready(Interval(place, place + 1))
        return places, len(more) > 0

    def give(self, some: Iterable[Interval], pace: Pace | None = None) -> list[int]:
        """Those of some items that may be taken still (rule 12); they are in hand from now on."""
        for number in () if pace is None else pace.rested():
            self._rests.discard(number)
            self._look_again(number)
        room = NO_LIMIT if pace is None else pace.room()
        most, given = min(room, self._at_once - len(self.hand)), list[int]()
        for place in [place for one in some for part in self._ready.common(one) for place in part]:
            while self._fresh.total and self._fresh.first.start <= place:
                fresh = self._fresh.first
                self._look_at(min(fresh.stop, place + 1) - fresh.start)
            key = self._waiting.get(self._batches.number(place))
            if key is None or key.entry is None or len(given) >= most:
                continue
            first = key.ranks[0] & PLACE == place
            if not first and self._in_order and key.number:
                continue  # what comes before it came back just now
            if self._takes(key.number, pace):
                if first:
                    heappop(key.ranks)
                else:
                    key.ranks.remove(self._rank(place))
                    heapify(key.ranks)
                self._give(place, key.number, given)
            self._look(key)
        return given
