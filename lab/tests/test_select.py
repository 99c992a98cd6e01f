"""KSelect in rounds: machines and arrays say the same, and what is found is the k-th smallest."""

import msgspec
import numpy as np
import pytest

from commands import as_json, ran
from snowmelt.core.errors import BadOption
from snowmelt_lab.machines.select.candidates import hashed
from snowmelt_lab.machines.select.elements import Element
from snowmelt_lab.overlay.arrays import Circle
from snowmelt_lab.select import arrays, experiment
from snowmelt_lab.select.load import Load
from snowmelt_lab.select.options import Distribution, Mode, SelectOptions, Shares

SHAPES = [
    {"nodes": 1, "elements": 200},
    {"nodes": 2, "elements": 1},
    {"nodes": 2, "elements": 300, "k": 300},
    {"nodes": 3, "elements": 150, "k": 1},
    {"nodes": 12, "elements": 5},
    {"nodes": 12, "elements": 900, "distribution": Distribution.EQUAL},
    {"nodes": 12, "elements": 900, "distribution": Distribution.ZIPF, "k": 3},
    {"nodes": 12, "elements": 2_000, "distribution": Distribution.ADVERSARIAL},
    {"nodes": 40, "elements": 9_000, "shares": Shares.EVEN},
    {"nodes": 12, "elements": 100, "mode": Mode.PAPER, "k": 7},
    {"nodes": 40, "elements": 9, "mode": Mode.PAPER},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_machines_and_arrays_measure_the_very_same(shape):
    options = SelectOptions(**shape, salt=f"s{len(str(shape))}")
    by_machines, by_arrays = experiment.run(options), arrays.run(options)
    assert by_machines == by_arrays
    assert by_machines.exact or options.mode is Mode.PAPER


@pytest.mark.parametrize("distribution", Distribution)
def test_what_is_found_is_the_so_manieth_smallest_whatever_the_distribution(distribution):
    chance = np.random.default_rng(3)
    for seed in range(12):
        nodes, elements = (int(10 ** chance.uniform(0, most)) for most in (2.5, 4))
        k = int(chance.choice([1, elements, chance.integers(1, elements + 1)]))
        options = SelectOptions(
            nodes=nodes, elements=elements, k=k, distribution=distribution, seed=seed
        )
        found = arrays.run(options)
        load = Load(options, Circle(nodes, options.salt))
        expected = sorted(zip(load.priorities.tolist(), load.ids.tolist(), strict=True))[k - 1]
        assert (found.value, found.id) == expected
        assert found.exact


def test_rounds_grow_by_less_than_the_nodes_and_messages_stay_small():
    few, many = (
        arrays.run(SelectOptions(nodes=nodes, elements=100 * nodes)) for nodes in (30, 3_000)
    )
    assert many.rounds < 8 * few.rounds
    assert many.congestion_max < 4 * few.congestion_max
    assert many.message_bits_max <= few.message_bits_max + 128


def test_elements_lie_where_the_distribution_says():
    options = SelectOptions(nodes=7, elements=700, distribution=Distribution.ADVERSARIAL)
    circle = Circle(7, options.salt)
    assert (np.diff(Load(options, circle).owners) >= 0).all()
    even = msgspec.structs.replace(
        options, distribution=Distribution.UNIFORM, shares=Shares.EVEN, elements=70_000
    )
    counts = np.bincount(Load(even, circle).owners)
    assert counts.min() > 9_500
    ring = np.bincount(Load(msgspec.structs.replace(even, shares=Shares.RING), circle).owners)
    assert np.allclose(ring / 10_000, circle.shares(), atol=0.05)


def test_the_rank_of_a_bound_is_how_many_are_less():
    load = Load(
        SelectOptions(nodes=2, elements=90, distribution=Distribution.ZIPF), Circle(2, "lab")
    )
    for rank in range(90):
        assert load.rank(load.element(rank)) == rank
    assert load.rank(Element(1 << 62, 1 << 40)) == 90


def test_arrays_draw_as_machines_do():
    numbers = np.array([0, 1, 99, 1 << 40])
    start = 0xFEDCBA9876543210
    expected = [hashed(start, number) for number in numbers.tolist()]
    assert arrays.hashed(start, numbers).tolist() == expected


# --- the command ----------------------------------------------------------------------------------


def test_the_command_tells_what_was_found_and_what_it_cost():
    told = as_json("select", "--nodes", "20", "--elements", "2000", "--k", "1999")
    assert told["exact"] is True
    assert told["rank"] == told["k"] == 1999
    assert told["mode"] == "repaired"
    wanted = "value rounds iterations congestion_max message_bits_max candidates_after_phase1"
    assert set(wanted.split()) < set(told)


def test_the_command_says_how_the_printed_plan_ends():
    said = ran("select", "--nodes", "50", "--elements", "5000", "--mode", "paper")
    assert "not found, nothing is removed any more" in said
    assert "64 samples" in said


def test_random_cases_are_all_exact():
    told = as_json("select", "--cases", "60", "--seed", "5")
    assert told["cases"] == told["exact"] == 60
    assert told["first_wrong"] is None
    assert told["fewer_elements_than_nodes"]
    assert "exact: 8" in ran("select", "--cases", "8")


def test_curves_are_drawn_with_what_the_line_leaves_over(tmp_path):
    rounds, traffic = tmp_path / "rounds.png", tmp_path / "traffic.png"
    told = as_json(
        "select", "--nodes", "100", "--elements", "1000", "--machines", "10",
        "--growth", str(rounds), "--traffic", str(traffic),
    )  # fmt: skip
    assert [point["nodes"] for point in told["growth"]] == [10, 32, 100]
    assert [point["machines_agree"] for point in told["growth"]] == [True, None, None]
    assert all(point["exact"] for point in told["growth"])
    assert len(told["fit"]["residuals"]) == 3
    assert rounds.stat().st_size > 10_000
    assert traffic.stat().st_size > 10_000


def test_both_plans_are_drawn_side_by_side(tmp_path):
    picture = tmp_path / "plans.png"
    told = as_json("select", "--nodes", "32", "--plans", str(picture))["plans"]
    assert picture.stat().st_size > 10_000
    by_plan = {mode: [row for row in told if row["mode"] == mode] for mode in ("paper", "repaired")}
    assert all(row["exact"] == row["trials"] for row in by_plan["repaired"])
    assert not any(row["exact"] for row in by_plan["paper"])


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        (("--elements", "10", "--k", "11"), "--k is 11; allowed: 1 to 10"),
        (("--elements", "10", "--k", "-1"), "--k is -1; allowed: 1 to 10"),
        (("--elements", "10", "--k", "0"), "--k is 0; allowed: 1 to 10"),
        (("--elements", "0"), "--elements is 0; allowed: 1 to 20000000"),
        (("--nodes", "0"), "--nodes is 0; allowed: 1 to 100000"),
        (("--nodes", "99", "--growth", "a.png"), "--nodes is 99; allowed: 100 or more"),
        (("--elements", "99", "--growth", "a.png"), "--elements is 99; allowed: 100 or more"),
        (("--plans", "a.gif"), "a file ending in .png"),
        (("--cases", "-1"), "--cases is -1; allowed: 0 to 1000000"),
        (("--distribution", "even"), "uniform, equal, zipf, adversarial"),
        (("--mode", "printed"), "--mode is 'printed'; allowed: repaired, paper"),
        (("--nodes", "3000", "--engine", "machines"), "arrays with more than 2000 nodes"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(arguments, refused):
    with pytest.raises(BadOption, match=refused):
        ran("select", *arguments)
