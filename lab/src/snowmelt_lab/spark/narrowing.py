"""Exact ranks of a column that nobody sorts: what to ask in each scan, and what follows from it.

Theory of operation ------------------- KSelect's second and third phase ("Skeap & Seap", section
4), for a frame of Spark in place of an overlay. It samples, counts between elements of the sample,
narrows, and collects what is left. This module is the pure part and knows no Spark. It says what
the next scan is to bring.

1. *Order.* Keys are compared as Python compares them; all that are not null count, equal ones each.
   The rank of a key is not unique, so ties need no ids: all equal keys are the same answer.
2. *Gaps.* A gap is the open interval between two keys in which a rank is still looked for. It is
   known exactly how many keys lie before it and in it. At first there is one, of all keys.
3. *Sample.* When the gaps hold too much to be brought to the driver, a share of them is: each key
   with the same chance, 2 c^(2/3) of c keys, fewer where they are long. More would cost more to
   bring than it saves of rule 6.
4. *Cuts.* A rank with x of its gap's keys before it stands at x m of a sample of m, with a standard
   deviation of sqrt(m x (1-x)). The keys 3 deviations and one place to each side are its cuts. A
   key that the sample has twice where the rank should be is a cut, too: so are frequent ones found.
   Where the sample ends before either side, the key nearest to the rank is the only one.
5. *Count.* One scan counts the keys at each cut and between all of them. A rank at a cut is found:
   the cut is its key. Any other is in exactly one open interval, which is its next gap. A gap that
   is far larger than it should be, since the sample misled, is still the right one: so whatever was
   drawn, the answer is exact, and only the number of scans is left to chance. Three deviations miss
   once in 370.
6. *Collect.* When the keys of all gaps fit, they are brought and sorted; the rank is an index.
   They fit when they take no more than the memory said, and, as long as nothing was narrowed, when
   they are so few that a sample would not pay. At most 16 keys always fit, however long.
7. *Ending.* A cut is a key of its gap, and out of all later gaps. So each round with a cut makes
   the gaps smaller, whatever keys there are; by rule 4 to some c^(2/3) of c keys, as a rule.
8. *Contradictions.* A frame may have other rows each time it is computed. Each count is of all
   keys, so only the last one and the collection must be of the same: how many keys there are in a
   gap and a sum of their hashes have to agree. So must the numbers of keys in all, and those before
   and in each gap, with what was counted before. Else the frame is refused.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from math import ceil, floor, sqrt
from typing import Any, Final, Protocol

import msgspec

from snowmelt.core.errors import CallerError

DEVIATIONS: Final = 3.0
ALL_AT_ONCE: Final = 1 << 21
"""So many keys are brought without a sample (rule 6)."""
FEW: Final = 16
"""So many are brought however long they are."""
SAMPLE_MIN: Final = 4
"""Fewer might be none."""
AGAIN: Final = (
    "when it was computed again: it is another each time, and no rank in it is exact;"
    " persist() it, or write it down"
)
OTHERS: Final = f"others {AGAIN}"

Key = Any
"""Whatever can be compared: whole numbers, floats but NaN, decimals, bytes."""


class FrameChanged(CallerError):
    """A frame of Spark had other rows when it was computed again: nothing in it is exact."""


class SortedKeys(Protocol):
    """Sorted keys; only few of them are looked at."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> Key: ...


class KeyCount(msgspec.Struct, frozen=True):
    count: int = 0
    size: int = 0
    mark: int | None = None
    """A sum of their hashes, where there is one (rule 8)."""


class Gap(msgspec.Struct, frozen=True):
    """The keys between two others, which are not in it; None is no bound (rule 2)."""

    low: Key | None
    high: Key | None
    before: int
    """How many keys are less than those of the gap."""
    inside: KeyCount
    ranks: tuple[int, ...]
    """Those looked for in it, from 1 on among all keys."""


class Sample(msgspec.Struct, frozen=True):
    """Bring this share of the keys in the gaps."""

    gaps: tuple[Gap, ...]
    share: float


class Collect(msgspec.Struct, frozen=True):
    gaps: tuple[Gap, ...]


class RankSearch(msgspec.Struct, frozen=True):
    """What is known. Frozen: each scan makes another one."""

    total: int
    memory: int
    gaps: tuple[Gap, ...]
    found: tuple[tuple[int, Key], ...] = ()
    rounds: int = 0
    """How often was counted between cuts."""

    def wanted(self) -> Sample | Collect | None:
        """What the next scan is to bring; None when all ranks are found (rules 3 and 6)."""
        if not self.gaps:
            return None
        count = sum(gap.inside.count for gap in self.gaps)
        size = sum(gap.inside.size for gap in self.gaps)
        fits = size <= self.memory and (self.rounds > 0 or count <= ALL_AT_ONCE)
        if fits or count <= FEW:
            return Collect(self.gaps)
        sample = min(2 * count ** (2 / 3), self.memory / 2 / (size / count))
        return Sample(self.gaps, min(1.0, max(SAMPLE_MIN, sample) / count))

    def cuts(self, sample: SortedKeys) -> list[Key]:
        """Where to count: bounds of gaps and keys of a sorted sample, in order (rule 4)."""
        return sorted({cut for gap in self.gaps for cut in _cuts(gap, sample)})

    def counted(self, cuts: Sequence[Key], tallies: Sequence[KeyCount]) -> "RankSearch":
        """Count 2i is of the keys between cuts i-1 and i, count 2i+1 of those at cut i (rule 5)."""
        self._checked(cuts, tallies)
        ranks = sorted(rank for gap in self.gaps for rank in gap.ranks)
        gaps, found = [], list(self.found)
        before = 0
        for bucket, tally in enumerate(tallies):
            here = tuple(
                ranks[bisect_right(ranks, before) : bisect_right(ranks, before + tally.count)]
            )
            cut, at_cut = divmod(bucket, 2)
            if here and at_cut:
                found += [(rank, cuts[cut]) for rank in here]
            elif here:
                low, high = cuts[cut - 1] if cut else None, cuts[cut] if cut < len(cuts) else None
                gaps.append(Gap(low, high, before, tally, here))
            before += tally.count
        return msgspec.structs.replace(
            self, gaps=tuple(gaps), found=tuple(found), rounds=self.rounds + 1
        )

    def _checked(self, cuts: Sequence[Key], tallies: Sequence[KeyCount]) -> None:
        """Against what is known of each gap, and of all (rule 8)."""
        upto = [0]
        for tally in tallies:
            upto.append(upto[-1] + tally.count)
        _same(self.total, upto[-1], "in all")
        for gap in self.gaps:
            first = 0 if gap.low is None else upto[2 * bisect_left(cuts, gap.low) + 2]
            end = upto[-1] if gap.high is None else upto[2 * bisect_left(cuts, gap.high) + 1]
            _same(gap.before, first, "before a gap")
            _same(gap.inside.count, end - first, "in a gap")

    def collected(self, keys: SortedKeys, mark: int = 0) -> "RankSearch":
        """All keys of the gaps, sorted, and the sum of their hashes (rules 6 and 8)."""
        _same(sum(gap.inside.count for gap in self.gaps), len(keys), "in the gaps")
        marks = [gap.inside.mark for gap in self.gaps if gap.inside.mark is not None]
        if marks and sum(marks) != mark:
            raise FrameChanged(f"the frame had {len(keys)} values in the gaps, and {OTHERS}")
        found = list(self.found)
        start = 0
        for gap in self.gaps:
            first, end = _within(gap, keys)
            _same(gap.inside.count, end - first, "in a gap")
            assert first == start, f"gaps in order: {first} is not {start}"
            found += [(rank, keys[start + rank - gap.before - 1]) for rank in gap.ranks]
            start = end
        return msgspec.structs.replace(self, gaps=(), found=tuple(found))


def begun(ranks: Iterable[int], keys: KeyCount, memory: int) -> RankSearch:
    """A search for some ranks, from 1 to the number of keys.

    >>> search = begun([2, 5], KeyCount(6, 48), memory=1000)
    >>> search.wanted() == Collect(search.gaps)
    True
    >>> search.collected([10, 11, 11, 12, 15, 19]).found
    ((2, 11), (5, 15))
    """
    wanted = tuple(sorted(set(ranks)))
    assert not wanted or 1 <= wanted[0] <= wanted[-1] <= keys.count, f"{wanted} of {keys}"
    return RankSearch(keys.count, memory, (Gap(None, None, 0, keys, wanted),) if wanted else ())


def _cuts(gap: Gap, sample: SortedKeys) -> Iterable[Key]:
    """Of one gap: its bounds, and up to three keys of the sample for each rank (rule 4)."""
    yield from (bound for bound in (gap.low, gap.high) if bound is not None)
    first, end = _within(gap, sample)
    drawn = end - first
    if not drawn:
        return
    for rank in gap.ranks:
        share = (rank - gap.before - 0.5) / gap.inside.count
        margin = DEVIATIONS * sqrt(drawn * share * (1 - share)) + 1
        low, high = floor(drawn * share - margin), ceil(drawn * share + margin)
        middle = first + min(floor(drawn * share), drawn - 1)
        if low >= 0:
            yield sample[first + low]
        if high < drawn:
            yield sample[first + high]
        if (low < 0 and high >= drawn) or _again(sample, middle, first, end):
            yield sample[middle]


def _again(sample: SortedKeys, place: int, first: int, end: int) -> bool:
    """Whether a neighbour in the same gap has the same key."""
    here = sample[place]
    return (place > first and sample[place - 1] == here) or (
        place + 1 < end and sample[place + 1] == here
    )


def _within(gap: Gap, keys: SortedKeys) -> tuple[int, int]:
    """From where to where sorted keys lie in a gap."""
    first = 0 if gap.low is None else bisect_right(keys, gap.low)
    return first, len(keys) if gap.high is None else bisect_left(keys, gap.high)


def _same(known: int, told: int, where: str) -> None:
    if known != told:
        raise FrameChanged(f"the frame had {known} values {where}, and {told} {AGAIN}")
