"""The command by which `spark-submit` runs a pipeline, wherever it lets the driver run.

1. In client mode the driver is here, with this Python. In cluster mode it is elsewhere: the file of
   the pipeline travels along, and lies in the driver's folder there.
2. What has been said to Spark is not said again. Only where nobody named a Python for executors
   they run this one, as with `session()`.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from pyspark.find_spark_home import _find_spark_home

from snowmelt.core.errors import BadOption
from snowmelt.spark.configuration import MASTER, pairs_in, said
from snowmelt.spark.java import ensure_java
from snowmelt.spark.session import PYTHON

MODE: Final = "spark.submit.deployMode"


class Submission(msgspec.Struct, frozen=True):
    """A program to run in this one's place."""

    program: str
    words: tuple[str, ...]
    environment: dict[str, str]


def submission(app: Path, file: Path, options: Sequence[str], words: Sequence[str]) -> Submission:
    """How `spark-submit` is run with options, and `snowmelt pipeline run` by it with `words`."""
    if not file.is_file():
        raise BadOption("FILE", str(file), "a Python file with a pipeline in it")
    settings = said() | pairs_in(options)
    away = settings.get(MODE) == "cluster"
    master = settings.get(MASTER, "")
    if away and master.startswith("spark:"):
        allowed = "client, on a standalone master: Spark runs no driver of Python's there"
        raise BadOption("--deploy-mode", "cluster", allowed)
    ensure_java()
    program = str(Path(_find_spark_home(), "bin", "spark-submit"))
    shipped = _with_file(options, file) if away else list(options)
    name = file.name if away else str(file)
    run = ("pipeline", "run", name, *words)
    return Submission(
        program, (program, *shipped, str(app), *run), _environment(settings, away, master)
    )


def _with_file(options: Sequence[str], file: Path) -> list[str]:
    """The options, and among those files that travel along this one.

    >>> _with_file(["--files", "a.txt"], Path("p.py"))
    ['--files', 'a.txt,p.py']
    """
    shipped = list(options)
    if "--files" in shipped[:-1]:
        shipped[shipped.index("--files") + 1] += f",{file}"
        return shipped
    return [*shipped, "--files", str(file)]


def _environment(settings: Mapping[str, str], away: bool, master: str) -> dict[str, str]:
    """The variables, with a Python named for driver and executors where none is."""
    environment = dict(os.environ)
    if PYTHON in settings or away or master.startswith("k8s:"):
        return environment
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    return environment
