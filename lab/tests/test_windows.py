"""The paper's model of loss: its figures put right, and the formula against slow exact sums."""

from fractions import Fraction
from math import isclose, isinf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snowmelt.core.errors import BadOption
from snowmelt_lab.durability.paper import CLAIMS, percent
from snowmelt_lab.durability.windows import Windows

RARE = Windows(fail_per_second=0.0001, window=20, replicas=3)
OFTEN = Windows(fail_per_second=0.01, window=20, replicas=3)


def test_two_days_at_a_hundredth_of_a_percent_lose_more_than_the_paper_says() -> None:
    assert round(RARE.loss(48), 6) == 0.000069
    assert RARE.loss(48) > 3 * 0.00002


def test_half_is_lost_after_38_minutes_and_nearly_all_after_7_hours() -> None:
    assert OFTEN.loss(38 / 60) < 0.5 < OFTEN.loss(38.5 / 60)
    assert 38 < OFTEN.hours_until(0.5) * 60 < 38.5
    assert round(OFTEN.loss(7), 4) == 0.9995


def test_each_claim_is_judged_as_it_is_marked() -> None:
    over, under = CLAIMS
    assert (over.model.loss(over.hours) > over.loss) == over.holds
    assert (under.model.loss(under.hours) < under.loss) == under.holds


def slow_loss(model: Windows, seconds: int) -> Fraction:
    """The rules, second by second in whole numbers: no powers, no logarithms."""
    alive = 1 - Fraction(model.fail_per_second)
    kept = Fraction(1)
    for begin in range(0, seconds, int(model.window)):
        copy_lives = Fraction(1)
        for _ in range(min(int(model.window), seconds - begin)):
            copy_lives *= alive
        all_gone = Fraction(1)
        for _ in range(model.replicas):
            all_gone *= 1 - copy_lives
        kept *= 1 - all_gone
    return 1 - kept


@pytest.mark.parametrize("seconds", [1, 7, 8, 9, 40, 45])
@pytest.mark.parametrize("chance", [2**-40, 2**-20, 2**-7, 0.5])
@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_the_formula_is_the_sum_and_loses_no_digits(
    seconds: int, chance: float, replicas: int
) -> None:
    model = Windows(fail_per_second=chance, window=8, replicas=replicas)
    exact = float(slow_loss(model, seconds))
    assert exact > 0
    assert isclose(model.loss(seconds / 3600), exact, rel_tol=1e-11)


def test_a_loss_far_below_rounding_is_not_nothing() -> None:
    model = Windows(fail_per_second=1e-9, window=20, replicas=3)
    assert isclose(model.loss(1), 180 * (20e-9) ** 3, rel_tol=1e-6)


chances = st.floats(1e-5, 0.2)
windows = st.floats(0.5, 100)


@given(chances, windows, st.integers(1, 4), st.floats(0, 20), st.floats(0, 20))
def test_loss_never_falls_and_does_not_leap_over_time(
    chance: float, window: float, replicas: int, one: float, other: float
) -> None:
    model = Windows(fail_per_second=chance, window=window, replicas=replicas)
    early, late = sorted((one, other))
    assert 0 <= model.loss(early) <= model.loss(late) + 1e-15
    assert model.loss(late) <= 1
    edge = window * 7
    before, after = (model.loss((edge + off) / 3600) for off in (-1e-7, 1e-7))
    assert after - before < 1e-6


@given(chances, windows, st.integers(1, 4), st.floats(0.0001, 0.999))
def test_hours_until_is_loss_the_other_way_round(
    chance: float, window: float, replicas: int, loss: float
) -> None:
    model = Windows(fail_per_second=chance, window=window, replicas=replicas)
    hours = model.hours_until(loss)
    if hours < 1e6:
        assert isclose(model.loss(hours), loss, rel_tol=1e-6)


def test_the_ends_of_the_range() -> None:
    never = Windows(fail_per_second=0, window=20, replicas=3)
    assert never.loss(1000) == 0
    assert isinf(never.hours_until(0.5))
    always = Windows(fail_per_second=1, window=20, replicas=3)
    assert (always.loss(0), always.loss(0.001)) == (0, 1)
    assert always.hours_until(0.5) == 0
    assert OFTEN.hours_until(0) == 0


@pytest.mark.parametrize(
    ("field", "option", "value"),
    [
        ("fail_per_second", "--fail-per-second", -0.1),
        ("fail_per_second", "--fail-per-second", 1.1),
        ("fail_per_second", "--fail-per-second", float("nan")),
        ("window", "--window", 0),
        ("window", "--window", float("inf")),
        ("replicas", "--replicas", 0),
        ("replicas", "--replicas", 33),
    ],
)
def test_what_is_no_model_is_refused_by_name_and_value(
    field: str, option: str, value: float
) -> None:
    fields = {"fail_per_second": 0.1, "window": 20, "replicas": 3, field: value}
    with pytest.raises(BadOption) as caught:
        Windows(**fields)
    assert (caught.value.option, repr(caught.value.value)) == (option, repr(value))


@pytest.mark.parametrize("hours", [-1, float("nan"), float("inf"), 1e9])
def test_what_is_no_span_is_refused(hours: float) -> None:
    with pytest.raises(BadOption, match="--hours"):
        RARE.loss(hours)


def test_percent_never_says_all_or_nothing_of_what_is_neither() -> None:
    assert percent(0.99999) == "99.999 %"
    assert percent(1e-12) == "1e-10 %"
    assert (percent(0), percent(1)) == ("0 %", "100 %")
