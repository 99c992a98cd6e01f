"""The table: a part of its cells now, all of them in `soak`; and its page says what it is."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import snowmelt
from table import page
from table.columns import COLUMNS, GROUPS
from table.faces import KINDS, ROWS, VALUES
from table.known import KNOWN, known
from table.program import FEW
from table.recipes import RECIPES

TESTS = Path(__file__).parents[1]


def test_each_call_has_a_recipe() -> None:
    missing = [str(row) for row in ROWS if row not in RECIPES]
    assert not missing, f"{missing} have no recipe: tests/table/recipes says how one is written"


def test_each_public_class_is_a_row_or_a_value() -> None:
    faces = {face for kind in KINDS.values() for face in kind.values()}
    for name in snowmelt.__all__:
        thing = getattr(snowmelt, name)
        if isinstance(thing, type) and issubclass(thing, Exception):
            continue
        assert thing in faces or name in VALUES, f"{name} is in no row of tests/table/faces.py"


def test_the_page_is_what_the_run_said_of_the_rows_that_there_are() -> None:
    result = json.loads(page.RESULT.read_text())
    told = {(row, column) for row, found in result.items() for column in found}
    there = {(str(row), column) for row in ROWS for column in COLUMNS}
    assert told <= there, "rows or columns are gone: `make table`"
    cells = page.cells_of(result)
    assert page.PAGE.read_text() == page.page(cells), "the page is stale: `make table`"
    good = [one for one, _ in cells.values() if one in {"covered", "reason"}]
    assert len(good) >= 0.9 * len(cells)


def test_what_is_known_to_fail_is_there() -> None:
    for one in KNOWN:
        assert any(known(str(row), one.column) == one.lacks for row in ROWS), one


def cells(group: str, out: Path, *words: str) -> list[dict[str, Any]]:
    """What a program of its own found."""
    command = [sys.executable, "-m", "table.program", group, "--out", str(out), *words]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in out.read_text().splitlines() if line]


def judge(found: list[dict[str, Any]]) -> None:
    """None fails that is not known to, and those that were covered are."""
    result = json.loads(page.RESULT.read_text())
    wrong = [
        f"{one['row']} at {one['column']}: {one['fails'] or 'its plant does not make it fail'}"
        for one in found
        if not known(one["row"], one["column"])
        and (one["fails"] or (one["covered"] == "" and one["column"] in result.get(one["row"], ())))
    ]
    assert not wrong, "\n".join(wrong)


def test_a_few_cells_of_each_kind_and_each_quick_column(tmp_path: Path) -> None:
    found = cells("few", tmp_path / "cells")
    judge(found)
    assert {cell["row"] for cell in found} == set(FEW)
    quick = {name for name, column in COLUMNS.items() if not column.soak}
    assert {cell["column"] for cell in found if cell["covered"]} == quick


@pytest.mark.soak
@pytest.mark.parametrize("group", GROUPS)
def test_all_cells(group: str, tmp_path: Path) -> None:
    found = cells(group, tmp_path / "cells", "--long")
    judge(found)
    for one in KNOWN:
        of = [cell for cell in found if known(cell["row"], cell["column"]) == one.lacks]
        assert not of or any(cell["fails"] for cell in of), f"it is mended: {one}"
