"""VOrd: whether one order of the values fits both the puts and the gets.

Value a goes before value b when the history forces it so on either side of the queue: a's put (or
get) returned before b's was called, or one batch carried both with a first. A fifo has one order
for both sides, so the forced orders together must have no cycle.

For calls of single values every cycle holds one of two values: a was put before b and b was got
before a. This is the pattern VOrd of Henzinger, Sezgin and Vafeiadis (CONCUR 2013). Batches add
chains within calls, and with chains there are cycles of four values and no shorter one, so here
cycles of any length are found, in one way:

Peel the values off in the order of the queue. A value may go when on both sides no value that is
still there comes before it. On one side that is: its call is not after the earliest return among
those still there, and the one before it in its batch is gone. Both thresholds only ever rise, so
two sorted lists a side and one pointer in each are enough: O(n log n) for the sorting, O(n) for the
rest. If all values go, the order in which they went is the order wanted. If some stay, each of them
has another one before it, so going from each to the one before it must come back, and that is the
cycle.
"""

from collections.abc import Iterator

from snowmelt.check.history import Operation
from snowmelt.check.passage import Passage

_NOBODY = -1


class _Side:
    """One side of the queue: who must go before whom there, of those not yet `gone`."""

    def __init__(
        self,
        called: list[int],
        returned: list[int],
        carriers: list[Operation | None],
        places: list[int],
        gone: bytearray,
    ) -> None:
        self.called = called
        self.returned = returned
        self.gone = gone
        self._waiting = iter(sorted(range(len(called)), key=called.__getitem__))
        self._next = next(self._waiting, _NOBODY)
        self._leaving = iter(sorted(range(len(called)), key=returned.__getitem__))
        self._earliest = next(self._leaving, _NOBODY)
        self.ahead, self.behind = _chains(carriers, places)

    def earliest(self) -> int:
        """Who returned first of those still there, or nobody."""
        while self._earliest != _NOBODY and self.gone[self._earliest]:
            self._earliest = next(self._leaving, _NOBODY)
        return self._earliest

    def opened(self) -> Iterator[int]:
        """Those that no interval holds back, each once, as soon as it is so."""
        earliest = self.earliest()
        if earliest == _NOBODY:
            return
        threshold = self.returned[earliest]
        while self._next != _NOBODY and self.called[self._next] <= threshold:
            yield self._next
            self._next = next(self._waiting, _NOBODY)

    def before(self, index: int) -> int:
        """One that is still there and comes before this one, or nobody.

        Of a batch it is the first, so that the circle is short.
        """
        earliest = self.earliest()
        if self.returned[earliest] < self.called[index]:
            return earliest
        first = _NOBODY
        ahead = self.ahead[index]
        while ahead != _NOBODY and not self.gone[ahead]:
            first, ahead = ahead, self.ahead[ahead]
        return first


def _chains(carriers: list[Operation | None], places: list[int]) -> tuple[list[int], list[int]]:
    """For each value who is next to it, ahead and behind, in the same batch."""
    ahead, behind = [_NOBODY] * len(carriers), [_NOBODY] * len(carriers)
    last: tuple[Operation | None, int] = (None, _NOBODY)
    for index in sorted(range(len(carriers)), key=places.__getitem__):
        carrier = carriers[index]
        if carrier is not None and carrier is last[0]:
            ahead[index], behind[last[1]] = last[1], index
        last = carrier, index
    return ahead, behind


def find_cycle(passages: list[Passage], got_places: list[int]) -> list[Passage]:
    """Values in a circle, each forced to come after the next; empty when an order fits.

    `passages` are as their puts carry them; `got_places` says where each stands among all values
    got, so that the values of one get are next to each other.
    """
    gone = bytearray(len(passages))
    puts = _Side(
        [one.put_called for one in passages],
        [one.put_returned for one in passages],
        [one.put for one in passages],
        list(range(len(passages))),
        gone,
    )
    gets = _Side(
        [one.got_called for one in passages],
        [one.got_returned for one in passages],
        [one.get for one in passages],
        got_places,
        gone,
    )
    _peel(puts, gets, gone)
    return [passages[index] for index in _circle(puts, gets, gone)]


def _peel(puts: _Side, gets: _Side, gone: bytearray) -> None:
    # Each value waits for both intervals and for those ahead of it in its batches.
    waits = [
        2 + (ahead_put != _NOBODY) + (ahead_get != _NOBODY)
        for ahead_put, ahead_get in zip(puts.ahead, gets.ahead, strict=True)
    ]
    freed = [*puts.opened(), *gets.opened()]
    while freed:
        index = freed.pop()
        waits[index] -= 1
        if waits[index] == 0:
            gone[index] = True
            freed += [one for one in (puts.behind[index], gets.behind[index]) if one != _NOBODY]
            freed += puts.opened()
            freed += gets.opened()


def _circle(puts: _Side, gets: _Side, gone: bytearray) -> list[int]:
    stuck = gone.find(0)
    if stuck == _NOBODY:
        return []
    met: dict[int, int] = {}
    path: list[int] = []
    while stuck not in met:
        met[stuck] = len(path)
        path.append(stuck)
        before = puts.before(stuck)
        stuck = before if before != _NOBODY else gets.before(stuck)
    return path[met[stuck] :]
