"""The commands of `snowmelt lab`: what they print, write and refuse."""

import csv
from pathlib import Path

import pytest

from commands import as_json, ran
from snowmelt.core.errors import BadOption

PNG = b"\x89PNG\r\n\x1a\n"


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_durability_tells_the_right_figures_of_the_paper() -> None:
    case = ["--window", "20", "--replicas", "3"]
    rare = as_json("durability", "--fail-per-second", "0.0001", "--hours", "48", *case)
    assert round(rare["loss"], 6) == 0.000069
    assert rare["continuous_loss"] > 2.9 * rare["loss"]
    assert rare["trial"] is None
    often = as_json("durability", "--fail-per-second", "0.01", "--hours", "7", *case)
    assert round(often["loss"], 4) == 0.9995
    assert round(often["half_lost_after_hours"] * 60) == 38
    told = ran("durability")
    assert "0.0069 %" in told
    assert "99.95 %" in told


def test_durability_without_failures_is_still_json() -> None:
    told = as_json("durability", "--fail-per-second", "0")
    assert (told["loss"], told["half_lost_after_hours"]) == (0, None)


def test_durability_acted_out() -> None:
    options = ["--fail-per-second", "0.01", "--hours", "1", "--trials", "5000", "--seed", "2"]
    told = as_json("durability", *options)
    assert told["trial"]["low"] < told["loss"] < told["trial"]["high"]
    assert "acted out" in ran("durability", *options)


def test_durability_is_drawn_and_kept(tmp_path: Path) -> None:
    figure, table = tmp_path / "loss.png", tmp_path / "loss.csv"
    ran("durability", "--hours", "1", "--figure", str(figure), "--csv", str(table))
    assert figure.read_bytes().startswith(PNG)
    rows = lines(table)
    assert {(row["fail_per_second"], row["hours"]) for row in rows} >= {
        ("0.01", "7.0"),
        ("0.0001", "48.0"),
        ("0.0001", "1.0"),
    }
    last = next(row for row in rows if row["hours"] == "48.0")
    assert round(float(last["loss"]), 6) == 0.000069


def test_order_is_measured_drawn_and_kept(tmp_path: Path) -> None:
    figure, table = tmp_path / "order.png", tmp_path / "order.csv"
    options = ["--consumers", "2,8", "--failures", "0,0.05", "--items", "2000"]
    told = as_json("fifo", "order", *options, "--figure", str(figure), "--csv", str(table))
    assert figure.read_bytes().startswith(PNG)
    assert len(told["runs"]) == len(lines(table)) == 8
    own, tail = (
        next(
            run["delivered_mean"]
            for run in told["runs"]
            if (run["place"], run["consumers"], run["failure"]) == (place, 8, 0.05)
        )
        for place in ("own place", "tail")
    )
    assert 0 < own < tail
    assert "own place" in ran("fifo", "order", *options)


def test_scale_with_no_nodes_to_wait_for_fails_before_it_starts_any() -> None:
    with pytest.raises(BadOption, match="--nodes is 101"):
        ran("fifo", "scale", "--nodes", "101", "--clients", "1")
    with pytest.raises(BadOption, match="--clients is 'many'"):
        ran("fifo", "scale", "--clients", "many")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ("durability --fail-per-second 2", "--fail-per-second"),
        ("durability --hours -1", "--hours"),
        ("durability --figure loss.gif", "--figure"),
        ("durability --figure /nowhere/loss.png", "--figure"),
        ("durability --csv /nowhere/loss.csv", "--csv"),
        ("durability --trials -1", "--trials"),
        ("durability --trials 10 --seed -1", "--seed"),
        ("fifo order --seed -1", "--seed"),
        ("fifo order --items 0", "--items"),
        ("fifo order --consumers 1,,2", "--consumers"),
        ("fifo order --failures 0.9", "--failures"),
        ("fifo order --failures nan", "--failures"),
        ("fifo order --lease 1", "--lease"),
    ],
)
def test_a_wrong_option_is_refused_by_name(arguments: str, option: str) -> None:
    with pytest.raises(BadOption) as caught:
        ran(*arguments.split())
    assert caught.value.option == option
