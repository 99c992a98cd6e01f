"""What is installed by hashes is what the tests pass with."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def lines(file: str) -> list[str]:
    some = (ROOT / file).read_text().splitlines()
    return [one for one in some if one and not one.startswith("#")]


def named(pin: str) -> str:
    name, version = pin.split("==")
    return f"{re.sub(r'[-_.]+', '-', name).lower()}=={version}"


def test_each_version_of_the_constraints_has_a_hash_and_no_other() -> None:
    locked = [one.split(" --hash=sha256:") for one in lines("requirements.lock")]
    assert sorted(pin for pin, _ in locked) == sorted(map(named, lines("constraints.txt")))
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for _, digest in locked)
