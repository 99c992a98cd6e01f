"""Order, limits and fairness by key: which of the ready items a get may take.

An item may have a *key*, such as the tenant or the account that it is for.

1. A key is bytes that come with the put, among its labels (`labels.py`). The queue knows the keys
   of what came in, or was staged, while a setting of `OF_KEYS` was on. What came before counts as
   without a key. It keeps a number for each position, and each name once, as records: so whoever
   leads next knows them, and reads no body.
2. An item is *in hand* from its lease on until it ends, dies, or goes back. It is in hand again
   with its next lease. A lease that is over counts no more: nothing can be acknowledged under it.
   What a group was given is in hand until the group is past it, or is released.
3. `at_once` and `at_once_by_key`: never more are in hand, of all or of one key.
4. `in_order_by_key`: the items of a key are given in the queue's order, and none while one of them
   is in hand. What is delayed, by its put or by its retry, keeps its place: those behind it wait
   for it. What is dead is passed by. When it comes back, it is the first of those that wait.
   A get that takes items *together* has several of a key at once, one behind the other. None of
   that key is given then until the last of those has ended or gone back.
5. `per_second` and `per_second_by_key`: see `pacing.py`.
6. `fair`: the key with the least in hand comes next. A key of weight w counts as one for each w
   that it has in hand, so it has w times as many as others. Of several that count the same comes
   the one that has the first *turn*. Whose item is given has its next turn 1/w later than this one
   was, or than the last that anybody had. So w times as many come of it, and of keys of one weight
   the one that was given nothing for the longest time. Then the one comes whose first item does in
   the queue's order: so a priority counts within a key, and between keys that are even. Turns are
   those of this term, and of keys that have no items they are not known for ever.
7. Items without a key have no order and no limit of a key. For fairness they are one key.
8. A get takes the first that it may, one by one, each as if the ones before were in hand already.
   One that may take none waits as in an empty queue. Whatever lets some go on serves it: an
   acknowledgement, a return, a lease that ended, a delay that is over, a second that has passed.
9. A queue has items of `KEYS_MAX` keys at most. With so many it has no room for what has another.
   Purging and deleting end items whatever holds their keys.
10. What comes, or comes back, is *fresh*: nobody looked at it yet, so it costs nothing by itself. A
   get looks at what is fresh in the queue's order, and gives it or has it wait with its key. It is
   fresh no more then. Of what is fresh there are `FRESH_MAX`, or the first are looked at with puts;
   in a fair queue `FAIR_FRESH_MAX`, since there a get looks at all of it, unless it is a new key's.
   In a queue of any priorities nothing is fresh: items are looked at as they come.
11. Each change of an item that waits costs O(log n) of those of its key, and O(log keys).
"""

from collections import Counter
from collections.abc import Collection, Iterable
from heapq import heapify, heappop, heappush
from itertools import repeat
from typing import Final

import msgspec

from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.keys import KEY_MIN, packed, unpacked
from snowmelt.core.pieces import Pieces
from snowmelt.protocols.queue.api.labels import Keys, named_keys
from snowmelt.protocols.queue.api.settings import KEYS_MAX, QueueSettings
from snowmelt.protocols.queue.state.batches import SEVERAL, Batches
from snowmelt.protocols.queue.state.fair_turns import FairTurns
from snowmelt.protocols.queue.state.key_names import NO_KEY, KeyNames
from snowmelt.protocols.queue.state.keys import KeysByPosition
from snowmelt.protocols.queue.state.pacing import Pace

FRESH_MAX: Final = 1 << 16
FAIR_FRESH_MAX: Final = 1 << 13
LOOKED_MOST: Final = 1_024
"""So many are looked at together at most (rule 10)."""
NO_LIMIT: Final = 1 << 62
_RANK_BITS: Final = 64
PLACE: Final = (1 << _RANK_BITS) - 1
_NOBODY: Final = -1
"""In place of the key of what is in nobody's hand."""
_EVEN: Final = 0, 0
"""How all keys stand where no turns matter, and new ones beside others."""
_SPARE: Final = 64
"""So many entries more may be kept than twice those that count."""


Entry = tuple[int, int, int, int]
"""How much a key has in hand for its weight, and its turn, if these matter; the rank of its first
item, and its number."""


class Waiting(msgspec.Struct):
    """Items of one key that were looked at and wait."""

    number: int
    ranks: list[int]
    """A heap: the rank of each that may be given; in order also of those that are delayed."""
    gone: int = 0
    """How many of those may have ended."""
    entry: "Entry | None" = None
    """As it stands among the keys that may go on. None where it may not."""

    def pass_over(self, ready: IntervalSet, delays: Pieces[int]) -> None:
        """What ended, and is the next of those that wait."""
        while self.gone and self.ranks and not _stands(self.ranks[0] & PLACE, ready, delays):
            heappop(self.ranks)
            self.gone -= 1


class ByKey:
    """Of one queue.

    >>> from snowmelt.protocols.queue.state.batches import StoredBatch
    >>> batches, ready = Batches({}), IntervalSet([Interval(0, 3)])
    >>> book = ByKey(QueueSettings(in_order_by_key=1), {}, ready, Pieces({}, b"z"), None, batches)
    >>> batches.add(StoredBatch(0, 3, 30, 1), book.put(Interval(0, 3), (b"a", b"a", b"b")))
    >>> book.choose(9, 1 << 20), book.choose(9, 1 << 20)
    ([0, 2], [])
    >>> ready.remove(Interval(0, 1)); book.ended(Interval(0, 1)); book.choose(9, 1 << 20)
    [1]
    """

    def __init__(
        self,
        settings: QueueSettings,
        changed: dict[bytes, None],
        ready: IntervalSet,
        delays: Pieces[int],
        ranks: KeysByPosition | None,
        batches: Batches,
    ) -> None:
        self.names = KeyNames(changed)
        self.hand: dict[int, int] = {}
        """By position, what is in hand: the number of its key."""
        self.held: dict[int, int] = {}
        """By such a number, how many that are."""
        self._ready = ready
        self._delays = delays
        self._batches = batches
        self._ranks = ranks
        """Where priorities have no number: the key of 64 bits that orders each position."""
        self._in_order = bool(settings.in_order_by_key)
        self._at_once = settings.at_once_each or NO_LIMIT
        self._together = settings.at_once_by_key or NO_LIMIT
        self._most = 1 if self._in_order else self._together
        self._items = Counter[int]()
        """How many items of each key live."""
        self._fresh = IntervalSet()
        """What is ready and was not looked at (rule 10)."""
        self._fresh_max = min(FRESH_MAX, FAIR_FRESH_MAX) if settings.fair else FRESH_MAX
        self._waiting: dict[int, Waiting] = {}
        self._rests: set[int] = set()
        """Which keys have had as many as a second allows."""
        self._turns = FairTurns(dict(settings.weights), self.names) if settings.fair else None
        self._open: list[Entry] = []
        """A heap of entries; those that no key has any more are passed over."""

    def __len__(self) -> int:
        """How many keys have items."""
        return len(self._items) - (NO_KEY in self._items)

    def has_room(self, names: Collection[bytes]) -> bool:
        """Whether what has these keys may come in (rule 9)."""
        if len(self) + sum(map(len, names)) <= KEYS_MAX:  # as mostly
            return True
        known, items = self.names.known, self._items
        named = {name for some in names for name in named_keys(some) or () if name is not None}
        return len(self) + sum([known.get(name) not in items for name in named]) <= KEYS_MAX

    # --- what becomes of items --------------------------------------------------------------------

    def put(self, where: Interval, names: Keys | None, *, due: int = 0) -> int:
        """These came, behind all others; they are ready, or delayed, by now. As `number`."""
        if self._fresh.total > self._fresh_max:
            self._look_at(max(where.size, LOOKED_MOST))
        number = self.number(where, names)
        if self._ranks is None and not due:
            self._fresh.add(where)
        elif not due or self._in_order:
            several = number == SEVERAL
            row = unpacked(self._batches.rows[where.start]) if several else (number,) * where.size
            pairs = zip(row, where, strict=True)
            self._wait([pair for pair in pairs if pair[0] or not due])
        return number

    def number(self, where: Interval, names: Keys | None) -> int:
        """That of the key of all of these, which come; `SEVERAL` where each has its own."""
        items, count = self._items, where.stop - where.start
        if names is None or count == 1:
            number = NO_KEY if names is None else self.names.number(names[0])
            items[number] = items.get(number, 0) + count
            return number
        numbers = self.names.numbers(names)
        items.update(numbers)
        if numbers.count(numbers[0]) == count:
            return numbers[0]
        self._batches.rows[where.start] = packed(numbers)
        return SEVERAL

    def ready(self, where: Interval) -> None:
        """These may be given: they came, went back, or were brought back."""
        numbers = self._put_back(where)
        if self._ranks is None:
            self._fresh.add(where)
        else:
            self._wait(zip(numbers, where, strict=True))
        for number in numbers:  # less of it is in hand, so its first may go on
            self._look_again(number)

    def delayed(self, where: Interval) -> None:
        """These are for later (rule 4)."""
        for position, number in zip(where, self._put_back(where), strict=True):
            if self._in_order and number:
                self._wait([(number, position)])
            self._look_again(number)

    def due(self, where: Interval) -> None:
        """A delay is over: these are ready."""
        for position, number in zip(where, self._batches.numbers(where), strict=True):
            if self._in_order and number:  # it waits already
                self._look_again(number)
            elif self._ranks is None:
                self._fresh.add(Interval(position, position + 1))
            else:
                self._wait([(number, position)])

    def dead(self, where: Interval) -> None:
        """These are in nobody's hand any more, and are not to be given."""
        for number in self._put_back(where):
            self._look_again(number)

    def _put_back(self, where: Interval) -> list[int]:
        """The keys of items that are in nobody's hand from now on."""
        places, held = range(where.start, where.stop), self.held
        numbers = list(map(self.hand.pop, places, repeat(_NOBODY)))
        for at, number in enumerate(numbers):
            if number == _NOBODY:
                numbers[at] = self._batches.number(where.start + at)
            elif held[number] == 1:
                del held[number]
            else:
                held[number] -= 1
        return numbers

    def ended(self, where: Interval) -> None:
        """These are to live no more; they are neither ready nor delayed by now."""
        items, waiting, fair = self._items, self._waiting, self._turns is not None
        places = range(where.start, where.stop)
        if rest := [place for place in places if place not in self.hand]:
            for place in rest:
                number = _NOBODY if place in self._fresh else self._batches.number(place)
                if number in waiting:
                    waiting[number].gone += 1
            self._fresh.remove(where)
        for number in self._put_back(where):
            left = items.get(number, 0) - 1
            if left > 0:
                items[number] = left
            else:
                items.pop(number, None)
                if number:
                    self.names.idle(number, items)
            key = waiting.get(number) if waiting else None
            if key is not None and (key.entry is None or key.gone or fair):  # else it goes on
                self._look(key)

    def _rank(self, position: int) -> int:
        """Its place in the queue's order."""
        if self._ranks is None:
            return position
        (key,) = self._ranks.of(Interval(position, position + 1))
        return (key - KEY_MIN) << _RANK_BITS | position

    # --- which may go on --------------------------------------------------------------------------

    def _wait(self, some: Iterable[tuple[int, int]]) -> None:
        """The keys of some positions: these were looked at, and wait with their keys."""
        waiting = self._waiting
        for number, position in some:
            rank = position if self._ranks is None else self._rank(position)
            key = waiting.get(number)
            if key is None:
                key = waiting[number] = Waiting(number, [rank])
            else:
                heappush(key.ranks, rank)
            if key.ranks[0] == rank:  # what stands behind the first changes nothing
                self._look(key)

    def _look_again(self, number: int) -> None:
        key = self._waiting.get(number)
        if key is not None:
            self._look(key)

    def _look_at(self, count: int) -> None:
        """The first that are fresh, as if a get could take none of them (rule 10)."""
        while count > 0 and self._fresh.total:
            where, _ = self._fresh.first.split(min(count, LOOKED_MOST))
            self._fresh.remove(where)
            count -= where.size
            self._wait(zip(self._batches.numbers(where), where, strict=True))

    def _look(self, key: Waiting) -> None:
        """Whether a key may go on with what waits, and where it stands then."""
        ranks, number = key.ranks, key.number
        if key.gone:
            key.pass_over(self._ready, self._delays)
        if not ranks:
            key.entry = None
            self._waiting.pop(number, None)
            return
        entry, held = None, self.held.get(number, 0)
        if (not number or (held < self._most and number not in self._rests)) and not (
            self._in_order
            and self._delays.starts
            and number
            and ranks[0] & PLACE not in self._ready
        ):
            share, turn = _EVEN if self._turns is None else self._turns.share(number, held)
            entry = share, turn, ranks[0], number
        if entry == key.entry:
            return
        key.entry = entry
        if entry is not None:
            heappush(self._open, entry)
            if len(self._open) > 2 * len(self._waiting) + _SPARE:
                self._open = [one.entry for one in self._waiting.values() if one.entry is not None]
                heapify(self._open)

    def choose(
        self,
        items_max: int,
        bytes_max: int,
        pace: Pace | None = None,
        *,
        before: int = -1,
        together: bool = False,
    ) -> list[int]:
        """What a get may take, in its order (rule 8): it is in hand from now on.

        Of items that come before the one at a position, if one is named. `together`: see rule 4.
        """
        if pace is not None:
            for number in pace.rested():
                self._rests.discard(number)
                self._look_again(number)
        most = min(items_max, self._at_once - len(self.hand))
        if pace is not None:
            most = min(most, pace.room())
        bound = self._rank(before) if before >= 0 else 1 << 2 * _RANK_BITS
        get = _Get(most, bytes_max, bound, pace, [], most * self._batches.largest > bytes_max)
        if together and self._in_order:
            get.together = self._together
            self._look_at(LOOKED_MOST)
        look = most
        while len(get.chosen) < get.most:
            entry = self._first_open()
            if self._fresh.total and (
                entry is None or (*_EVEN, self._fresh.first.start) < entry[:3]
            ):
                if get.together > 1:  # what stands behind each is to be known
                    self._look_at(LOOKED_MOST)
                    continue
                first = self._fresh.first
                stop = min(first.stop, first.start + look, get.bound)
                if entry is not None and entry[:2] == _EVEN:
                    stop = min(stop, entry[2])
                if stop <= first.start:
                    break
                if self._turns is None:
                    self._give_fresh(Interval(first.start, stop), get)
                else:
                    self._look_at(stop - first.start)
                look = min(max(2 * look, get.most - len(get.chosen)), LOOKED_MOST)
            elif entry is None or entry[2] >= get.bound:
                break
            else:
                self._give_waiting(entry, get)
        return get.chosen

    def _takes(self, number: int, pace: Pace | None) -> bool:
        """Whether its key has a share of this second."""
        if pace is None or pace.take(number, self.names.name(number)):
            return True
        self._rests.add(number)
        return False

    def _first_open(self) -> Entry | None:
        """The key among those that wait which comes next."""
        while self._open:
            entry = self._open[0]
            key = self._waiting.get(entry[3])
            if key is not None and key.entry == entry:
                return entry
            heappop(self._open)
        return None

    def _give_waiting(self, entry: Entry, get: "_Get") -> None:
        """The first item of a key that may go on, and those that come together with it."""
        *_, rank, number = entry
        if get.weighed and get.is_full(self._batches.mean(rank & PLACE)):
            return
        heappop(self._open)
        key = self._waiting[number]
        key.entry = None
        while self._takes(number, get.pace):
            heappop(key.ranks)
            self._give(rank & PLACE, number, get.chosen)
            rank = -1
            if get.together > 1:
                rank = get.behind(key, self.held[number], self._fresh, self._ready, self._delays)
            if rank < 0 or (get.weighed and get.is_full(self._batches.mean(rank & PLACE))):
                self._look(key)
                return

    def _give_fresh(self, where: Interval, get: "_Get") -> None:
        """Those of some that are fresh which a get may take; the others wait (rule 10)."""
        waiting, hand, held = self._waiting, self.hand, self.held
        most, chosen, at_once, rests = get.most, get.chosen, self._most, self._rests
        simple = get.pace is None and not get.weighed
        stop = where.stop
        for position, number in enumerate(self._batches.numbers(where), start=where.start):
            if len(chosen) >= most:
                stop = position
                break
            mine = held.get(number, 0)
            # as `_look` and `_give` say, which are not called for each item here
            if number in waiting or (number and (mine >= at_once or number in rests)):
                pass
            elif simple or (
                not (get.weighed and get.is_full(self._batches.mean(position)))
                and self._takes(number, get.pace)
            ):
                hand[position], held[number] = number, mine + 1
                chosen.append(position)
                continue
            elif get.most == len(chosen):  # it has no room for it
                stop = position
                break
            self._wait([(number, position)])
            if waiting[number].entry is not None:  # it comes before the rest
                stop = position + 1
                break
        self._fresh.remove(Interval(where.start, stop))

    def _give(self, position: int, number: int, chosen: list[int]) -> None:
        self.hand[position] = number
        self.held[number] = self.held.get(number, 0) + 1
        chosen.append(position)
        if self._turns is not None:
            self._turns.give(number, self._items)

    # --- as it is found again ---------------------------------------------------------------------

    def find(self, live: Iterable[Interval], hand: Iterable[Interval]) -> None:
        """What is fresh, waits and is in hand, where all of it is known by now."""
        self._items.clear()
        for where in live:
            self._items.update(self._batches.numbers(where))
        self.names.find_idle(self._items)
        for where in hand:
            for position, number in zip(where, self._batches.numbers(where), strict=True):
                self.hand[position] = number
                self.held[number] = self.held.get(number, 0) + 1
        for where, _ in self._delays if self._in_order else ():
            for position, number in zip(where, self._batches.numbers(where), strict=True):
                if number:
                    self._wait([(number, position)])
        self._fresh.add_all(self._ready)
        fresh = 0 if self._ranks is not None else self._fresh_max
        self._look_at(self._fresh.total - fresh)

    def check(self, live: Iterable[Interval], hand: Iterable[Interval]) -> None:
        """Asserts that limits hold, and that what may go on is what the sets say."""
        numbers = self._batches.numbers
        assert sorted(self.hand) == [place for one in sorted(hand) for place in one]
        assert self.held == dict(Counter(self.hand.values()))
        assert self._items == dict(Counter([one for where in live for one in numbers(where)]))
        assert all(self.names.name(number) for number in self._items if number)
        waits: dict[int, list[int]] = {}
        for where in [*self._ready, *[one for one, _ in self._delays]]:
            for position, number in zip(where, numbers(where), strict=True):
                if position in self._fresh:
                    assert position in self._ready, "what is fresh is ready"
                elif position in self._ready or (self._in_order and number):
                    waits.setdefault(number, []).append(self._rank(position))
        assert waits.keys() <= self._waiting.keys(), "something waits and is not known to"
        for number, key in self._waiting.items():
            some = sorted(waits.get(number, []))
            assert set(some) <= set(key.ranks), "something waits and is not known to"
            held = self.held.get(number, 0)
            may = not number or (held < self._most and number not in self._rests)
            goes = some and may and some[0] & PLACE in self._ready
            assert (key.entry is not None) == bool(goes), "a key is held up, or goes on, wrongly"
            if key.entry is not None:
                share = _EVEN if self._turns is None else self._turns.share(number, held)
                assert key.entry == (*share, some[0], number)
                assert key.entry in self._open


class _Get(msgspec.Struct):
    """What one get may have, and has so far."""

    most: int
    bytes_max: int
    bound: int
    """It takes nothing from this rank on."""
    pace: Pace | None
    chosen: list[int]
    weighed: bool
    """Whether it may be full before it has as many as it may."""
    together: int = 1
    """So many of a key that is in order (rule 4)."""

    def behind(
        self,
        key: Waiting,
        held: int,
        fresh: IntervalSet,
        ready: IntervalSet,
        delays: Pieces[int],
    ) -> int:
        """The rank of what comes together with the last one of a key; below 0 for nothing."""
        if held >= self.together or len(self.chosen) >= self.most or not key.number:
            return -1
        key.pass_over(ready, delays)
        if not key.ranks or key.ranks[0] & PLACE not in ready:
            return -1
        rank = key.ranks[0]
        unknown = fresh.total and rank > fresh.first.start
        return -1 if unknown or rank >= self.bound else rank

    def is_full(self, size: int) -> bool:
        """Whether there is no room for an item of so many bytes, but for the first."""
        self.bytes_max -= size
        if self.bytes_max >= 0 or not self.chosen:
            return False
        self.most = len(self.chosen)
        return True


def _stands(place: int, ready: IntervalSet, delays: Pieces[int]) -> bool:
    """Whether it may be given, or is for later."""
    return place in ready or len(delays.common(Interval(place, place + 1))) > 0
