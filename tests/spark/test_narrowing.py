"""The pure part of exact selection, against sorting: whatever the keys, the ranks and the luck."""

from bisect import bisect_left, bisect_right
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snowmelt_lab.spark import narrowing
from snowmelt_lab.spark.narrowing import (
    Collect,
    FrameChanged,
    Gap,
    KeyCount,
    RankSearch,
    Sample,
    begun,
)

WIDTH = 8


def tallies_of(keys: list[int], cuts: list[int]) -> list[KeyCount]:
    """As the scan of a frame would count them."""
    counts = Counter(bisect_left(cuts, key) + bisect_right(cuts, key) for key in keys)
    return [KeyCount(counts[one], counts[one] * WIDTH) for one in range(2 * len(cuts) + 1)]


def inside(gaps: tuple[Gap, ...], key: int) -> bool:
    return any(
        (gap.low is None or gap.low < key) and (gap.high is None or key < gap.high) for gap in gaps
    )


def run(keys: list[int], ranks: list[int], memory: int, chance: Random) -> tuple[dict, int, int]:
    """What was found, in how many rounds, and the most keys that were brought at once."""
    search: RankSearch = begun(ranks, KeyCount(len(keys), len(keys) * WIDTH), memory)
    held = 0
    while wanted := search.wanted():
        there = sorted(key for key in keys if inside(wanted.gaps, key))
        if isinstance(wanted, Collect):
            held = max(held, len(there))
            search = search.collected(there)
        else:
            drawn = [key for key in there if chance.random() < wanted.share]
            held = max(held, len(drawn))
            cuts = search.cuts(drawn)
            search = search.counted(cuts, tallies_of(keys, cuts))
        assert search.rounds < 50
    return dict(search.found), search.rounds, held


columns = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=300),
    st.lists(st.integers(0, 3), min_size=1, max_size=300),
    st.integers(1, 300).map(lambda count: [7] * count),
    st.integers(1, 300).map(lambda count: [2**i for i in range(count)]),
)


@settings(deadline=None)
@given(columns, st.data(), st.randoms(use_true_random=False))
def test_every_rank_is_that_of_sorting_whatever_is_drawn(keys, data, chance):
    ranks = data.draw(st.lists(st.integers(1, len(keys)), max_size=5))
    memory = data.draw(st.sampled_from([WIDTH, 16 * WIDTH, 100 * WIDTH, 10**6]))
    found, _, _ = run(keys, ranks, memory, chance)
    assert found == {rank: sorted(keys)[rank - 1] for rank in ranks}


@settings(deadline=None)
@given(columns, st.data(), st.randoms(use_true_random=False))
def test_a_sample_that_misleads_costs_scans_and_nothing_else(keys, data, chance):
    """Only the greatest keys of the gaps are ever drawn."""
    ranks = data.draw(st.lists(st.integers(1, len(keys)), min_size=1, max_size=3))
    search = begun(ranks, KeyCount(len(keys), len(keys) * WIDTH), memory=WIDTH)
    while wanted := search.wanted():
        there = sorted(key for key in keys if inside(wanted.gaps, key))
        if isinstance(wanted, Collect):
            search = search.collected(there)
        else:
            cuts = search.cuts(there[-chance.randint(1, 9) :])
            search = search.counted(cuts, tallies_of(keys, cuts))
    assert dict(search.found) == {rank: sorted(keys)[rank - 1] for rank in ranks}


@pytest.mark.parametrize("ranks", [[1], [10_000], [20_000], [2_000 * i for i in range(1, 10)]])
def test_two_rounds_are_enough_as_a_rule_and_little_is_brought(monkeypatch, ranks):
    monkeypatch.setattr(narrowing, "ALL_AT_ONCE", 100)
    keys = Random(1).choices(range(10**9), k=20_000)
    found, rounds, held = run(keys, ranks, 10**5, Random(2))
    assert found == {rank: sorted(keys)[rank - 1] for rank in ranks}
    assert rounds == 1
    assert held < 12_500


def test_frequent_keys_are_found_by_the_first_count(monkeypatch):
    monkeypatch.setattr(narrowing, "ALL_AT_ONCE", 100)
    chance = Random(3)
    keys = [int(chance.paretovariate(0.5)) for _ in range(20_000)]
    for rank in (1, 5_000, 10_000):
        found, rounds, held = run(keys, [rank], 10**5, chance)
        assert (found[rank], rounds) == (sorted(keys)[rank - 1], 1)
        assert held < 2_500  # the sample alone


def test_memory_bounds_what_is_brought():
    keys = list(range(30_000))
    found, rounds, held = run(keys, [15_000, 29_000], 500 * WIDTH, Random(4))
    assert found == {15_000: 14_999, 29_000: 28_999}
    assert rounds <= 4
    assert held <= 500


def test_a_few_long_keys_are_brought_without_a_sample():
    assert isinstance(begun([1], KeyCount(16, 10**9), 100).wanted(), Collect)
    wanted = begun([1], KeyCount(17, 10**9), 100).wanted()
    assert wanted == Sample(wanted.gaps, 4 / 17)


def narrowed() -> RankSearch:
    """Rank 5 of ten keys, which lies among three."""
    search = begun([5], KeyCount(10, 80), 80)
    return search.counted(
        [30, 70], [KeyCount(2), KeyCount(1), KeyCount(3, 24), KeyCount(1), KeyCount(3)]
    )


def test_the_gap_of_a_rank_is_the_interval_it_was_counted_in():
    assert narrowed().gaps == (Gap(30, 70, 3, KeyCount(3, 24), (5,)),)
    assert narrowed().collected([40, 50, 60]).found == ((5, 50),)


@pytest.mark.parametrize(
    ("tallies", "words"),
    [
        ([2, 1, 1, 1, 1, 1, 2], "10 values in all, and 9 when"),
        ([3, 1, 1, 1, 1, 1, 2], "3 values before a gap, and 4 when"),
        ([2, 1, 1, 1, 0, 1, 4], "3 values in a gap, and 2 when"),
    ],
)
def test_counts_that_contradict_are_refused(tallies, words):
    with pytest.raises(FrameChanged, match=words):
        narrowed().counted([30, 50, 70], [KeyCount(one) for one in tallies])


@pytest.mark.parametrize("keys", [[40, 50], [40, 50, 60, 61]])
def test_a_gap_that_comes_with_other_keys_is_refused(keys):
    with pytest.raises(FrameChanged, match="3 values in the gaps"):
        narrowed().collected(keys)
