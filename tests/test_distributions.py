"""Three distributions have one version, and need each other in just that."""

import tomllib
from pathlib import Path
from typing import Any

import snowmelt

HOUSE = Path(__file__).parents[1]
PLACES = (".", "world", "lab")


def project(place: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((HOUSE / place / "pyproject.toml").read_text())["project"]
    return found


def test_versions_are_in_step() -> None:
    assert {project(place)["version"] for place in PLACES} == {snowmelt.__version__}
    for place in PLACES:
        extras = project(place).get("optional-dependencies", {})
        needed = [
            *project(place)["dependencies"],
            *(one for some in extras.values() for one in some),
        ]
        for one in needed:
            if one.startswith("snowmelt") and place != ".":
                assert one.endswith(f"=={snowmelt.__version__}"), one


def test_the_license_is_the_same_everywhere() -> None:
    assert len({(HOUSE / place / "LICENSE").read_text() for place in PLACES}) == 1
