"""`snowmelt lab arrow`: what it prints, draws and refuses."""

from functools import partial
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import commands
from snowmelt.core.errors import BadOption
from snowmelt_lab.arrow.options import ArrowOptions, Corruption, TreeKind
from snowmelt_lab.arrow.tracing import STEPS_MAX, traced

SVG = "{http://www.w3.org/2000/svg}"


ran = partial(commands.ran, "arrow")
as_json = partial(commands.as_json, "arrow")


def test_it_tells_what_was_measured() -> None:
    told = as_json("--nodes", "12", "--tree", "binary", "--requests", "30", "--seed", "4")
    assert {
        *("stabilized", "time_over_round_trip", "bound_over_round_trip", "messages"),
        *("finds_per_request", "order_valid"),
    } <= told.keys()
    assert told["stabilized"]
    assert told["order_valid"]
    assert 0 < told["time_over_round_trip"] <= told["bound_over_round_trip"] == 5
    assert told["tree_over_round_trip"] is None


def test_it_tells_when_the_tree_was_right() -> None:
    told = as_json(
        *("--nodes", "12", "--tree", "overlay", "--requests", "5", "--timeout-factor", "4"),
        *("--corrupt", "tree,arrows"),
    )
    assert 0 < told["tree_over_round_trip"] <= told["tree_bound_over_round_trip"]
    assert told["bound_over_round_trip"] == 7 + told["tree_bound_over_round_trip"]
    assert "tree right" in ran("--nodes", "5", "--corrupt", "tree")


def test_a_time_out_below_two_round_trips_has_no_bound() -> None:
    told = as_json("--nodes", "5", "--timeout-factor", "0.5", "--requests", "3")
    assert told["bound_over_round_trip"] is None
    assert not told["stabilized"]
    assert told["time_over_round_trip"] is None
    assert "edges legal       never" in ran("--nodes", "5", "--timeout-factor", "0.5")


def test_it_tells_a_person_the_same() -> None:
    told = ran("--nodes", "5", "--corrupt", "none", "--requests", "0")
    assert "edges legal       after 0.00 round trips, within 5" in told
    assert "order             valid" in told
    assert "finds" not in told


def test_a_life_is_drawn_step_by_step(tmp_path: Path) -> None:
    file = tmp_path / "life.svg"
    ran("--nodes", "6", "--tree", "binary", "--seed", "11", "--draw", str(file))
    root = ET.fromstring(file.read_text())
    assert root.tag == f"{SVG}svg"
    steps = traced(ArrowOptions(nodes=6, tree=TreeKind.BINARY, seed=11)).steps
    assert len(root.findall(f"{SVG}g")) == len(steps)
    for panel, step in zip(root.findall(f"{SVG}g"), steps, strict=True):
        arrows = sum(at != node for node, at in enumerate(step.points_at))
        finds = sum(one.is_find for one in step.on_the_way)
        assert len(panel.findall(f"{SVG}polygon")) == arrows + finds


def test_the_steps_lead_to_a_legal_state_and_show_a_request() -> None:
    told = traced(ArrowOptions(nodes=6, tree=TreeKind.BINARY, seed=11))
    assert told.steps[0].illegal
    assert told.left_out == 0
    last = told.steps[-1]
    assert (last.illegal, any(one.is_find for one in last.on_the_way)) == ((), False)
    assert last.points_at[5] == 5
    assert any("wants a place" in step.sentence for step in told.steps)
    assert [step.at for step in told.steps] == sorted(step.at for step in told.steps)


def test_a_life_that_never_heals_is_drawn_too() -> None:
    told = traced(ArrowOptions(nodes=5, timeout_factor=0.1, tree=TreeKind.STAR))
    assert told.steps[-1].illegal


def test_a_long_life_is_cut_and_says_so(tmp_path: Path) -> None:
    options = ArrowOptions(nodes=15, tree=TreeKind.PATH, seed=1)
    told = traced(options)
    assert len(told.steps) == STEPS_MAX
    assert told.left_out > 0
    file = tmp_path / "long.svg"
    ran("--nodes", "15", "--tree", "path", "--draw", str(file))
    assert f"{told.left_out} more steps" in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ("--nodes 1", "--nodes"),
        ("--tree bush", "--tree"),
        ("--arrivals never", "--arrivals"),
        ("--corrupt arrows,moon", "--corrupt"),
        ("--corrupt none,arrows", "--corrupt"),
        ("--timeout-factor 0", "--timeout-factor"),
        ("--seed -1", "--seed"),
        ("--draw life.png", "--draw"),
        ("--draw /nowhere/life.svg", "--draw"),
        ("--nodes 16 --draw life.svg", "--nodes"),
        ("--corrupt tree --draw life.svg", "--corrupt"),
    ],
)
def test_a_wrong_option_is_refused_by_name(
    arguments: str, option: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadOption) as caught:
        ran(*arguments.split())
    assert caught.value.option == option
    assert list(tmp_path.iterdir()) == []


def test_kinds_of_corruption_are_independent() -> None:
    for kind in Corruption:
        told = as_json("--nodes", "9", "--corrupt", kind.value, "--requests", "4")
        assert told["stabilized"], kind
