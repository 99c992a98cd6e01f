"""Blocks of batches: as a list of all positions would have it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.protocols.queue.state.batches import (
    BLOCK_BATCHES,
    BLOCK_ITEMS,
    STAGED,
    Batches,
    StoredBatch,
)


def filled(counts, staged=()):
    """Batches of so many items; of those staged the bodies lie in another order, far above."""
    batches, at, place = Batches({}), 0, STAGED + sum(counts)
    for number, count in enumerate(counts):
        shift = 0
        if number in staged:
            place -= count
            shift = place - at
        batches.add(StoredBatch(at, at + count, 10 * count, 1, shift))
        at += count
    return batches, at


@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=2 * BLOCK_BATCHES + 20),
    st.sets(st.integers(0, 2 * BLOCK_BATCHES)),
    st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 300)), max_size=20),
)
@settings(deadline=None, max_examples=40)
def test_what_ends_is_told_once_and_the_rest_is_told_again(counts, staged, ends):
    batches, stop = filled(counts, staged)
    places = IntervalSet([batch.place for batch in batches.all()])
    live, over = set(range(stop)), IntervalSet()
    for first, size in ends:
        start, end = min(first, stop), min(first + size, stop)
        gone = batches.end(Interval(start, end))
        live -= set(range(start, end))
        assert all(not over.common(one) for one in gone)
        over.add_all(gone)
        batches.check()
    left = [batch.place for batch in batches.all()]
    assert IntervalSet([*left, *over]) == places
    assert sum(one.size for one in left) + over.total == places.total
    living = IntervalSet([Interval(one, one + 1) for one in live])
    assert (batches.live, batches.live.total) == (living, living.total)
    for first, size in ends:
        where = Interval(first, first + size)
        assert batches.live.common(where) == living.common(where)
        assert (first in batches.live) == (first in living)
    assert batches.bytes == 10 * len(live)
    told = Batches({})
    for key in batches.keys():  # noqa: SIM118
        told.restore(key, batches.record(key))
    assert (told.live, told.bytes) == (batches.live, batches.bytes)
    assert list(told.all()) == list(batches.all())


def test_a_scattered_block_is_told_in_a_bit_for_each_position():
    batches, _ = filled([BLOCK_ITEMS])
    for at in range(0, BLOCK_ITEMS, 2):
        batches.end(Interval(at, at + 1))
    (key,) = batches.keys()
    assert len(batches.record(key)) < BLOCK_ITEMS // 8 + 100
    told = Batches({})
    told.restore(key, batches.record(key))
    assert told.live == batches.live


def test_a_step_writes_the_block_that_it_touched_whatever_there_is():
    batches, stop = filled([1] * 10_000)
    batches._changed.clear()
    batches.end(Interval(4_321, 4_322))
    (key,) = batches._changed
    assert len(batches.record(key)) < 1_000
    assert stop == 10_000


def test_a_place_of_its_own_costs_six_bytes_and_nothing_where_there_is_none():
    counts = [1] * BLOCK_BATCHES
    (put,), (published,) = [
        [batches.record(key) for key in batches.keys()]  # noqa: SIM118
        for batches, _ in (filled(counts), filled(counts, range(BLOCK_BATCHES)))
    ]
    assert len(put) <= 2 * BLOCK_BATCHES + 11
    assert len(published) <= len(put) + 6 * BLOCK_BATCHES


def test_the_first_of_several_batches_by_items_by_bytes_and_by_batches():
    batches = Batches({})
    for start, stop, size in ((0, 1, 10), (1, 2, 10), (2, 6, 400), (6, 7, 10), (9, 10, 10)):
        batches.add(StoredBatch(start, stop, size, 1))
    live, whole = batches.live, 1 << 20
    assert batches.some(live, 0, 99, whole, 99) == [Interval(0, 7), Interval(9, 10)]
    assert batches.some(live, 0, 4, whole, 99) == [Interval(0, 4)]
    assert batches.some(live, 0, 99, whole, 3) == [Interval(0, 6)]
    assert batches.some(live, 0, 99, 330, 99) == [Interval(0, 5)], "what is left has no room"
    assert batches.some(live, 3, 99, 1, 99) == [Interval(3, 4)], "one there is at least"
    assert batches.some(live, 3, 0, 1, 99) == []
    assert batches.some(IntervalSet([Interval(1, 3), Interval(5, 6)]), 0, 99, 109, 99) == [
        Interval(1, 2)
    ]
