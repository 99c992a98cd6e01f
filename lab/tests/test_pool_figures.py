"""The paper's figures: what they are made of, and what is written about them."""

import json
from pathlib import Path

import pytest

from snowmelt.core.errors import BadOption
from snowmelt_lab.pool.figures import picture
from snowmelt_lab.pool.figures.paper import Paper
from snowmelt_lab.pool.figures.plan import Figure, Measure
from snowmelt_lab.pool.figures.results import Results
from snowmelt_lab.pool.models import solve
from snowmelt_lab.pool.options import PoolOptions, Times
from snowmelt_lab.pool.runs import options_row
from test_commands import PNG, lines, ran
from test_pictures import written_over

FIGURES = {one.number: one for one in Paper(PoolOptions(objects=100), seed=1).figures()}


def made_up(figure: Figure) -> Results:
    """Numbers that are drawn in no time."""
    measured = {one.value: 0.5 for one in Measure} | {"ci95": {"wait_mean": 0.1}, "objects": 10}
    rows = [(point, options_row(point) | measured) for point in figure.points]
    return Results(rows, lambda options: {"wait_mean": 10 / options.max_hops, "hops_mean": 2.0})


def test_there_is_every_figure_with_measurements() -> None:
    assert list(FIGURES) == [2, 3, 4, 5, 6, 7, 8, 9]
    dots = [len(figure.points) for figure in FIGURES.values()]
    assert dots == [40, 40, 40, 44, 80, 20, 20, 40]


def test_figures_share_the_runs_that_they_have_in_common() -> None:
    assert FIGURES[2].points == FIGURES[3].points == FIGURES[4].points
    assert len(set(FIGURES[3].points) & set(FIGURES[5].points)) == 4
    assert len(set(FIGURES[3].points) & set(FIGURES[9].points)) == 4  # all know all


def test_figure_6_has_the_printed_times_and_the_same_round_100() -> None:
    printed, stretched = FIGURES[6].panels
    assert [curve.label for curve in printed.curves] == ["37.5 %", "75 %", "112.5 %", "150 %"]
    assert [curve.label for curve in stretched.curves] == ["50 %", "100 %", "150 %", "200 %"]
    dot = printed.curves[0].dots[0].options
    assert (dot.times, 1 / dot.produce_rate) == (Times.UNIFORM, 75)  # 50 to 100 evenly
    assert {point.options.produce_rate for point in printed.curves[0].dashed} == {0.01}


def test_figure_8_gives_each_kind_its_share_of_requests() -> None:
    (panel,) = FIGURES[8].panels
    for curve in panel.curves:
        for dot in curve.dots:
            fast, slow = dot.options.shares
            assert (fast, slow) == (dot.x, 1 - dot.x)
    assert len(panel.curves[0].line) > 3 * len(panel.curves[0].dots)


def test_the_model_converges_on_points_of_every_figure() -> None:
    panels = [panel for figure in FIGURES.values() for panel in figure.panels]
    curves = [curve for panel in panels for curve in panel.curves]
    points = [point.options for one in curves for point in (*one.line, *one.dashed)]
    different = list(dict.fromkeys(points))
    assert len(different) > 280
    for options in different[::9]:  # all of them take a while; a run of all figures tells of each
        answer = solve(options)
        assert answer.converged, options
        assert answer.wait_mean >= 2, options


@pytest.mark.parametrize("number", FIGURES)
def test_nothing_written_lies_on_anything_else_that_is_written(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    monkeypatch.setattr(picture, "save", lambda figure, _: drawn.append(figure))
    figure = FIGURES[number]
    picture.draw(figure, made_up(figure), [tmp_path / "one.png"])
    (canvas,) = drawn
    assert written_over(canvas) == []
    for axes in canvas.axes:
        assert axes.get_xlabel()
        assert axes.get_ylabel().endswith((")", "object"))


def test_the_command_writes_pictures_tables_and_every_point(tmp_path: Path) -> None:
    some = ("figures", "--out", str(tmp_path), "--only", "8", "--master", "none")
    told = ran(*some, "--objects", "200", "--half-width", "0")
    assert told.startswith(f"figures 8 of 20 runs in {tmp_path}")
    assert (tmp_path / "figure-8.png").read_bytes().startswith(PNG)
    assert "<svg" in (tmp_path / "figure-8.svg").read_text()
    table = lines(tmp_path / "figure-8.csv")
    assert len(table) == 20 + 2 * 9 * 3  # the line is finer than its dots
    assert {row["curve"] for row in table} == {"67 % by a half", "50 % by a tenth"}
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["seed"], summary["objects"], summary["runs"]) == (1, 200, 20)
    first = summary["points"][0]
    assert (first["figure"], first["x"], first["options"]["access"]) == (8, 0.1, "0.1,0.9")
    assert first["simulated"] > 20
    assert first["difference"] == pytest.approx(first["modelled"] / first["simulated"] - 1)
    between = [one for one in summary["points"] if one["simulated"] is None]
    assert len(between) == 2 * 9 * 3
    assert all(one["converged"] for one in summary["points"])


@pytest.mark.parametrize("text", ["1", "2,10", "two", "2;3"])
def test_a_figure_that_is_not_in_the_paper_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="some of 2 to 9"):
        ran("figures", "--out", str(tmp_path), "--only", text)
