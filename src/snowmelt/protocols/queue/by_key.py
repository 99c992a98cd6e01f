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
5. `per_second` and `per_second_by_key`: see `pacing.py`.
6. `fair`: the key with the least in hand comes next; of several the one whose first item comes
   first in the queue's order. So a priority counts within a key, and between keys that are even.
7. Items without a key have no order and no limit of a key. For fairness they are one key.
8. A get takes the first that it may, one by one, each as if the ones before were in hand already.
   One that may take none waits as in an empty queue. Whatever lets some go on serves it: an
   acknowledgement, a return, a lease that ended, a delay that is over, a second that has passed.
9. A key is kept as long as one of its items lives. With `KEYS_MAX` of them a queue has no room for
   what has another key. Purging and deleting end items whatever holds their keys.
10. Each change of an item costs O(log n) of those of its key, and O(log keys).
"""

from collections.abc import Collection, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.keys import KEY_MIN, packed
from snowmelt.core.pieces import Pieces
from snowmelt.protocols.queue.batches import Batches
from snowmelt.protocols.queue.keys import KeysByPosition
from snowmelt.protocols.queue.labels import named_keys
from snowmelt.protocols.queue.pacing import Pace
from snowmelt.protocols.queue.settings import KEYS_MAX, QueueSettings

PAGES: Final = b"i"
"""Of the numbers of keys, by positions."""
PAGE: Final = 32
"""So many positions have one: a single put writes its page anew."""
NAME: Final = b"j"
"""Of the name of a key, by its number."""
NO_KEY: Final = 0
_NO_LIMIT: Final = 1 << 62
_RANK_BITS: Final = 64
_PLACE: Final = (1 << _RANK_BITS) - 1
_SPARE: Final = 64
"""So many entries more may be kept than twice those that count."""


class ItemsOfKey(msgspec.Struct):
    """What lives of one key."""

    number: int
    name: bytes
    most: int
    """So many may be in hand."""
    ordered: bool
    """Whether its items go one after the other (rule 4)."""
    items: int = 0
    held: int = 0
    waits: list[int] = []
    """A heap: the rank of each that may be given; in order also of those that are delayed."""
    gone: int = 0
    """How many of those may have ended."""
    entry: tuple[int, int, int] | None = None
    """As it stands among the keys that may go on: how much it has in hand if that matters, the rank
    of its first item, and its number. None where it may not."""
    rests: bool = False
    """Whether it has had as many as a second allows."""


class ByKey:
    """Of one queue.

    >>> from snowmelt.protocols.queue.labels import keys_of, Labels, pack
    >>> batches, ready = Batches({}), IntervalSet([Interval(0, 3)])
    >>> book = ByKey(QueueSettings(in_order_by_key=1), {}, ready, Pieces({}, b"z"), None)
    >>> book.put(0, 3, keys_of(pack(Labels(keys=(b"a", b"a", b"b")))))
    >>> book.choose(9, 1 << 20, batches), book.choose(9, 1 << 20, batches)
    ([0, 2], [])
    >>> ready.remove(Interval(0, 1)); book.ended(Interval(0, 1)); book.choose(9, 1 << 20, batches)
    [1]
    """

    def __init__(
        self,
        settings: QueueSettings,
        changed: dict[bytes, None],
        ready: IntervalSet,
        delays: Pieces[int],
        ranks: KeysByPosition | None,
    ) -> None:
        self.numbers = KeysByPosition(changed, PAGES, PAGE)
        self.hand: dict[int, ItemsOfKey] = {}
        """By position, what is in hand."""
        self._changed = changed
        self._ready = ready
        self._delays = delays
        self._ranks = ranks
        """Where priorities have no number: the key of 64 bits that orders each position."""
        self._fair = bool(settings.fair)
        self._in_order = bool(settings.in_order_by_key)
        self._at_once = settings.at_once or _NO_LIMIT
        self._most = 1 if self._in_order else settings.at_once_by_key or _NO_LIMIT
        self._keys = {NO_KEY: ItemsOfKey(NO_KEY, b"", _NO_LIMIT, ordered=False)}
        self._numbers: dict[bytes, int] = {}
        self._last = 0
        """The last number that was given to a key."""
        self._open: list[tuple[int, int, int]] = []
        """A heap of entries; those that no key has any more are passed over."""

    def __len__(self) -> int:
        """How many keys have items."""
        return len(self._numbers)

    def has_room(self, names: Collection[bytes]) -> bool:
        """Whether what has these keys may come in (rule 9)."""
        known = self._numbers
        if len(known) + sum(map(len, names)) <= KEYS_MAX:  # as mostly
            return True
        new = {name for some in names for name in named_keys(some) or () if name is not None}
        return len(known) + len(new - known.keys()) <= KEYS_MAX

    # --- what becomes of items --------------------------------------------------------------------

    def put(self, start: int, count: int, names: bytes, *, due: int = 0) -> None:
        """These came; they are ready, or delayed, by now."""
        row = named_keys(names)
        known, numbers, ranks = self._numbers, list[int](), self._ranks
        for position, name in enumerate((None,) * count if row is None else row, start=start):
            number = NO_KEY if name is None else known.get(name) or self._new(name)
            key = self._keys[number]
            numbers.append(number)
            key.items += 1
            if due and not key.ordered:
                continue
            rank = position if ranks is None else self._rank(position)
            heappush(key.waits, rank)
            if key.entry is None or rank < key.entry[1]:
                self._look(key)
        self.numbers.add(start, packed(numbers))

    def _new(self, name: bytes) -> int:
        """The number of a key that has no items yet."""
        number = self._last = self._last + 1
        self._add(number, name)
        self._changed[_record(number)] = None
        return number

    def _add(self, number: int, name: bytes) -> None:
        self._numbers[name] = number
        self._keys[number] = ItemsOfKey(number, name, self._most, self._in_order)

    def ready(self, where: Interval) -> None:
        """These may be given: they came, went back, or were brought back."""
        for position in range(where.start, where.stop):
            key = self._put_back(position)
            heappush(key.waits, self._rank(position))
            self._look(key)

    def delayed(self, where: Interval) -> None:
        """These are for later (rule 4)."""
        for position in range(where.start, where.stop):
            key = self._put_back(position)
            if key.ordered:
                heappush(key.waits, self._rank(position))
            self._look(key)

    def due(self, where: Interval) -> None:
        """A delay is over: these are ready."""
        for position, key in self._of(where):
            if not key.ordered:  # else it waits already
                heappush(key.waits, self._rank(position))
            self._look(key)

    def dead(self, where: Interval) -> None:
        """These are in nobody's hand any more, and are not to be given."""
        for position in range(where.start, where.stop):
            self._look(self._put_back(position))

    def _put_back(self, position: int) -> ItemsOfKey:
        """The key of an item that is in nobody's hand from now on."""
        key = self.hand.pop(position, None)
        if key is None:
            return self._key(position)
        key.held -= 1
        return key

    def ended(self, where: Interval) -> None:
        """These live no more; they are neither ready nor delayed by now."""
        for position in range(where.start, where.stop):
            key = self.hand.pop(position, None)
            if key is not None:
                key.held -= 1
            else:
                key = self._key(position)
                key.gone += 1
            key.items -= 1
            if not key.items and key.number:
                self._drop(key)
            else:
                self._look(key)

    def _drop(self, key: ItemsOfKey) -> None:
        # Rule 9.
        key.entry = None
        del self._keys[key.number], self._numbers[key.name]
        self._changed[_record(key.number)] = None

    def _rest_is_over(self, name: bytes) -> None:
        """This key may go on, if it has items still (`pacing.py`)."""
        number = self._numbers.get(name)
        if number is not None:
            key = self._keys[number]
            key.rests = False
            self._look(key)

    def _key(self, position: int) -> ItemsOfKey:
        (number,) = self.numbers.of(Interval(position, position + 1))
        return self._keys.get(number) or self._keys[NO_KEY]

    def _of(self, where: Interval) -> Iterator[tuple[int, ItemsOfKey]]:
        keys, none = self._keys, self._keys[NO_KEY]
        for position, number in zip(where, self.numbers.of(where), strict=True):
            yield position, keys.get(number, none)

    def _rank(self, position: int) -> int:
        """Its place in the queue's order."""
        if self._ranks is None:
            return position
        (key,) = self._ranks.of(Interval(position, position + 1))
        return (key - KEY_MIN) << _RANK_BITS | position

    # --- which may go on --------------------------------------------------------------------------

    def _look(self, key: ItemsOfKey) -> None:
        """Whether a key may go on, and where it stands then."""
        waits = key.waits
        while key.gone and waits and not self._waits(waits[0]):
            heappop(waits)
            key.gone -= 1
        if not waits:
            key.gone = 0
        entry = None
        if (
            waits
            and key.held < key.most
            and not key.rests
            and not (key.ordered and self._delays.count and waits[0] & _PLACE not in self._ready)
        ):
            entry = key.held if self._fair else 0, waits[0], key.number
        if entry == key.entry:
            return
        key.entry = entry
        if entry is not None:
            heappush(self._open, entry)
            if len(self._open) > 2 * len(self._keys) + _SPARE:
                self._open = [one.entry for one in self._keys.values() if one.entry is not None]
                heapify(self._open)

    def _waits(self, rank: int) -> bool:
        place = rank & _PLACE
        return place in self._ready or len(self._delays.common(Interval(place, place + 1))) > 0

    def choose(
        self,
        items_max: int,
        bytes_max: int,
        batches: Batches,
        pace: Pace | None = None,
        *,
        before: int = -1,
    ) -> list[int]:
        """What a get may take, in its order (rule 8): it is in hand from now on.

        Of items that come before the one at a position, if one is named.
        """
        if pace is not None:
            for name in pace.rested():
                self._rest_is_over(name)
        if not self._open:
            return []
        most = min(items_max, self._at_once - len(self.hand))
        if pace is not None:
            most = min(most, pace.room())
        bound = self._rank(before) if before >= 0 else 1 << 2 * _RANK_BITS
        weighed = most * batches.largest > bytes_max
        chosen: list[int] = []
        while self._open and len(chosen) < most:
            entry = self._open[0]
            key = self._keys.get(entry[2])
            if key is None or key.entry != entry:
                heappop(self._open)
                continue
            if entry[1] >= bound:
                break
            position = entry[1] & _PLACE
            if weighed:
                bytes_max -= batches.mean(position)
                if bytes_max < 0 and chosen:
                    break
            heappop(self._open)
            key.entry = None
            if pace is not None and not pace.take(key.name):
                key.rests = True
                continue
            heappop(key.waits)
            self.hand[position] = key
            key.held += 1
            chosen.append(position)
            self._look(key)
        return chosen

    # --- as it is written down --------------------------------------------------------------------

    def keys(self) -> Iterator[bytes]:
        yield from self.numbers.keys()
        yield from map(_record, self._numbers.values())

    def record(self, key: bytes) -> bytes | None:
        """As it is written down; None when none of its items lives."""
        if key[:1] == PAGES:
            return self.numbers.record(key)
        found = self._keys.get(int.from_bytes(key[1:]))
        return None if found is None else found.name

    def restore(self, key: bytes, value: bytes) -> None:
        """From a record; what waits is known later (`find`)."""
        if key[:1] == PAGES:
            self.numbers.restore(key, value)
        else:
            number = int.from_bytes(key[1:])
            self._add(number, value)
            self._last = max(self._last, number)

    def find(self, live: Iterable[Interval], hand: Iterable[Interval]) -> None:
        """What waits and what is in hand, where all of it is known by now."""
        for where in live:
            for _, key in self._of(where):
                key.items += 1
        for where in hand:
            for position, key in self._of(where):
                self.hand[position] = key
                key.held += 1
        for where in self._ready:
            for position, key in self._of(where):
                key.waits.append(self._rank(position))
        for where, _ in self._delays if self._in_order else ():
            for position, key in self._of(where):
                if key.ordered:
                    key.waits.append(self._rank(position))
        for key in list(self._keys.values()):
            if key.number and not key.items:
                self._drop(key)
                continue
            heapify(key.waits)
            self._look(key)

    def check(self, live: Iterable[Interval], hand: Iterable[Interval]) -> None:
        """Asserts that limits hold, and that what may go on is what the sets say."""
        assert sorted(self.hand) == [place for one in sorted(hand) for place in one]
        held: dict[int, int] = {}
        items: dict[int, int] = {}
        for where in live:
            for position, key in self._of(where):
                items[key.number] = items.get(key.number, 0) + 1
                held[key.number] = held.get(key.number, 0) + (position in self.hand)
        waits: dict[int, list[int]] = {}
        for where in [*self._ready, *[one for one, _ in self._delays]]:
            for position, key in self._of(where):
                if key.ordered or position in self._ready:
                    waits.setdefault(key.number, []).append(self._rank(position))
        assert set(self._keys) == {NO_KEY, *[one for one, count in items.items() if count]}
        for number, key in self._keys.items():
            assert (key.items, key.held) == (items.get(number, 0), held.get(number, 0))
            some = sorted(waits.get(number, []))
            assert set(some) <= set(key.waits), "something waits and is not known to"
            goes = (
                some and key.held < key.most and not key.rests and some[0] & _PLACE in self._ready
            )
            assert (key.entry is not None) == bool(goes), "a key is held up, or goes on, wrongly"
            if key.entry is not None:
                assert key.entry == (key.held if self._fair else 0, some[0], number)
                assert key.entry in self._open


def _record(number: int) -> bytes:
    return NAME + number.to_bytes(8)
