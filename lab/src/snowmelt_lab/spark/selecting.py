"""The exact k-th smallest values of a frame's column, without a sort and without a shuffle.

`narrowing.py` says what each scan is to bring; here are the scans. All are Spark's own expressions,
which it compiles into one loop over the rows; measured against the same in Python over Arrow
batches, that is two to four times as fast. What comes to the driver comes as Arrow and stays so:
keys are sorted there, and only those that are looked at become Python's. Nothing needs more than a
frame: it works through Spark Connect, too.

1. *Scans.* The first counts: keys, NaN, nulls, bytes. Then, by what is wanted: bring a share of
   the keys in the gaps, count at and between cuts, bring all keys in the gaps. No row is moved but
   those that are brought; of counts two a cut and partition.
2. *Cuts.* Which bucket a key is in is a tree of comparisons, so a key costs the logarithm of the
   number of cuts. Its code grows with their number: many are counted in several scans.
3. *NaN* is the greatest: the ranks beyond all keys are those of NaN.
4. *Memory.* The driver holds a sample or what is collected, each no larger than `memory` (rule 6 of
   `narrowing.py`). A sample is half of that in the mean, and chance is not off by as much again. To
   sort it takes twice as much more.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil, nan
from numbers import Integral, Real
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # Spark's own word

from snowmelt.core.errors import BadOption
from snowmelt_lab.spark.keys import Key, KeyType, key_type
from snowmelt_lab.spark.narrowing import Collect, Gap, KeyCount, RankSearch, Sample, begun

MEMORY: Final = 64 << 20
MEMORY_MIN: Final = 1 << 16
RANKS_MAX: Final = 200
CUTS_MAX: Final = 64
"""Of one scan (rule 2)."""
KEY: Final = "key"
MARK: Final = "mark"

Read = TypeVar("Read")


class Selected(msgspec.Struct, frozen=True):
    """What was asked for, in the order of the question, and what it took.

    It can be looped over and indexed like a list of the values.
    """

    values: tuple[Any, ...]
    ranks: tuple[int, ...]
    """Of the values, from 1 on."""
    count: int
    """How many values the column has, NaN among them and nulls not."""
    nulls: int
    scans: int
    """How often the frame was computed."""
    brought: int
    """How many values were brought to the driver, in all."""
    held: int
    """Of these, the most bytes at a time."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __getitem__(self, place: int) -> Any:
        return self.values[place]

    def __len__(self) -> int:
        return len(self.values)


def select(df: DataFrame, column: str, k: Sequence[int], *, memory: int = MEMORY) -> Selected:
    """The k-th smallest values of a column, exactly, for each k from 1 to the number of its values.

    Nulls are left out; NaN is greater than all other floats. The driver holds `memory` bytes of
    values at most, and some three times that while it sorts them. The frame is computed some four
    times: `persist()` it where that is dear. Refused are streams, and frames that have other rows
    each time (`FrameChanged`).

        few = spark.sql("select explode(array(5, 3, null, 9, 3)) as v")
        list(select(few, "v", k=[1, 2, 4]))  # [3, 3, 9]
    """
    ranks = _asked("k", k, "whole numbers from 1 on", _rank)
    return _selected(df, column, memory, lambda count: _within("k", ranks, ranks, count))


def quantiles(df: DataFrame, column: str, q: Sequence[float], *, memory: int = MEMORY) -> Selected:
    """The q-quantiles of a column, exactly: the least value that has a share of q up to it.

    So 0 is the least value, 0.5 the (lower) median, 1 the greatest; always a value of the column,
    as `percentile_disc` has it. A q is taken as it is written: of 100 values 0.07 is the seventh.
    All else is as with `select`.

        squares = spark.range(1, 101).selectExpr("id * id as square")
        list(quantiles(squares, "square", q=[0, 0.07, 0.5, 1]))  # [1, 49, 2500, 10000]
    """
    shares = _asked("q", q, "numbers from 0 to 1", _share)
    return _selected(
        df,
        column,
        memory,
        lambda count: _within("q", [max(1, ceil(one * count)) for one in shares], q, count),
    )


def _rank(one: object) -> int | None:
    number = int(one) if isinstance(one, Integral) else 0
    return number if number >= 1 and not isinstance(one, bool) else None


def _share(one: object) -> Fraction | None:
    """Exactly what is written, not the nearest float to it."""
    number = float(one) if isinstance(one, Real) else -1.0
    return Fraction(repr(number)) if 0 <= number <= 1 and not isinstance(one, bool) else None


def _asked(
    option: str, asked: object, allowed: str, read: Callable[[object], Read | None]
) -> list[Read]:
    """A list, and not too long a one, of what can be read; else refused by name."""
    if isinstance(asked, str) or not isinstance(asked, Iterable):
        raise BadOption(option, asked, f"a list of {allowed}, as [{asked}]")
    found = []
    for one in asked:
        known = read(one)
        if known is None:
            raise BadOption(option, one, allowed)
        found.append(known)
    if len(found) > RANKS_MAX:
        raise BadOption(f"len({option})", len(found), f"up to {RANKS_MAX} at once")
    return found


def _within(option: str, ranks: Sequence[int], said: Sequence[object], count: int) -> Sequence[int]:
    """The ranks, if the column has so many values."""
    for rank, one in zip(ranks, said, strict=True):
        if rank > count:
            allowed = f"1 to {count}, as the column has" if count else "none: the column has no"
            raise BadOption(option, one, f"{allowed} values that are not null")
    return ranks


def _selected(
    df: DataFrame, column: str, memory: int, ranks_of: Callable[[int], Sequence[int]]
) -> Selected:
    """Scans until nothing more is wanted."""
    if df.isStreaming:
        raise BadOption("df", "a stream", "a frame that ends; each batch of foreachBatch is one")
    if memory < MEMORY_MIN:
        raise BadOption("memory", memory, f"{MEMORY_MIN} bytes or more")
    frame = df.select(F.col(column).alias("value"))
    of = key_type(column, frame.schema["value"].dataType)
    scans = _Scans(frame.select(of.of(F.col("value")).alias(KEY)), of)
    keys, nans, nulls = scans.begun()
    count = keys.count + nans
    ranks = ranks_of(count)
    search = begun([rank for rank in ranks if rank <= keys.count], keys, memory)
    while wanted := search.wanted():
        search = scans.narrowed(search, wanted)
    found = {rank: of.value(key) for rank, key in search.found}
    values = tuple(found.get(rank, nan) for rank in ranks)
    return Selected(values, tuple(ranks), count, nulls, scans.done, scans.brought, scans.held)


class _Scans:
    """Each call of a method is a scan of the frame, or some."""

    def __init__(self, frame: DataFrame, of: KeyType) -> None:
        self._of = of
        self._key = frame[KEY]
        proper = self._key.isNotNull()
        if of.nan:
            proper &= ~F.isnan(self._key)
        self._all = frame
        self._keys = frame.where(proper)
        self.done = 0
        self.brought = 0
        self.held = 0

    def begun(self) -> tuple[KeyCount, int, int]:
        """Of all keys, and the numbers of NaN and nulls."""
        self.done += 1
        nans = F.count_if(F.isnan(self._key)) if self._of.nan else F.lit(0)
        told = self._all.agg(
            F.count(F.lit(1)).alias("rows"),
            F.count(self._key).alias("count"),
            F.coalesce(self._size(), F.lit(0)).alias("size"),
            nans.alias("nans"),
        ).collect()[0]
        keys = told["count"] - told["nans"]
        return self._tally(keys, told["size"]), told["nans"], told["rows"] - told["count"]

    def narrowed(self, search: RankSearch, wanted: Sample | Collect) -> RankSearch:
        """By what is wanted; a sample is followed by the count that it is for."""
        inside = self._inside(wanted.gaps)
        if isinstance(wanted, Collect):
            marked = inside.withColumn(MARK, self._mark()) if search.rounds else inside
            keys = self._brought(marked)
            return search.collected(keys, keys.mark)
        share = inside if wanted.share >= 1 else inside.sample(False, wanted.share, self.done)
        cuts = search.cuts(self._brought(share))
        return search.counted(cuts, self._counted(cuts))

    def _inside(self, gaps: Sequence[Gap]) -> DataFrame:
        bounds = sorted({one for gap in gaps for one in (gap.low, gap.high) if one is not None})
        if not bounds:
            return self._keys
        pairs = {(gap.low, gap.high) for gap in gaps}
        edges = [None, *bounds, None]
        leaves = [False] * (2 * len(bounds) + 1)
        leaves[::2] = [pair in pairs for pair in pairwise(edges)]
        return self._keys.where(self._tree(bounds, leaves))

    def _brought(self, keys: DataFrame) -> "_Keys":
        self.done += 1
        table = keys.toArrow()
        self.brought += len(table)
        self.held = max(self.held, table.nbytes)
        return _Keys(table)

    def _counted(self, cuts: Sequence[Key]) -> list[KeyCount]:
        """At each cut and between all; groups of cuts overlap by one, which joins them (rule 2)."""
        tallies = self._counted_at(cuts[:CUTS_MAX])
        for start in range(CUTS_MAX, len(cuts), CUTS_MAX):
            tallies[-1:] = self._counted_at(cuts[start - 1 : start + CUTS_MAX])[2:]
        return tallies

    def _counted_at(self, cuts: Sequence[Key]) -> list[KeyCount]:
        self.done += 1
        tallies = [KeyCount()] * (2 * len(cuts) + 1)
        buckets = self._keys.groupBy(self._tree(cuts, range(len(tallies))).alias("bucket"))
        counts = buckets.agg(
            F.count(F.lit(1)).alias("count"),
            self._size().alias("size"),
            F.sum(self._mark()).alias("mark"),
        )
        for row in counts.collect():
            tallies[row["bucket"]] = self._tally(row["count"], row["size"], row["mark"])
        return tallies

    def _tree(self, cuts: Sequence[Key], leaves: Sequence[int]) -> Column:
        """The leaf of a key: 2i is between cut i-1 and cut i, 2i+1 at cut i."""

        def of(first: int, last: int) -> Column:
            if all(leaves[place] == leaves[first] for place in range(first, last + 1)):
                return F.lit(leaves[first])
            middle = (first + last) // 2
            cut = self._of.literal(cuts[middle // 2])
            test = self._key <= cut if middle % 2 else self._key < cut
            return F.when(test, of(first, middle)).otherwise(of(middle + 1, last))

        return of(0, len(leaves) - 1)

    def _size(self) -> Column:
        """All bytes of keys whose length varies."""
        return F.sum(F.octet_length(self._key)) if self._of.width is None else F.lit(0)

    def _mark(self) -> Column:
        """Twenty bits of hash: no sum of them overflows."""
        return F.hash(self._key).bitwiseAND(0xFFFFF)

    def _tally(self, count: int, size: int, mark: int | None = None) -> KeyCount:
        """With what Arrow adds to a key: its mark, and where it ends if lengths vary."""
        own = size + 4 * count if self._of.width is None else self._of.width * count
        return KeyCount(count, own + 4 * count, mark)


class _Keys:
    """Sorted keys that stay Arrow's until they are looked at."""

    def __init__(self, table: pa.Table) -> None:
        self._sorted = table.column(KEY).combine_chunks().sort()
        marks = table.column(MARK).combine_chunks() if MARK in table.column_names else pa.array([0])
        self.mark: int = marks.sum(min_count=0).as_py()
        """The sum of their hashes, where they came with them."""

    def __len__(self) -> int:
        return len(self._sorted)

    def __getitem__(self, place: int) -> Key:
        key: Key = self._sorted[place].as_py()
        return key
