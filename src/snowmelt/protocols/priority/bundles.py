"""What many stretches of a row have together: a lease of some of each put, or its end. One record.

Rules
-----
1. What is said of many stretches at once, of which nothing is known that is as late, is one record,
   a *bundle*, written once. What is said later of a part of it has a record of its own, and counts
   as what is later always does (shelf, rule 2). So it need not be written again when that happens.
2. A bundle is erased when nothing of it counts any more: all of it is gone, or something later was
   said of it. The records of that are written by then, or in the same piece.
3. Where a bundle says that its elements are gone, the account of what is gone joins them at once in
   memory, and on the disk a little later, when the next records of `FOLDED` stretches have come:
   then the account's own records are written, and these bundles erased, in one piece. Stretches of
   one put, one got after the other, are one piece of the account by then. What joins a piece that
   is to be written just now is written with it: alone that piece has no record any more.
4. After a start the account is written with the first write there is.
5. A lease of what nothing was said of is a bundle whose stretches are entered when somebody looks;
   mostly all of it is gone by then (`wholes.py`).
"""

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

from snowmelt.core.interval import POSITION_MAX, Interval
from snowmelt.core.pieces import Edges, Pieces
from snowmelt.core.spans import stepped, steps
from snowmelt.protocols.priority.standing import Standing

BUNDLE: Final = b"t/"
FOLDED: Final = 4_096

_Step = Annotated[int, msgspec.Meta(ge=0, le=POSITION_MAX)]
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(tuple[list[_Step], Standing]).decode


class Bundle(msgspec.Struct, eq=False):
    """Some stretches of which the same was said."""

    number: int
    intervals: tuple[Interval, ...]
    standing: Standing
    size: int
    """How many elements."""
    left: int
    """Of how many of them nothing later is known; 0 where it says that they are gone."""
    steps: msgspec.Raw | None = None
    """How the stretches are written, once they are."""


class Bundles:
    """Those of one row.

    >>> changed: dict[bytes, None] = {}
    >>> bundles = Bundles(b"", changed, b"")
    >>> where = (Interval(0, 2), Interval(5, 9))
    >>> bundles.add(where, Edges.of(where), Standing(1, 1, 2, 7))
    >>> bundles.clear(Interval(1, 6)), [one.left for one in bundles.all.values()]
    (None, [4])
    >>> number, = bundles.all
    >>> unpacked(bundles.record(number))[0] == where, len(changed)
    (True, 1)
    """

    def __init__(self, name: bytes, changed: dict[bytes, None], account: bytes) -> None:
        self._kind = BUNDLE + name
        self._account = account
        self._changed = changed
        self._next = 0
        self.all: dict[int, Bundle] = {}
        self.pieces: Pieces[Bundle] = Pieces()
        """What still counts of those that say what stands somewhere."""
        self._late: dict[bytes, None] = {}
        """Which of the account's records are not as they should be (rule 3)."""
        self._ended: list[int] = []
        self._folds = FOLDED

    def record(self, number: int) -> bytes | None:
        """What is written under a number; None when it is to be erased."""
        bundle = self.all.get(number)
        if bundle is None:
            return None
        if bundle.steps is None:
            bundle.steps = msgspec.Raw(_ENCODE(steps(bundle.intervals)))
        return _ENCODE((bundle.steps, bundle.standing))

    # --- what stands ------------------------------------------------------------------------------

    def add(self, intervals: tuple[Interval, ...], edges: Edges, standing: Standing) -> None:
        """This is said of them, of which there is nothing here."""
        self.enter(self.begin(intervals, edges, standing), edges)

    def begin(self, intervals: tuple[Interval, ...], edges: Edges, standing: Standing) -> Bundle:
        """The same, to be entered later (`wholes.py`)."""
        size = sum(edges.stops) - sum(edges.starts)
        bundle = self.all[self._next] = Bundle(self._next, intervals, standing, size, 0)
        self._changed[self._key(bundle.number)] = None
        self._next += 1
        return bundle

    def enter(self, bundle: Bundle, edges: Edges) -> None:
        """It counts, where its stretches are."""
        bundle.left = bundle.size
        self.pieces.fill(edges, bundle)

    def say(self, bundle: Bundle, standing: Standing) -> None:
        """Something else is said of all of one that is not entered."""
        bundle.standing = standing
        self._changed[self._key(bundle.number)] = None

    def restore(self, number: int, intervals: tuple[Interval, ...], standing: Standing) -> Bundle:
        """One as it was written: what still counts of it is the caller's to `keep`."""
        self._next = max(self._next, number + 1)
        size = sum([one.size for one in intervals])
        bundle = self.all[number] = Bundle(number, intervals, standing, size, 0)
        return bundle

    def keep(self, bundle: Bundle, interval: Interval) -> None:
        bundle.left += interval.size
        self.pieces.put(interval, bundle)

    def common(self, interval: Interval) -> list[tuple[Interval, Standing]]:
        """What bundles say of the parts of an interval."""
        return [(part, bundle.standing) for part, bundle in self.pieces.common(interval)]

    def whole(self, intervals: tuple[Interval, ...]) -> Bundle | None:
        """The bundle of just these, if all of it counts."""
        first = self.pieces.common(intervals[0])
        if not first:
            return None
        bundle = first[0][1]
        return bundle if bundle.left == bundle.size and bundle.intervals == intervals else None

    def clear(self, interval: Interval) -> None:
        """Something else is known of these (rule 2)."""
        parts = self.pieces.common(interval)
        for part, bundle in parts:
            self._less(bundle, part.size)
        if parts:
            self.pieces.clear(interval)

    def clear_all(self, edges: Edges) -> None:
        for bundle, size in self.pieces.take(edges):
            self._less(bundle, size)

    def drop(self, bundle: Bundle) -> None:
        """It is not to be on the disk any more."""
        del self.all[bundle.number]
        self._changed[self._key(bundle.number)] = None

    def _less(self, bundle: Bundle, size: int) -> None:
        bundle.left -= size
        if not bundle.left:
            self.drop(bundle)

    # --- what is gone -----------------------------------------------------------------------------

    def end(
        self,
        intervals: tuple[Interval, ...],
        edges: Edges,
        standing: Standing,
        late: Iterable[int],
    ) -> None:
        """These are gone; and where the account's records say less than that by now (rule 3)."""
        self.account([self.begin(intervals, edges, standing).number], len(intervals), late)

    def account(self, numbers: Iterable[int], stretches: int, late: Iterable[int]) -> None:
        """The account knows what these say, which are of so many stretches (rule 3)."""
        keys = {self._account + one.to_bytes(8): None for one in late}
        if not keys.keys().isdisjoint(self._changed):  # they have joined what no record has yet
            self._changed.update(keys)
        self._ended += numbers
        self._late.update(keys)
        self._folds -= stretches
        if self._folds <= 0:
            self._changed.update(self._late)
            for number in self._ended:
                self.drop(self.all[number])
            self._late, self._ended, self._folds = {}, [], FOLDED

    def _key(self, number: int) -> bytes:
        return self._kind + number.to_bytes(8)


def packed(intervals: tuple[Interval, ...], standing: Standing) -> bytes:
    """The record: from each edge to the next, and what stands there.

    >>> unpacked(packed((Interval(7, 9), Interval(12, 13)), Standing(1, 2, 0)))[0]
    (Interval(start=7, stop=9), Interval(start=12, stop=13))
    """
    return _ENCODE((steps(intervals), standing))


def unpacked(record: bytes) -> tuple[tuple[Interval, ...], Standing]:
    """The same; `ValueError` for what no `packed` made.

    >>> unpacked(_ENCODE(([7, 0], Standing(1, 2, 0))))
    Traceback (most recent call last):
    ValueError: these are no stretches: [7, 0]...
    """
    row, standing = _DECODE(record)
    intervals = stepped(row)
    if len(row) % 2 or sum(row) > POSITION_MAX or Edges.of(intervals) is None:
        raise ValueError(f"these are no stretches: {row[:8]}...")
    return tuple(intervals), standing
