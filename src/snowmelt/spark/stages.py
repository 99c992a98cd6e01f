"""What a stage is: where its items come from, what is done with them, and where the results go.

A stage is a value; nothing of Spark is touched before it runs.
"""

import re
from collections.abc import Callable, Iterable
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
    transform: Transform | None
    sink: str | None
    parquet: str | None
    write: Write | None
    rows_per_batch: int
    partitions: int | None
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
    rows_per_batch: int
    partitions: int
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
    return SparkStage(
        name,
        source,
        _function(name, "transform", how.get("transform")),
        sink,
        how.get("parquet"),
        _function(name, "write", how.get("write")),
        _number(name, "rows_per_batch", how.get("rows_per_batch", ROWS_PER_BATCH), 1_000_000_000),
        _number(name, "partitions", how["partitions"], 10_000) if "partitions" in how else None,
        _switch(name, "fail_on_loss", how.get("fail_on_loss", True)),
        _switch(name, "fail_on_other_content", how.get("fail_on_other_content", True)),
        _seconds(name, how.get("batch_seconds", BATCH_SECONDS)),
        _number(name, "bytes_per_batch", how.get("bytes_per_batch", BYTES_PER_BATCH), 1 << 40),
        _function(name, "arrow", how.get("arrow")),
        how.get("columns", COLUMNS),
    )


def _worker_stage(name: str, source: str, sink: str | None, how: StageOptions) -> WorkerStage:
    for option in _SPARKS_ALONE:
        if option in how:
            raise BadOption(f"stage {name}", f"with worker= and {option}=", "one of them")
    return WorkerStage(
        name,
        source,
        _function(name, "worker", how["worker"]),
        sink,
        _number(name, "rows_per_batch", how.get("rows_per_batch", ITEMS_PER_BATCH), 1_000_000),
        _number(name, "partitions", how.get("partitions", 1), 256),
        _switch(name, "fail_on_loss", how.get("fail_on_loss", True)),
        _number(name, "bytes_per_batch", how.get("bytes_per_batch", BYTES_OF_WORKER), 1 << 40),
    )


def _function(name: str, option: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise BadOption(f"{option} of stage {name}", value, "a function")
    return value


def _switch(name: str, option: str, value: object) -> bool:
    if type(value) is bool:
        return value
    raise BadOption(f"{option} of stage {name}", value, "True or False")


def _seconds(name: str, value: object) -> float:
    if type(value) in {int, float} and 1 <= value <= 3600:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise BadOption(f"batch_seconds of stage {name}", value, "a number of seconds, 1 to 3600")


def _number(name: str, option: str, value: object, highest: int) -> int:
    if type(value) is int and 1 <= value <= highest:
        return value
    raise BadOption(f"{option} of stage {name}", value, f"a whole number, 1 to {highest}")
