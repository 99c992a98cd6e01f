"""Order under failures: the measure against brute force, the simulator against theory."""

from itertools import combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snowmelt.core.errors import BadOption
from snowmelt_lab.order.crew import Crew, worked
from snowmelt_lab.order.distance import distance
from snowmelt_lab.order.grid import runs
from snowmelt_lab.order.places import OwnPlace

orders = st.integers(1, 9).flatmap(lambda size: st.permutations(range(size)))


def held_back(indices: list[int]) -> int:
    """How many items a client holds at most that hands all on in order."""
    arriving = sorted(range(len(indices)), key=indices.__getitem__)
    held: set[int] = set()
    most, wanted = 0, 0
    for rank in arriving:
        held.add(rank)
        while wanted in held:
            held.remove(wanted)
            wanted += 1
        most = max(most, len(held))
    return most


@given(orders)
def test_the_distance_lies_between_the_swaps_and_twice_the_swaps(indices: list[int]) -> None:
    swaps = sum(one > other for one, other in combinations(indices, 2))
    total = round(distance(indices).mean * len(indices))
    assert swaps <= total <= 2 * swaps


@given(orders)
def test_the_latest_item_says_how_many_a_client_has_to_hold_back(indices: list[int]) -> None:
    assert distance(indices).late_max == held_back(indices)


@pytest.mark.parametrize("place", ["own place", "tail"])
@pytest.mark.parametrize("batch", [1, 3])
def test_without_failures_all_is_delivered_in_order(place: str, batch: int) -> None:
    crew = Crew(consumers=7, failure=0, batch=batch)
    assert worked(crew, place, 500, seed=1).delivered == list(range(500))


def test_side_by_side_consumers_confirm_out_of_order_even_without_failures() -> None:
    alone = worked(Crew(consumers=1, failure=0), "own place", 500, seed=1)
    assert alone.confirmed == list(range(500))
    crowd = worked(Crew(consumers=7, failure=0), "own place", 500, seed=1)
    assert 0.5 < distance(crowd.confirmed).mean < 7


@pytest.mark.parametrize("place", ["own place", "tail"])
def test_every_item_is_delivered_and_confirmed_just_once(place: str) -> None:
    order = worked(Crew(consumers=5, failure=0.3, batch=2, waiting=20), place, 800, seed=2)
    for indices in (order.delivered, order.confirmed):
        assert min(indices) >= 0
        assert len(set(indices)) == 800


@pytest.mark.parametrize(
    ("consumers", "batch", "lease"), [(1, 1, 10), (16, 1, 10), (16, 4, 20), (8, 1, 40)]
)
def test_own_places_follow_the_first_order(consumers: int, batch: int, lease: float) -> None:
    crew = Crew(consumers=consumers, failure=0.01, batch=batch, lease=lease)
    mean = distance(worked(crew, "own place", 40_000, seed=3).delivered).mean
    assert mean == pytest.approx(crew.expected, rel=0.15)


def test_at_the_tail_an_item_waits_for_the_whole_backlog() -> None:
    crew = Crew(consumers=4, failure=0.01, waiting=500)
    mean = distance(worked(crew, "tail", 40_000, seed=3).delivered).mean
    assert mean == pytest.approx(2 * 0.01 * (500 + 4 * 10), rel=0.15)


def test_what_came_back_goes_out_again_oldest_first() -> None:
    line = OwnPlace(waiting=1)
    taken = [line.take() for _ in range(4)]
    for rank in (taken[2], taken[0], taken[3]):
        line.give_back(rank)
    assert [line.take() for _ in range(4)] == [0, 2, 3, 4]


def test_a_longer_backlog_leaves_own_places_alone() -> None:
    short, long = (Crew(consumers=4, failure=0.05, waiting=size) for size in (10, 5000))
    results = [worked(crew, "own place", 2000, seed=1).delivered for crew in (short, long)]
    assert results[0] == results[1]


def test_the_distance_grows_with_consumers_and_with_failures() -> None:
    grid = list(runs(Crew(consumers=1, failure=0), [2, 8, 32], [0.01, 0.1], 5000, seed=1))
    assert len(grid) == 12
    for place in ("own place", "tail"):
        means = [
            [
                run.delivered.mean
                for run in grid
                if (run.place, run.crew.failure) == (place, failure)
            ]
            for failure in (0.01, 0.1)
        ]
        few, many = means
        assert few == sorted(few)
        assert many == sorted(many)
        assert all(one < other for one, other in zip(few, many, strict=True))


def test_the_seed_decides() -> None:
    crew = Crew(consumers=3, failure=0.1)
    first, again, other = (worked(crew, "own place", 500, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("consumers", 0),
        ("failure", -0.1),
        ("failure", 0.6),
        ("batch", 0),
        ("work", 0),
        ("waiting", 0),
        ("lease", 1.4),
        ("lease", float("nan")),
    ],
)
def test_a_crew_that_can_not_work_is_refused(field: str, value: float) -> None:
    with pytest.raises(BadOption, match=field):
        msgspec.structs.replace(Crew(consumers=2, failure=0.1), **{field: value})
