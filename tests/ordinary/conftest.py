"""A node, programs of their own, and how often each is done: once now, many times in `soak`."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import warm
from client.conftest import node, pytest_pyfunc_call  # noqa: F401  a real node; coroutines
from ordinary.kinds import FOLDERS, KINDS, Kind

TESTS = Path(__file__).parents[1]


@pytest.fixture(params=[1, pytest.param(60, marks=pytest.mark.soak)], ids=["short", "long"])
def times(request: pytest.FixtureRequest) -> int:
    """How many times as often as takes a moment."""
    count: int = request.param
    return count


@pytest.fixture(params=KINDS, ids=lambda one: one.__name__.lower())
def kind(request: pytest.FixtureRequest) -> type[Kind]:
    """A kind of queue."""
    chosen: type[Kind] = request.param
    return chosen


@pytest.fixture(params=[*KINDS, *FOLDERS], ids=lambda one: one.__name__.lower())
def where(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[type[Kind], str]:
    """A kind of queue, and where it is: on a node, or in a folder."""
    chosen: type[Kind] = request.param
    if chosen in FOLDERS:
        return chosen, str(tmp_path / "queues")
    return chosen, request.getfixturevalue("node").url


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A queue of this test's own."""
    return "".join(one if one.isalnum() else "-" for one in request.node.name)[-90:].strip("-")


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., str]:
    """Runs a program of its own to its end, and tells what it printed; it has a minute at most."""

    def run(text: str, *given: object, seconds: float = 60) -> str:
        file = tmp_path / "program.py"
        file.write_text(f"import sys\nsys.path.insert(0, {str(TESTS)!r})\n{text}")
        command = [sys.executable, str(file), *map(str, given)]
        try:
            ended = warm.run(command, seconds)
        except subprocess.TimeoutExpired as late:
            pytest.fail(f"it stood still; it had said {late.stdout!r}, {late.stderr!r}")
        assert ended.returncode == 0, ended.stderr[-4000:]
        return ended.stdout

    return run
