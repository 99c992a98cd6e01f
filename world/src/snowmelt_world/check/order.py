"""VOrd: whether one order of the values fits both the puts and the gets.

A fifo has one order of its values for both sides. The history forces value a before value b in it
when

1. a's put had returned before b's put was called, or a's get before b's get;
2. one batch carried both, a first.

A put counts here as returned when its value has been got, if that is sooner. The history fits an
order only if these have no cycle. For calls of single values every cycle holds a short one, of two
values of which a was put before b and b was got before a: this is the pattern VOrd of Henzinger,
Sezgin and Vafeiadis (CONCUR 2013). Batches make chains, and with chains there are cycles of more
values and no shorter one. So here cycles of any length are found, in one way:

Peel the values off in the order of the queue. A value may go when nothing that is still there comes
before it: on both sides its call is not after the earliest return among those still there, and
those ahead of it in its batches are gone. The thresholds only ever rise, so two sorted lists a side
and one pointer in each are enough: O(n log n) for the sorting, O(n) for the rest. If all values go,
the order in which they went is the order wanted. If some stay, each of them has another one before
it, so going from each to the one before it must come back, and that is the cycle.

A forced order also says more of when a value was put: not after any value that comes after it was
put. `latest_puts` has this for the chains. The other forced orders add nothing to what
`emptiness.py` makes of it: where a value is held in the queue through one of those, a later value
that is there as long or longer can be named in its place.
"""

from array import array
from collections.abc import Callable, Iterator

from snowmelt_world.check.passage import NOBODY, Column, Passages

_NOBODY = -1


class ForcedOrder:
    """The order that a history forces upon the values of a queue, by their places."""

    def __init__(self, passages: Passages) -> None:
        self._passages = passages
        self._gone = bytearray(len(passages))
        self._sides = (
            _Side(passages.put_called, passages.put_returned, self._gone),
            _Side(passages.got_called, passages.got_returned, self._gone),
        )
        self._chains = (
            _Chain(passages.put, passages.put_place, self._gone),
            _Chain(passages.get, passages.got_place, self._gone),
        )
        self._order = self._peel()
        self._because: Column = array("q")

    def _peel(self) -> Column:
        # Each value waits for every side to open, and for those ahead of it in its batches.
        waits = bytearray(
            len(self._sides) + sum(chain.ahead[index] != _NOBODY for chain in self._chains)
            for index in range(len(self._passages))
        )
        order = array("q")
        freed = [index for side in self._sides for index in side.opened()]
        while freed:
            index = freed.pop()
            waits[index] -= 1
            if waits[index] == 0:
                order.append(index)
                self._gone[index] = True
                next_ones = (chain.behind[index] for chain in self._chains)
                freed += [behind for behind in next_ones if behind != _NOBODY]
                for side in self._sides:
                    freed += side.opened()
        return order

    def cycle(self) -> list[int]:
        """Values in a circle, each forced to come after the next; empty when an order fits."""
        stuck = self._gone.find(0)
        if stuck == _NOBODY:
            return []
        met: dict[int, int] = {}
        path: list[int] = []
        while stuck not in met:
            met[stuck] = len(path)
            path.append(stuck)
            befores = (rule.before(stuck) for rule in (*self._sides, *self._chains))
            stuck = next(before for before in befores if before != _NOBODY)
        return path[met[stuck] :]

    def latest_puts(self) -> Column:
        """For each value the latest instant at which it can have been put. Needs that no cycle is.

        O(n): a value is not put after the one behind it in a batch, and those went later.
        """
        latest = array("Q", self._passages.put_returned)
        self._because = array("q", [_NOBODY]) * len(latest)
        for index in reversed(self._order):
            for chain in self._chains:
                behind = chain.behind[index]
                if behind != _NOBODY and latest[behind] < latest[index]:
                    latest[index] = latest[behind]
                    self._because[index] = behind
        return latest

    def because(self, index: int) -> list[int]:
        """The value, and those that tell when it was put at the latest: the corners of the way."""
        way = [index]
        while self._because[index] != _NOBODY:
            index = self._because[index]
            if len(way) > 1 and self._straight(way[-2], way[-1], index):
                way.pop()
            way.append(index)
        return way

    def _straight(self, *three: int) -> bool:
        """Whether one batch carried all three."""
        gets = {self._passages.get[index] for index in three}
        puts = {self._passages.put[index] for index in three}
        return len(puts) == 1 or (len(gets) == 1 and NOBODY not in gets)


class _Side:
    """Who must go before whom because one returned before the other was called."""

    def __init__(self, called: Column, returned: Column, gone: bytearray) -> None:
        self._called = called
        self._returned = returned
        self._gone = gone
        self._waiting = iter(_ranked(len(called), called.__getitem__))
        self._next = next(self._waiting, _NOBODY)
        self._leaving = iter(_ranked(len(called), returned.__getitem__))
        self._earliest = next(self._leaving, _NOBODY)

    def _skip_gone(self) -> None:
        while self._earliest != _NOBODY and self._gone[self._earliest]:
            self._earliest = next(self._leaving, _NOBODY)

    def opened(self) -> Iterator[int]:
        """Those that nothing here holds back, each once, as soon as it is so."""
        self._skip_gone()
        if self._earliest == _NOBODY:
            return
        threshold = self._returned[self._earliest]
        while self._next != _NOBODY and self._called[self._next] <= threshold:
            yield self._next
            self._next = next(self._waiting, _NOBODY)

    def before(self, index: int) -> int:
        """Who returned first of those still there, if it was before this one's call; or nobody."""
        self._skip_gone()
        early = self._returned[self._earliest] < self._called[index]
        return self._earliest if early else _NOBODY


class _Chain:
    """Who must go before whom because one batch carried them in that order."""

    def __init__(self, carriers: Column, places: Column, gone: bytearray) -> None:
        self._gone = gone
        self.ahead = array("q", [_NOBODY]) * len(carriers)
        self.behind = self.ahead[:]
        last, held = _NOBODY, NOBODY
        in_batch = _ranked(len(carriers), places.__getitem__)
        for index in sorted(in_batch, key=carriers.__getitem__):
            carrier = carriers[index]
            if carrier != NOBODY and carrier == held:
                self.ahead[index], self.behind[last] = last, index
            last, held = index, carrier

    def before(self, index: int) -> int:
        """The first of this one's batch, if another is still there; or nobody.

        The first, and not the next, so that the circle is short.
        """
        first, ahead = _NOBODY, self.ahead[index]
        while ahead != _NOBODY and not self._gone[ahead]:
            first, ahead = ahead, self.ahead[ahead]
        return first


def _ranked(count: int, key: Callable[[int], int]) -> Column:
    """All places, the one with the least key first."""
    return array("q", sorted(range(count), key=key))
