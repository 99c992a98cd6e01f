"""A trial before the first batch: whether planner and executors have what the work needs.

What is wrong with a place shows otherwise in the middle of a batch, as a stack of Java's or after a
time-out, and costs a stream its start. So each executor runs one small task beforehand. It reports
what is there, tries the nodes, and looks for a file that was just written into each folder that
must be the same for all. Each thing that is missing becomes a sentence with the cure.

1. What a task runs travels by value and imports nothing of ours at first: it has to run where we
   are not installed.
2. A local session is not tried: its executor is this machine's own.
"""

import json
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf

from snowmelt import __version__
from snowmelt.core.errors import BadOption, CallerError, Unavailable, Unreachable
from snowmelt.core.names import Address
from snowmelt.spark.failing import cause_of
from snowmelt.spark.where import at_once

PATIENCE: Final = 120.0
"""So long executors have to come and run their task: on a cold cluster each starts a Java."""
NODE_SECONDS: Final = 5.0
ROUNDS: Final = 3
CURE: Final = (
    'install snowmelt[spark] there, as here, or name a Python that has it: PYSPARK_PYTHON="/a/path '
    'that all have/bin/python", or an archive of an environment (docs/how-to/spark-cluster.md)'
)


class TrialResult(msgspec.Struct, frozen=True):
    host: str
    python: str
    versions: dict[str, str]
    """Of python, pyspark and snowmelt."""
    missing: str
    """What could not be imported, in Python's words; else empty."""
    silent: dict[str, str]
    """Nodes that don't answer, each with the reason."""
    unseen: list[str]
    """Files of the driver that are not there."""


def check_planner(session: SparkSession) -> None:
    """Raises a sentence when the driver's Spark can't plan a queue: it has no such source."""
    try:
        _ = session.read.format("snowmelt").load().schema
    except PySparkException as error:
        text = str(error)
        if "BadOption: queue is None" in text:  # our own words: it is there, and asks for options
            return
        if "DATA_SOURCE_NOT_FOUND" in text or "Failed to find the data source" in text:
            told = "the Spark server does not know format('snowmelt'): its Python has no snowmelt"
            raise CallerError(f"{told}; {CURE}") from None
        raise CallerError(f"the Spark server can't plan a queue: {_cause(text)}; {CURE}") from None


def check_executors(
    session: SparkSession, nodes: Sequence[Address] = (), folders: Sequence[Path] = ()
) -> dict[Path, str]:
    """Raises a sentence when an executor lacks something.

    `nodes` are those that have to be reached from there. Of `folders`, which lie on the driver's
    machine, it returns those that an executor does not see, each with that one's machine.
    """
    unseen: dict[Path, str] = {}
    with _marked(folders) as marks:
        task = _task(
            [(node.host, node.port) for node in nodes], [str(mark) for mark in marks], NODE_SECONDS
        )
        tried = 0
        for _ in range(ROUNDS):  # those that come while others are tried have their turn as well
            wanted = at_once(session)
            if wanted <= tried:
                break
            tried = wanted
            for found in _found(session, task, wanted):
                _check(found)
                unseen |= {Path(mark).parent: found.host for mark in found.unseen}
    return unseen


def _check(found: TrialResult) -> None:
    """Raises what is wrong with one executor."""
    where = f"the executor on {found.host}, with {found.python},"
    if found.missing:
        raise CallerError(f"{where} lacks what it needs: {found.missing}; {CURE}")
    for name, here in _versions().items():
        there = found.versions[name]
        if there != here:
            raise CallerError(f"{where} has {name} {there}, the driver has {here}; {CURE}")
    for node, reason in found.silent.items():
        text = (
            f"{where} can't reach the node at {node}: {reason}. Nodes must listen on an address "
            "that all machines reach (`snowmelt node --listen HOST:PORT`), and the way be open"
        )
        raise Unreachable(text)


def _versions() -> dict[str, str]:
    major, minor = sys.version_info[:2]
    return {
        "python": f"{major}.{minor}",
        "pyspark": pyspark.__version__,
        "snowmelt": __version__,
    }


@contextmanager
def _marked(folders: Sequence[Path]) -> Iterator[list[Path]]:
    """A new file in each folder meanwhile; Spark passes over files whose name begins so."""
    with ExitStack() as stack:
        marks = []
        for folder in folders:
            mark = folder / f".snowmelt-{uuid.uuid4().hex}"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                mark.touch()
            except OSError as error:
                allowed = f"one that can be written ({error.strerror})"
                raise BadOption("folder", str(folder), allowed) from error
            stack.callback(mark.unlink, missing_ok=True)
            marks.append(mark)
        yield marks


def _task(nodes: list[tuple[str, int]], marks: list[str], seconds: float) -> Callable[[int], str]:
    """What a task does; a function in a function, so that it travels by value (rule 1)."""

    def look(_: int) -> str:
        import json  # noqa: PLC0415  all that a task needs, it has to bring
        import os  # noqa: PLC0415
        import socket  # noqa: PLC0415
        import sys  # noqa: PLC0415

        versions = {"python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
        missing = ""
        try:
            import pyspark  # noqa: PLC0415

            import snowmelt  # noqa: PLC0415
            import snowmelt.spark.datasource  # noqa: PLC0415

            versions |= {"pyspark": pyspark.__version__, "snowmelt": snowmelt.__version__}
        except ImportError as error:
            missing = str(error)
        silent = {}
        for host, port in nodes:
            try:
                socket.create_connection((host, port), seconds).close()
            except OSError as error:
                silent[f"{host}:{port}"] = str(error)
        told = {
            "host": socket.gethostname(),
            "python": sys.executable,
            "versions": versions,
            "missing": missing,
            "silent": silent,
            "unseen": [mark for mark in marks if not os.path.exists(mark)],  # noqa: PTH110
        }
        return json.dumps(told)

    return look


def _found(session: SparkSession, task: Callable[[int], str], tasks: int) -> list[TrialResult]:
    """What so many tasks found; raises a sentence when none is run in time, or can't be run."""
    looking = udf(task, "string", useArrow=False)  # Arrow would have to be there
    rows = session.range(0, tasks, 1, tasks).select(looking(col("id")).alias("found"))
    tag = f"snowmelt-trial-{uuid.uuid4().hex}"
    told: list[Any] = []
    failed: list[Exception] = []

    def collect() -> None:
        session.addTag(tag)
        try:
            told.extend(rows.collect())
        except Exception as error:  # whatever it is, it is told below
            failed.append(error)

    thread = threading.Thread(target=collect, name="snowmelt-trial", daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if thread.is_alive():
        with suppress(Exception):
            session.interruptTag(tag)
        text = (
            f"no executor ran a small task within {PATIENCE:g} s: the cluster has no free cores, "
            "or no worker with as much memory as an executor wants (spark.executor.memory); its "
            "master's page tells"
        )
        raise Unavailable(text)
    if failed:
        raise CallerError(f"executors can't run Python: {_cause(str(failed[0]))}; {CURE}")
    return [msgspec.convert(json.loads(row["found"]), TrialResult) for row in told]


def _cause(text: str) -> str:
    """Why, in one line.

    >>> _cause('Job aborted: java.io.IOException: Cannot run program "./e/bin/python": error=2, No')
    'Cannot run program "./e/bin/python": error=2, No'
    """
    at = text.find("Cannot run program")
    return text[at:].partition("\n")[0] if at >= 0 else cause_of(text)
