"""How the functions of a pipeline reach Spark's workers: with their code, not by their name.

A worker on another machine can't import the folder a pipeline's file lies in. So all that was
imported from such a folder travels along with the functions that use it. What is installed is
expected to be installed there too.
"""

import importlib
import inspect
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from snowmelt.core.errors import BadOption
from snowmelt.spark.pipeline import Pipeline


def ship(functions: Iterable[Any]) -> None:
    """Makes the modules round these functions travel with them to Spark's workers."""
    from pyspark import cloudpickle  # noqa: PLC0415  only where Spark is there

    folders = {folder for function in functions if (folder := _folder_of(function)) is not None}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is not None and any(Path(file).is_relative_to(folder) for folder in folders):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _folder_of(function: Any) -> Path | None:
    """The folder of a function's module; None for one that is installed."""
    while hasattr(function, "func"):  # a partial
        function = function.func
    name = getattr(inspect.unwrap(function), "__module__", None) or type(function).__module__
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None or name.partition(".")[0] == "snowmelt":
        return None
    folder = Path(file).resolve().parent
    return None if _top(folder) in _installed() else folder


def _top(folder: Path) -> Path:
    """The folder from which what lies in this one is imported."""
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


def _installed() -> Iterator[Path]:
    for kind in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield Path(sysconfig.get_path(kind)).resolve()


def load(file: Path) -> Pipeline:
    """The pipeline that a Python file holds: an object at its top, or what `pipeline()` returns."""
    module = _imported(file)
    if callable(made := getattr(module, "pipeline", None)) and not isinstance(made, Pipeline):
        made = made()
        if isinstance(made, Pipeline):
            return made
    found = {id(one): one for one in vars(module).values() if isinstance(one, Pipeline)}
    if len(found) != 1:
        allowed = "one that holds one Pipeline at its top, or a function pipeline() returning one"
        raise BadOption("FILE", f"{file}, with {len(found)} pipelines", allowed)
    return next(iter(found.values()))


def _imported(file: Path) -> ModuleType:
    file = file.resolve()
    if not file.is_file() or file.suffix != ".py":
        raise BadOption("FILE", str(file), "a Python file with a pipeline in it")
    top = _top(file.parent)
    name = ".".join(file.relative_to(top).with_suffix("").parts)
    if (taken := sys.modules.get(name)) is not None and _lies_elsewhere(taken, file):
        raise BadOption("FILE", str(file), f"another name; {name} is a module of Python's already")
    sys.path.insert(0, str(top))
    try:
        return importlib.import_module(name)
    except Exception as error:
        line = _line_in(file, error)
        told = f"one that runs; at line {line} it raised {type(error).__name__}: {error}"
        raise BadOption("FILE", str(file), told) from error


def _lies_elsewhere(module: ModuleType, file: Path) -> bool:
    there = getattr(module, "__file__", None)
    return there is None or Path(there).resolve() != file


def _line_in(file: Path, error: BaseException) -> int:
    """The line that an exception came from; 0 when it is unknown."""
    if isinstance(error, SyntaxError):
        return error.lineno or 0
    walk, line = error.__traceback__, 0
    while walk is not None:
        if Path(walk.tb_frame.f_code.co_filename) == file:
            line = walk.tb_lineno
        walk = walk.tb_next
    return line
