"""Blocking faces are made of async ones, whose examples are run here as they stand."""

import ast
import doctest
import importlib
import inspect
import subprocess
import sys
from asyncio import Runner
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from runpy import run_path
from shutil import copy, copytree
from traceback import format_exception_only

import pytest

import snowmelt.client
from snowmelt.core.errors import SnowmeltError

ROOM = Path(snowmelt.client.__file__).parent
ROOT = ROOM.parents[2]
ASYNC = [
    path.relative_to(ROOM).with_suffix("").as_posix() for path in sorted(ROOM.rglob("*_async.py"))
]


def said(root: Path, *words: str) -> tuple[int, str]:
    command = [sys.executable, root / "scripts" / "faces.py", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """With one room, and the script."""
    for folder in ("src/snowmelt/client/counter", "scripts"):
        copytree(ROOT / folder, tmp_path / folder)
    copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_lint_asks_whether_faces_are_as_they_are_made() -> None:
    _, _, lint = (ROOT / "Makefile").read_text().partition("\nlint:")
    assert "scripts/faces.py --check" in lint.partition("\n\n")[0]


def test_a_face_that_was_changed_by_hand_is_told_and_made_anew(house: Path) -> None:
    face = house / "src/snowmelt/client/counter/face.py"
    as_made = face.read_text()
    assert said(house, "--check") == (0, "")
    face.write_text(as_made.replace("timeout: float | None = None", "timeout: float | None = 5"))
    code, text = said(house, "--check")
    assert code == 1
    assert "counter/face.py is not as it is made of face_async.py" in text
    assert said(house)[0] == 0
    assert face.read_text() == as_made


def test_what_is_written_by_hand_on_both_sides_is_there() -> None:
    for name in run_path(str(ROOT / "scripts" / "faces.py"))["BY_HAND"]:
        assert (ROOM / f"{name}.py").is_file(), name
        assert (ROOM / f"{name}_async.py").is_file(), name


@pytest.mark.parametrize("name", ASYNC)
def test_the_examples_of_an_async_face_do_what_they_say(name: str) -> None:
    module = importlib.import_module("snowmelt.client." + name.replace("/", "."))
    for test in doctest.DocTestFinder().find(module):
        with Runner() as runner:
            for example in test.examples:
                assert_told(example, test.globs, runner)


def assert_told(example: doctest.Example, known: dict[str, object], runner: Runner) -> None:
    """That it prints or raises what it says; it may await, as in `python -m asyncio`."""
    code = compile(example.source, "example", "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with redirect_stdout(StringIO()) as told:
        try:
            value = eval(code, known)
            if inspect.iscoroutine(value):
                runner.run(value)
        except SnowmeltError as error:
            print(format_exception_only(error)[-1], end="")
    want, got = example.exc_msg or example.want, told.getvalue()
    assert doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS), (want, got)


def test_aio_is_there_after_one_import_and_not_loaded_before() -> None:
    program = (
        "import sys, snowmelt\n"
        "assert 'snowmelt.aio' not in sys.modules\n"
        "assert snowmelt.aio.connect.__module__ == 'snowmelt.client.cluster_async'\n"
        "assert not hasattr(snowmelt, 'nothing')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_each_public_name_is_there_and_who_asks_for_none_loads_no_client() -> None:
    code = (
        "import sys, snowmelt\n"
        "assert not [name for name in sys.modules if name.startswith('snowmelt.client')]\n"
        "missing = [name for name in snowmelt.__all__ if not hasattr(snowmelt, name)]\n"
        "assert not missing, missing\n"
        "assert set(snowmelt.__all__) <= set(dir(snowmelt))\n"
        "assert not hasattr(snowmelt, 'nothing')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("module", ["snowmelt.aio", "snowmelt.spark.datasource"])
def test_a_client_loads_no_node(module: str) -> None:
    code = (
        f"import sys, {module}\n"
        "loaded = [name for name in sys.modules if name.startswith('snowmelt.')]\n"
        "families = ('baton', 'membership', 'multicast', 'queue')\n"
        "nodes = {f'snowmelt.protocols.{family}.node' for family in families}\n"
        "assert not (nodes | {'snowmelt.runtime.server'}).intersection(loaded), loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
