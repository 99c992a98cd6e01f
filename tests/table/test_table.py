"""The table: its rows are those of the faces, and each has a recipe."""

from pathlib import Path

import snowmelt
from table.faces import KINDS, ROWS, VALUES
from table.known import KNOWN, known
from table.recipes import RECIPES

TESTS = Path(__file__).parents[1]
PARTS = 12
"""Of so many parts one is run each time; it is the same one, so that a red cell stays red."""


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


def test_what_is_known_to_fail_is_there() -> None:
    for one in KNOWN:
        assert any(known(str(row), one.column) == one.lacks for row in ROWS), one
