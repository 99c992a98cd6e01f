"""KSelect: always exact, whatever lies where; and where the printed plan is not."""

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from selections import Air, select, spread

from snowmelt_lab.machines.select.elements import Element
from snowmelt_lab.machines.select.plans import PrintedPlan, RepairedPlan
from snowmelt_lab.machines.select.steps import Done, End

PRIORITIES = {
    "any": st.integers(-(1 << 63), (1 << 63) - 1),
    "few": st.integers(0, 3),
    "equal": st.just(7),
}


@st.composite
def situations(draw, most_nodes, most_elements):
    """Elements of nodes, and a rank among them."""
    nodes = draw(st.integers(1, most_nodes))
    priority = PRIORITIES[draw(st.sampled_from(sorted(PRIORITIES)))]
    priorities = draw(st.lists(priority, min_size=1, max_size=most_elements))
    if draw(st.booleans()):  # each node has a stretch of the order
        priorities.sort()
        owners = [nodes * at // len(priorities) for at in range(len(priorities))]
    else:
        owner = st.integers(0, nodes - 1) if draw(st.booleans()) else st.just(0)
        size = len(priorities)
        owners = draw(st.lists(owner, min_size=size, max_size=size))
    k = draw(st.one_of(st.just(1), st.just(len(priorities)), st.integers(1, len(priorities))))
    return spread(priorities, owners, nodes), k


def sorted_of(held):
    return sorted(one for elements in held for one in elements)


@settings(deadline=None, max_examples=300)
@given(situations(20, 300), st.integers(8, 32))
@example((spread([1, 2, 3, 4, 5], [0, 1, 1, 1, 1], 2), 4), 8)
def test_the_repaired_plan_is_exact(situation, sample):
    held, k = situation
    done, at = select(held, k, RepairedPlan(sample))
    assert done == Done(End.FOUND, len(sorted_of(held)), sorted_of(held)[k - 1])
    assert at.count >= at.k >= 1


@settings(deadline=None, max_examples=40)
@given(situations(9, 60), st.integers(8, 12), st.randoms(use_true_random=False))
def test_every_node_is_told_the_same_in_whatever_order_messages_come(situation, sample, chance):
    held, k = situation
    told = Air(held, k, RepairedPlan(sample), chance).run()
    assert told == [Done(End.FOUND, len(sorted_of(held)), sorted_of(held)[k - 1])] * len(held)


def drawn(nodes, elements, seed, priorities=1 << 40):
    chance = Random(seed)
    values = [chance.randrange(priorities) for _ in range(elements)]
    return spread(values, [chance.randrange(nodes) for _ in values], nodes)


@pytest.mark.parametrize("priorities", [1 << 40, 5, 1])
@pytest.mark.parametrize("k", [1, 2, 777, 5_000, 9_999, 10_000])
def test_a_large_selection_is_exact_after_few_iterations(k, priorities):
    held = drawn(50, 10_000, seed=k, priorities=priorities)
    done, at = select(held, k, RepairedPlan())
    assert done.value == sorted_of(held)[k - 1]
    assert at.rankings <= 3
    assert at.samples <= 9


class Reckless(RepairedPlan):
    """Leaves no margin, and puts the window beside the place where the rank should be."""

    def __init__(self, off):
        super().__init__()
        self.off = off

    def places(self, at, drawn):
        low = min(drawn - 1, max(1, at.k * drawn // at.count + self.off))
        return low, low + 1


@pytest.mark.parametrize("off", [-4, 0, 4])
def test_a_miss_narrows_the_candidates_too_and_the_selection_stays_exact(off):
    misses = 0
    for seed in range(5):
        held = drawn(10, 2_000, seed)
        done, at = select(held, 700, Reckless(off))
        assert done.value == sorted_of(held)[699]
        assert at.samples <= 30
        misses += at.misses
    assert misses


@pytest.mark.parametrize("k", [0, 4])
def test_a_rank_that_no_element_has_is_told_with_how_many_there_are(k):
    held = spread([5, 6, 7], [0, 1, 1], 2)
    assert select(held, k, RepairedPlan())[0] == Done(End.NO_SUCH_RANK, 3)
    assert Air(held, k, RepairedPlan(), Random(1)).run() == [Done(End.NO_SUCH_RANK, 3)] * 2


def test_a_sample_too_small_to_narrow_anything_is_refused():
    with pytest.raises(ValueError, match="a sample of 7: at least 8"):
        RepairedPlan(7)


def test_no_elements_at_all_have_no_rank():
    assert select([[], []], 1, RepairedPlan())[0] == Done(End.NO_SUCH_RANK, 0)


# --- where the printed plan stops working ---------------------------------------------------------


def test_the_printed_bound_above_excludes_the_rank_when_shares_are_unequal():
    held = spread([1, 2, 3, 4, 5, 6, 7], [0, 1, 1, 1, 1, 1, 1], 2)
    done, _ = select(held, 4, PrintedPlan())  # bounds 1 and 3: only three candidates are left
    assert done == Done(End.LOST, 7)
    assert select(held, 4, RepairedPlan())[0].value == Element(4, 3)


def test_the_printed_plan_never_ends_on_a_hundred_nodes():
    held = drawn(100, 10_000, seed=1)
    done, at = select(held, 5_000, PrintedPlan())
    assert done.end is End.ENDLESS
    assert at.count > 10


def test_the_printed_plan_ends_on_three_thousand_nodes_but_takes_one_from_the_rank_too_often():
    held = drawn(3_000, 30_000, seed=3)
    done, at = select(held, 15_000, PrintedPlan())
    assert done.end is End.FOUND
    assert 0 < 15_000 - (sorted_of(held).index(done.value) + 1) <= at.samples
