"""What no failure excuses: rules for worlds in which nobody fails, whatever orders them.

Nodes come and leave in order, clients die, bounds are met, and all of that is calm. So nothing here
is left out for a view, a lapse, or a copy. All is judged by calls and answers (`check.history`); of
two items one is *before* the other when its priority is smaller; else when its put was answered
before the other was asked for, or both were in one call in that order.

1. What was acknowledged is not delivered again.
2. What is held is not delivered to another, until it is given back or its lease is over.
3. What waited from before a get was called until after it returned is not passed by it: whether it
   was put, or given back, by whomever, at whatever node. So a get does not pass its own client's
   puts, and what one client was answered another one sees.
4. What one call put stands together.
5. What somebody said of what it held is refused only when its lease is over.
6. A put is refused for want of room only where there may have been none; and it waits only as long
   as there was none.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

import msgspec

from snowmelt.core.instant import SECOND, seconds
from snowmelt_world.check.history import NEVER, Ended, History, Kind, Operation, Value, rows

ROOM_WITHIN: Final = seconds(3)
"""So soon after there is room somebody who waits for it has it."""


class Item(msgspec.Struct):
    """All that was said of one item."""

    value: Value
    put: Operation
    index: int
    """Which of those it is that were put together."""
    gets: list[Operation] = []
    acks: list[Operation] = []
    backs: list[Operation] = []

    @property
    def is_in(self) -> bool:
        """Whether it was in the queue for certain: somebody was told, or got it."""
        return self.put.ended is Ended.SUCCEEDED or bool(self.gets)

    @property
    def done(self) -> int:
        """From when on it is done for certain."""
        return min([one.until for one in self.acks], default=NEVER)

    @property
    def priority(self) -> int:
        return self.put.priorities[self.index] if self.put.priorities else 0

    def waited(self, get: Operation) -> bool:
        """Whether anybody could have had it from before a get was called until it returned."""
        told = [one for one in (self.put, *self.backs) if one.until < get.called]
        since = max([one.called for one in told], default=NEVER)
        return bool(told) and not self.taken(get, since)

    def taken(self, get: Operation, since: int = -1) -> bool:
        """Whether somebody may have had it, or been done with it, after that and by this get."""
        ends = (*self.gets, *self.acks)
        return any(one.called <= get.until and one.until >= since for one in ends)

    def is_before(self, other: "Item") -> bool:
        """Whether it is to be had before another."""
        if self.priority != other.priority or self.put is not other.put:
            told = self.put.until < other.put.called
            return self.priority < other.priority or (self.priority == other.priority and told)
        return self.index < other.index


class Strict:
    """One history, judged by these rules."""

    def __init__(self, history: History) -> None:
        puts = history.attempted(Kind.PUT)
        items = [Item(one, put, at) for put in puts for at, one in enumerate(put.values)]
        self._items = {item.value: item for item in items}
        for kind, name in ((Kind.GET, "gets"), (Kind.ACK, "acks"), (Kind.BACK, "backs")):
            for value, one in rows(history.attempted(kind)):
                getattr(self._items[value], name).append(one)
        self._puts = [one for one in history if one.kind is Kind.PUT and one.returned is not None]
        self._unheard = history.unknown(Kind.GET)
        self._refusals = [
            one
            for one in history
            if one.kind in (Kind.ACK, Kind.BACK) and one.ended is Ended.FAILED
        ]
        self._gets = sorted(history.succeeded(Kind.GET), key=lambda one: one.called)

    def judge(self, bound: int = 0) -> list[str]:
        """Everything that is wrong, in words; a refused put was refused for want of room."""
        found = [*self._revived(), *self._passed(), *self._torn(), *self._refused()]
        return [*found, *self._bounded(bound)] if bound else found

    def _revived(self) -> Iterator[str]:
        """Rules 1 and 2."""
        for item in self._items.values():
            last: Operation | None = None
            for get in sorted(item.gets, key=lambda one: one.until):
                if item.done < get.called:
                    yield f"{item.value} was acknowledged, and {get.process} gets it"
                ends = [one for one in (*item.acks, *item.backs) if one.called <= get.until]
                if last is not None and get.until < (last.held or 0) and not ends:
                    yield f"{item.value} is held by {last.process}, and {get.process} gets it"
                last = get

    def _passed(self) -> Iterator[str]:
        """Rule 3; of a get that found nothing, all that waited."""
        for get in self._gets:
            if any(one.called <= get.until for one in self._unheard):
                return  # nobody knows what it took
            last = self._items[get.values[-1]] if get.values else None
            for item in self._items.values():
                own = item.put.process == get.process and item.put.called < get.called
                own = own and item.put.ended is Ended.SUCCEEDED and not item.taken(get)
                if not own and not item.waited(get):
                    continue
                if last is None or item.is_before(last):
                    brought = "nothing" if last is None else last.value
                    yield f"{get.process} got {brought}, and {item.value} was there before it"
                    break

    def _torn(self) -> Iterator[str]:
        """Rule 4, where one got everything, and everything once."""
        got = [self._items[value] for get in self._gets for value in get.values]
        takers = {one.process for one in self._gets}
        if len(got) > len({one.value for one in got}) or len(takers) > 1:
            return
        runs = [run for run, _ in groupby(got, lambda one: (one.put.values[0], one.priority))]
        for at, run in enumerate(runs):
            if run in runs[:at]:
                yield f"what is put with {run[0]} in one call stands in several places"
                return

    def _refused(self) -> Iterator[str]:
        """Rule 5."""
        for word in self._refusals:
            mine = [one for one in self._gets if word.values and one.process == word.process]
            mine = [one for one in mine if one.values == word.values and one.until < word.called]
            if mine and word.until < (mine[-1].held or 0):
                yield f"{word.process} is told that its lease of {word.values[0]} is lost"

    def _bounded(self, bound: int) -> Iterator[str]:
        """Rule 6."""
        for put in self._puts:
            moments = self._moments(put)
            full = [at for at in moments if self._most(put, at) > bound]
            if put.ended is Ended.SUCCEEDED:
                after = [at for at in moments if full and at > full[-1]]
                since = min(after, default=put.until) if full else put.called
                if put.until - since > ROOM_WITHIN:
                    waited = (put.until - since) / SECOND
                    yield f"{put.process} waited {waited:.1f} s for room that there was"
            elif not full:
                yield f"{put.process} is told that there is no room, and there was"

    def _moments(self, put: Operation) -> list[int]:
        """When it may have become fuller, or less full, while it was on its way."""
        times = [put.called, *[one.put.called for one in self._items.values()]]
        times += [one.done for one in self._items.values()]
        return sorted({at for at in times if put.called <= at <= put.until})

    def _most(self, put: Operation, at: int) -> int:
        """How many there may have been then, with these."""
        there = [
            one
            for one in self._items.values()
            if one.put is not put and one.is_in and one.put.called <= at < one.done
        ]
        return len(there) + len(put.values)
