"""What a stage is: where its items come from, what is done with them, and where the results go.

A stage is a value; nothing of Spark is touched before it runs.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypedDict

from snowmelt.core.errors import BadOption
from snowmelt.core.names import queue_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from snowmelt.spark.reader_function import ArrowFunction

Transform = Callable[["DataFrame"], "DataFrame"]
Write = Callable[["DataFrame", int], None]
Worker = Callable[[bytes], Iterable[bytes]]

ROWS_PER_BATCH: Final = 1_000_000
"""At most; a batch begins small and grows towards `BATCH_SECONDS`."""
BATCH_SECONDS: Final = 5.0
BYTES_PER_BATCH: Final = 1 << 30
"""At most: large bodies reach this before they reach the time."""
BYTES_OF_WORKER: Final = 64 << 20
"""The same of a worker, which has a batch and its results in memory."""
COLUMNS: Final = "value binary"
ITEMS_PER_BATCH: Final = 1000
NAME_LENGTH: Final = 46
"""Of a pipeline's and a stage's name together: a producer's name has to hold more than these."""
_SPARKS_ALONE: Final = (
    "transform",
    "arrow",
    "columns",
    "write",
    "parquet",
    "fail_on_other_content",
    "batch_seconds",
)
_MOST_OF_SPARK: Final = {
    "rows_per_batch": 1_000_000_000,
    "bytes_per_batch": 1 << 40,
    "partitions": 10_000,
}
_MOST_OF_WORKER: Final = {
    "rows_per_batch": 1_000_000,
    "bytes_per_batch": 1 << 40,
    "partitions": 256,
}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class StageOptions(TypedDict, total=False):
    """What a stage does, and how much at a time; the keywords of `Pipeline.stage`."""

    transform: Transform
    arrow: "ArrowFunction"
    columns: str
    worker: Worker
    write: Write
    parquet: str
    rows_per_batch: int
    bytes_per_batch: int
    batch_seconds: float
    partitions: int
    fail_on_loss: bool
    fail_on_other_content: bool


@dataclass(frozen=True)
class SparkStage:
    """A function from DataFrame to DataFrame, its result put into a queue, a file or a function.

    Exactly one of `sink`, `parquet` and `write` is set.
    """

    name: str
    source: str
    transform: Transform | None = None
    sink: str | None = None
    parquet: str | None = None
    write: Write | None = None
    rows_per_batch: int = ROWS_PER_BATCH
    partitions: int | None = None
    fail_on_loss: bool = True
    fail_on_other_content: bool = True
    batch_seconds: float = BATCH_SECONDS
    bytes_per_batch: int = BYTES_PER_BATCH
    arrow: "ArrowFunction | None" = None
    """What is made of the rows while they are read, before `transform`."""
    columns: str = COLUMNS
    """Those that `arrow` makes."""


@dataclass(frozen=True)
class WorkerStage:
    """A function from one body to any number of bodies, run by threads of this program."""

    name: str
    source: str
    worker: Worker
    sink: str | None
    rows_per_batch: int = ITEMS_PER_BATCH
    partitions: int = 1
    fail_on_loss: bool = True
    bytes_per_batch: int = BYTES_OF_WORKER


Stage = SparkStage | WorkerStage


def stage_of(name: str, source: str, sink: str | None, how: StageOptions) -> Stage:
    """Checks what was said about a stage, and makes it.

    >>> stage_of("double", "in", "out", {"worker": lambda body: [body, body]}).partitions
    1
    >>> stage_of("double", "in", "out", {})
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: stage double is 'without transform=, arrow= and worker='; ...
    """
    for option in how:
        if option not in StageOptions.__annotations__:
            raise BadOption(
                f"an option of stage {name}", option, ", ".join(StageOptions.__annotations__)
            )
    queue_name(source)
    if sink is not None:
        queue_name(sink)
    return (
        _worker_stage(name, source, sink, how)
        if "worker" in how
        else _spark_stage(name, source, sink, how)
    )


def checked_name(option: str, text: str) -> str:
    """Checks the name of a pipeline or a stage, which is part of names of groups and folders.

    >>> checked_name("stage", "fit.tracks")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: stage is 'fit.tracks'; allowed: letters, digits, _ and -, ...
    """
    if not _NAME.fullmatch(text):
        raise BadOption(option, text, "letters, digits, _ and -, the first a letter or a digit")
    return text


def _spark_stage(name: str, source: str, sink: str | None, how: StageOptions) -> SparkStage:
    targets = [sink, how.get("parquet"), how.get("write")]
    if sum(target is not None for target in targets) != 1:
        several = len(targets) - targets.count(None)
        told = "with several targets" if several else "without a target"
        raise BadOption(f"stage {name}", told, "one of sink=QUEUE, parquet=FOLDER, write=FUNCTION")
    if sink is not None and not {"transform", "arrow"} & how.keys():
        allowed = (
            "transform=FUNCTION of a DataFrame, arrow=FUNCTION of batches, or worker=FUNCTION of a "
            "body"
        )
        raise BadOption(f"stage {name}", "without transform=, arrow= and worker=", allowed)
    if "columns" in how and "arrow" not in how:
        raise BadOption(f"columns of stage {name}", how["columns"], "none without arrow=")
    return SparkStage(name, source, sink=sink, **_checked(name, how, _MOST_OF_SPARK))


def _worker_stage(name: str, source: str, sink: str | None, how: StageOptions) -> WorkerStage:
    for option in _SPARKS_ALONE:
        if option in how:
            raise BadOption(f"stage {name}", f"with worker= and {option}=", "one of them")
    return WorkerStage(name, source, sink=sink, **_checked(name, how, _MOST_OF_WORKER))


def _checked(name: str, how: StageOptions, most: Mapping[str, int]) -> dict[str, Any]:
    """What was said, each option held against what it may be; a stage has the others itself."""
    said: dict[str, Any] = {**how}
    for option, value in said.items():
        match option:
            case "transform" | "arrow" | "write" | "worker":
                fits, allowed = value is None or callable(value), "a function"
            case "fail_on_loss" | "fail_on_other_content":
                fits, allowed = type(value) is bool, "True or False"
            case "batch_seconds":
                fits = type(value) in {int, float} and 1 <= value <= 3600
                allowed = "a number of seconds, 1 to 3600"
            case "rows_per_batch" | "bytes_per_batch" | "partitions":
                allowed = f"a whole number, 1 to {most[option]}"
                fits = type(value) is int and 1 <= value <= most[option]
            case _:
                continue
        if not fits:
            raise BadOption(f"{option} of stage {name}", value, allowed)
    return said
