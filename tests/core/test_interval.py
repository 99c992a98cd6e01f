"""A plain set of ints is an IntervalSet: whatever is done to both, both hold the same."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from snowmelt.core.interval import Interval, IntervalSet

EDGES = st.integers(0, 40)
INTERVALS = st.tuples(EDGES, EDGES).map(lambda pair: Interval(min(pair), max(pair)))


class SetModel(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.ours = IntervalSet()
        self.plain = set()

    @rule(interval=INTERVALS)
    def add(self, interval):
        self.ours.add(interval)
        self.plain |= set(interval)

    @rule(intervals=st.lists(INTERVALS, max_size=6))
    def add_all(self, intervals):
        self.ours.add_all(intervals)
        self.plain.update(position for interval in intervals for position in interval)

    @rule(interval=INTERVALS)
    def remove(self, interval):
        self.ours.remove(interval)
        self.plain -= set(interval)

    @rule(count=st.integers(0, 12))
    def take(self, count):
        taken = [position for interval in self.ours.take(count) for position in interval]
        assert taken == sorted(self.plain)[:count]
        self.plain -= set(taken)

    @rule(interval=INTERVALS)
    def ask(self, interval):
        held = [position for part in self.ours.common(interval) for position in part]
        assert held == sorted(self.plain & set(interval))
        assert all(part.size for part in self.ours.common(interval))
        assert self.ours.covers(interval) == (set(interval) <= self.plain)

    @invariant()
    def both_hold_the_same(self):
        self.ours.check()
        assert [position for interval in self.ours for position in interval] == sorted(self.plain)
        assert self.ours.total == len(self.plain)
        assert [one for one in range(-1, 42) if one in self.ours] == sorted(self.plain)
        starts = [one for one in self.plain if one - 1 not in self.plain]
        assert self.ours.pieces == len(starts)
        assert self.ours == IntervalSet(Interval(one, one + 1) for one in self.plain)


SetModel.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestAnIntervalSetDoesAsASetDoes = SetModel.TestCase


@given(INTERVALS, INTERVALS)
def test_what_two_intervals_have_in_common_is_what_two_sets_have(one, other):
    assert set(one.common(other)) == set(one) & set(other)
    assert one.common(other).size == len(set(one) & set(other))


@given(INTERVALS, st.integers(0, 60))
def test_the_two_parts_of_a_split_are_the_whole(interval, count):
    head, rest = interval.split(count)
    assert [*head, *rest] == list(interval)
    assert head.size == min(count, interval.size)
    assert head.stop == rest.start


def test_an_interval_cannot_stop_before_it_starts():
    with pytest.raises(ValueError, match="can't start at 5 and stop at 4"):
        Interval(5, 4)


def test_a_negative_count_is_refused():
    with pytest.raises(ValueError, match="split off -1"):
        Interval(0, 4).split(-1)
    with pytest.raises(ValueError, match="take -1"):
        IntervalSet().take(-1)


@pytest.mark.parametrize("word", [Interval(0, 4), Interval(4, 4), IntervalSet()])
def test_nothing_here_has_a_truth_value(word):
    with pytest.raises(TypeError, match="no truth value"):
        bool(word)


def test_a_set_is_not_equal_to_something_else_and_has_no_hash():
    assert IntervalSet() != 3
    with pytest.raises(TypeError):
        hash(IntervalSet())


def test_intervals_that_touch_become_one_and_empty_ones_leave_no_mark():
    held = IntervalSet([Interval(0, 2), Interval(4, 6), Interval(3, 3)])
    assert held.pieces == 2
    held.add(Interval(2, 4))
    assert list(held) == [Interval(0, 6)]
    held.remove(Interval(3, 3))
    assert list(held) == [Interval(0, 6)]


@pytest.mark.parametrize("seed", range(60))
def test_very_many_at_once_are_as_one_by_one(seed):
    chance = Random(seed)
    held, plain = IntervalSet(), IntervalSet()
    for _ in range(20):
        starts = [chance.randrange(2_000) for _ in range(chance.choice([1, 40, 300]))]
        some = [Interval(one, one + chance.randrange(7)) for one in starts]
        if chance.random() < 0.5:
            held.add_all(some)
            for one in some:
                plain.add(one)
        else:
            held.remove_all(some)
            for one in some:
                plain.remove(one)
        held.check()
        assert held == plain


def test_a_set_that_is_walked_may_be_changed_meanwhile():
    held = IntervalSet([Interval(0, 2), Interval(4, 6)])
    for interval in held:
        held.remove(interval)
    assert held.total == 0


def test_check_finds_a_wrong_total_and_touching_intervals():
    wrong = IntervalSet([Interval(0, 2)])
    wrong.total = 3
    with pytest.raises(AssertionError):
        wrong.check()
    touching = IntervalSet([Interval(0, 2), Interval(4, 6)])
    touching._starts[1], touching.total = 2, 6
    with pytest.raises(AssertionError):
        touching.check()
