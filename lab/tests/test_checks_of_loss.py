"""The two checks beside the formula: dice that do not know it, and time that is not cut."""

from heapq import heapify, heappop, heappush
from math import exp, isclose
from random import Random

import numpy as np
import pytest
from scipy.linalg import expm

from snowmelt.core.errors import BadOption
from snowmelt_lab.durability.chain import continuous_loss, difference
from snowmelt_lab.durability.trial import likely, tried
from snowmelt_lab.durability.windows import Windows


@pytest.mark.parametrize(
    ("chance", "window", "replicas", "hours", "trials"),
    [
        (0.01, 20, 3, 0.637, 100_000),  # the paper's often, when half is lost
        (0.01, 20, 3, 7, 100_000),
        (0.0001, 20, 3, 48, 400_000),  # the paper's rare
        (0.01, 17.3, 2, 0.1, 50_000),  # a window of no whole seconds, the last one cut short
        (0.05, 20, 4, 0.004, 50_000),  # less than one window
        (0.001, 20, 1, 0.2, 50_000),
        (1, 20, 3, 0.01, 10),
        (0, 20, 3, 1, 10),
    ],
)
def test_dice_agree_with_the_formula(
    chance: float, window: float, replicas: int, hours: float, trials: int
) -> None:
    model = Windows(fail_per_second=chance, window=window, replicas=replicas)
    seen = tried(model, hours, trials, seed=4)
    assert seen.low <= model.loss(hours) <= seen.high
    assert seen == tried(model, hours, trials, seed=4)


def test_dice_are_fine_enough_to_refute_the_paper() -> None:
    seen = tried(Windows(fail_per_second=0.0001, window=20, replicas=3), 48, 400_000, seed=5)
    assert seen.low > 0.00002


def test_trials_without_end_are_refused() -> None:
    model = Windows(fail_per_second=0.01, window=20, replicas=3)
    with pytest.raises(BadOption, match="more than a minute"):
        tried(model, 10_000, 1_000_000, seed=1)
    with pytest.raises(BadOption, match="--trials is -1"):
        tried(model, 1, -1, seed=1)


def test_the_interval_holds_the_chance_as_often_as_it_says() -> None:
    hits = np.random.default_rng(1).binomial(200, 0.1, size=2000)
    intervals = [likely(int(one), 200) for one in hits]
    share = sum(low <= 0.1 <= high for low, high in intervals) / len(intervals)
    assert 0.98 < share < 0.999


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
@pytest.mark.parametrize("hours", [0.001, 0.1, 3])
def test_the_chain_is_the_exponential_of_its_matrix(replicas: int, hours: float) -> None:
    model = Windows(fail_per_second=0.02, window=15, replicas=replicas)
    matrix = np.zeros((replicas + 1, replicas + 1))
    for gone in range(replicas):
        matrix[gone, gone + 1] = (replicas - gone) * model.rate
        if gone:
            matrix[gone, gone - 1] = gone / 15
    np.fill_diagonal(matrix, -matrix.sum(axis=1))
    other = expm(matrix * hours * 3600)[0, replicas]
    assert isclose(continuous_loss(model, hours), other, rel_tol=1e-9)


def test_one_copy_is_never_replaced() -> None:
    model = Windows(fail_per_second=1e-6, window=20, replicas=1)
    assert isclose(continuous_loss(model, 2), model.loss(2), rel_tol=1e-9)
    assert "the same" in difference(model, 2)


@pytest.mark.parametrize("replicas", [2, 3, 4, 6])
def test_rare_failures_lose_items_as_many_times_as_fast_as_there_are_copies(replicas: int) -> None:
    model = Windows(fail_per_second=1e-7, window=20, replicas=replicas)
    loss, hours = continuous_loss(model, 1000), 1000
    theory = replicas * model.rate**replicas * 20 ** (replicas - 1) * hours * 3600
    assert isclose(loss, theory, rel_tol=1e-4)  # down to 1e-31: nothing drowns in rounding
    assert isclose(loss / model.loss(hours), replicas, rel_tol=1e-4)


def test_the_ends_of_the_chain() -> None:
    model = Windows(fail_per_second=0.01, window=20, replicas=3)
    assert continuous_loss(model, 0) == 0
    assert 1 - 1e-9 < continuous_loss(model, 1000) <= 1
    assert continuous_loss(Windows(fail_per_second=0, window=20, replicas=3), 5) == 0
    assert continuous_loss(Windows(fail_per_second=1, window=20, replicas=3), 5) == 1


def lost_with_fixed_repairs(
    rate: float, repair: float, copies: int, span: float, dice: Random
) -> bool:
    """One item, failure by failure; every repair takes exactly as long as it takes."""
    due = [(dice.expovariate(rate), True) for _ in range(copies)]
    heapify(due)
    there = copies
    while due[0][0] < span:
        now, fails = heappop(due)
        there += -1 if fails else 1
        if not there:
            return True
        heappush(due, (now + (repair if fails else dice.expovariate(rate)), not fails))
    return False


def test_repairs_of_fixed_length_lose_as_much_as_the_chain_and_not_as_the_windows() -> None:
    model = Windows(fail_per_second=1 - exp(-0.002), window=20, replicas=3)
    dice, trials = Random(3), 6000
    lost = sum(lost_with_fixed_repairs(0.002, 20, 3, 5000, dice) for _ in range(trials))
    low, high = likely(lost, trials)
    assert low < continuous_loss(model, 5000 / 3600) < high
    assert model.loss(5000 / 3600) < low
