"""Batches that were put with a `hold`: safe as any other, and not in the queue yet.

1. A batch's bodies lie at a place of its own, above all positions, and stay there when it is
   published. No place is given twice.
2. What nobody publishes in its time is dropped: its bodies are erased. What is of a transaction is
   not: it is known then that its home is to be asked.
3. What no copy can be read of any more is not staged any more.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from snowmelt.core.ahead import Count, Number
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.state.batches import SPREAD, StoredBatch
from snowmelt.protocols.queue.state.blocks import STAGED, Term
from snowmelt.protocols.queue.state.transactions import TransactionName

KIND: Final = b"w"
NEXT: Final = KIND
"""The key of the record that tells which place is next."""
LOOK_EVERY: Final = 10**9
"""At most: a look goes through all of them."""
_NEVER: Final = 1 << 63
_ENCODE: Final = msgspec.msgpack.Encoder().encode


class StagedBatch(msgspec.Struct, frozen=True, array_like=True):
    """One batch that waits; this is also its record."""

    stop: Count
    size: Count
    term: Term
    due: Number
    """When its items are due, by the wall clock; 0 for at once."""
    until: Number
    """When it is dropped."""
    priority: Count | bytes = 0
    """Or the keys of its items."""
    owner: str = ""
    """The user whose producer put it: no other user publishes it."""
    names: bytes = b""
    """The keys of its items, where the queue asks for them (`by_key.py`)."""
    of: TransactionName | None = None
    """By which it is published, or dropped (`transactions.py`)."""


_DECODE: Final = msgspec.msgpack.Decoder(StagedBatch).decode


class StagedBatches:
    """All that wait, by their places.

    >>> staged = StagedBatches({}, over := [])
    >>> batch = staged.keep(3, StagedBatch(0, 300, 1, due=0, until=1000))
    >>> staged.items, batch.place == Interval(STAGED, STAGED + 3)
    (3, True)
    >>> staged.drop(1000), staged.items, over == [batch.place]
    ([], 0, True)
    """

    def __init__(self, changed: dict[bytes, None], over: list[Interval]) -> None:
        self.items = 0
        """How many items wait."""
        self._changed = changed
        self._over = over
        self._held: dict[int, StagedBatch] = {}
        self._of: dict[TransactionName, dict[int, None]] = {}
        """The places of what is of a transaction."""
        self._next = STAGED
        self._earliest = _NEVER
        """None is dropped before this."""

    def __len__(self) -> int:
        return len(self._held)

    def named(self, place: int) -> StagedBatch | None:
        return self._held.get(place)

    def keep(self, count: int, held: StagedBatch, place: int = 0) -> StoredBatch:
        """One more (rule 1); at a place that it has, if it lies on data nodes."""
        at = place or self._next
        batch = StoredBatch(at, at + count, held.size, held.term)
        self._add(batch.start, msgspec.structs.replace(held, stop=batch.stop))
        self._changed[NEXT] = None
        self._changed[_key(batch.start)] = None
        return batch

    def _add(self, place: int, held: StagedBatch) -> None:
        self._held[place] = held
        self.items += held.stop - place
        if held.of is not None:
            self._of.setdefault(held.of, {})[place] = None
        if place < SPREAD:
            self._next = max(self._next, held.stop)
        self._earliest = min(self._earliest, held.until)

    def take(self, place: int) -> StagedBatch:
        held = self._held.pop(place)
        self.items -= held.stop - place
        self._changed[_key(place)] = None
        if held.of is not None:
            own = self._of[held.of]
            del own[place]
            if not own:
                del self._of[held.of]
        return held

    def has(self, name: TransactionName) -> bool:
        """Whether something waits that is of a transaction."""
        return name in self._of

    def give_up(self, name: TransactionName) -> None:
        """What is of a transaction, and was not published with it."""
        self._forget(list(self._of.get(name, ())))

    def drop(self, wall: int) -> list[TransactionName]:
        """Those whose time is over by then (rule 2). O(1) while there can be none."""
        if wall < self._earliest:
            return []
        over = [(place, held.of) for place, held in self._held.items() if held.until <= wall]
        self._forget([place for place, of in over if of is None])
        earliest = min((held.until for held in self._held.values()), default=_NEVER)
        self._earliest = max(earliest, wall + LOOK_EVERY)
        return list(dict.fromkeys([of for _, of in over if of is not None]))

    def lose(self, where: Interval) -> None:
        """Those of which bodies lay there (rule 3)."""
        self._forget([place for place in self._held if place in where])

    def _forget(self, places: list[int]) -> None:
        self._over += [Interval(place, self.take(place).stop) for place in places]

    @property
    def given(self) -> Interval:
        """Where all places are that were given."""
        return Interval(STAGED, self._next)

    @property
    def next_end(self) -> int | None:
        """When something may be over; None while nothing waits."""
        return self._earliest if self._held else None

    def all(self) -> Iterator[StoredBatch]:
        for place, held in self._held.items():
            yield StoredBatch(place, held.stop, held.size, held.term)

    # --- as it is written down --------------------------------------------------------------------

    def keys(self) -> Iterator[bytes]:
        if self._next > STAGED:
            yield NEXT
        yield from map(_key, self._held)

    def record(self, key: bytes) -> bytes | None:
        """As it is written down; None for one that waits no more."""
        if key == NEXT:
            return _ENCODE(self._next)
        held = self._held.get(int.from_bytes(key[1:]))
        return None if held is None else _ENCODE(held)

    def restore(self, key: bytes, value: bytes) -> None:
        """From a record; that of the next place comes first."""
        if key == NEXT:
            self._next = msgspec.msgpack.decode(value, type=Count)
        else:
            place, held = int.from_bytes(key[1:]), _DECODE(value)
            self._add(Interval(place, held.stop).start, held)

    def begin_above(self, published: Iterable[StoredBatch]) -> None:
        """Which place is next could not be read: it is above all that are known."""
        stops = [one.place.stop for one in published if not one.spread]
        self._next = max([self._next, *stops])

    def check(self) -> None:
        """Asserts that the count is right."""
        assert self.items == sum(held.stop - place for place, held in self._held.items())
        assert all(held.stop <= self._next for at, held in self._held.items() if at < SPREAD)


def _key(place: int) -> bytes:
    return KIND + place.to_bytes(8)
