"""A pipeline: stages joined by queues.

    from snowmelt.spark import Pipeline

    pipeline = (
        Pipeline("ufmulti")
        .stage("reconstruct", source="raw", sink="tracks", transform=reconstruct)
        .stage("select", source="tracks", sink="good", worker=select)
        .stage("write", source="good", transform=unpack, parquet="out/good")
    )
    pipeline.run("snowmelt://127.0.0.1:4410", drain=True)

Every stage is a query, or a loop, of its own, with its own place in its source. So stages may run
in one process, in several, or on several machines, be stopped one by one, and go on where they
were.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypedDict, Unpack

from snowmelt.core.errors import BadOption
from snowmelt.spark.graph import drained_order, drawn
from snowmelt.spark.stages import (
    NAME_LENGTH,
    SparkStage,
    Stage,
    StageOptions,
    checked_name,
    stage_of,
)
from snowmelt.spark.standing import Show, Standing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from snowmelt.spark.running_pipeline import RunningPipeline


class RunOptions(TypedDict, total=False):
    """How a pipeline is run; the keywords of `Pipeline.run` and `Pipeline.start`."""

    drain: bool
    checkpoints: str | Path
    stages: Sequence[str] | None
    session: "SparkSession | None"
    master: str | None
    remote: str | None
    conf: Mapping[str, str]
    token: str | None


class Pipeline:
    """Stages, each reading a queue, and each filling another, a folder of Parquet or your function.

    >>> words = Pipeline("words").stage("split", source="lines", sink="words", worker=bytes.split)
    >>> print(words.stage("write", source="words", parquet="out"))
    pipeline words
    lines ──> split (worker) ──> words
    words ──> write (Spark)  ──> Parquet in out
    """

    def __init__(self, name: str) -> None:
        self.name = checked_name("pipeline", name)
        self._stages: list[Stage] = []

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, {len(self._stages)} stages)"

    def __str__(self) -> str:
        return "\n".join([f"pipeline {self.name}", *drawn(self._stages)])

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All stages, in the order in which they were added."""
        return tuple(self._stages)

    def stage(
        self, name: str, *, source: str, sink: str | None = None, **how: Unpack[StageOptions]
    ) -> Self:
        """Adds a stage that reads the queue `source`; returns the pipeline.

        With `transform=`, a function from DataFrame to DataFrame, Spark does the work. The input
        has the columns of the source. The output goes to the queue `sink` (then it needs a column
        `value`), or as Parquet into the folder `parquet`, or, batch by batch, to `write(dataframe,
        batch_id)`. Queue and Parquet take every item exactly once; `write` is called again with the
        same batch under the same id after a crash.

        With `arrow=`, a function from an iterator of Arrow's record batches to another, it is done
        while the source is read, so rows do not go to Java and back before. What it makes has the
        `columns` said in Spark's words ("value binary"), and a `transform=` may follow. A row is to
        become what it becomes by itself: how rows are cut into batches may differ when they are
        read again.

        With `worker=`, a function from the bytes of one item to the bytes of any number of items,
        threads of this program do it, without Spark. What it returns is in `sink` exactly once;
        what else it does may happen again after a crash. One program at a time runs such a stage.

        A batch of Spark's grows until it lasts about `batch_seconds` (5), within `rows_per_batch`
        (1,000,000) and `bytes_per_batch` (1 GiB); a worker's has `rows_per_batch` (1,000) items and
        `bytes_per_batch` (64 MiB) at most. A batch is cut into as many tasks as the cluster runs at
        once; `partitions` is the least number of tasks, or the number of a worker's threads. An
        item that is lost with all its copies ends the stage; with `fail_on_loss=False` it goes on
        without it. A batch that has to be done again and then has other rows ends a stage of Spark
        with a `sink`, unless `fail_on_other_content=False`: then what came out first stays.
        """
        checked_name("stage", name)
        for other in self._stages:
            if other.name == name:
                raise BadOption("stage", name, f"a name that is new to pipeline {self.name}")
            mine = how.get("parquet")
            if mine and isinstance(other, SparkStage) and other.parquet == mine:
                allowed = f"a folder of its own; stage {other.name} writes into this one"
                raise BadOption(f"parquet of stage {name}", mine, allowed)
        if len(self.name) + len(name) > NAME_LENGTH:
            allowed = f"at most {NAME_LENGTH} letters together with the pipeline's {self.name!r}"
            raise BadOption("stage", name, allowed)
        self._stages.append(stage_of(name, source, sink, how))
        return self

    def group(self, stage: Stage) -> str:
        """The group under which a stage takes items from its source."""
        return f"{self.name}.{stage.name}"

    def chosen(self, names: Sequence[str] | None) -> tuple[Stage, ...]:
        """The stages of these names; all of them for None."""
        if not self._stages:
            raise BadOption("pipeline", self.name, "one with stages; add some with .stage(…)")
        known = [stage.name for stage in self._stages]
        for name in names if names is not None else ():
            if name not in known:
                raise BadOption("stage", name, ", ".join(known))
        return tuple(one for one in self._stages if names is None or one.name in names)

    def run(
        self, url: str, *, show: Show | None = None, **options: Unpack[RunOptions]
    ) -> tuple[Standing, ...]:
        """Runs the stages, all at the same time, and returns how each stood in the end.

        Without `drain=True` it runs until Ctrl-C or SIGTERM, and then stops in order; a second
        Ctrl-C ends it at once. With it, it ends when nothing is left: a stage is done when all
        stages that fill its source are done, wherever these run, and its source is empty.

        `checkpoints` is the folder in which every stage remembers how far it is: PIPELINE/STAGE
        below it. `stages` names those to run here, when others run elsewhere. `session` is a Spark
        session to use; else one is made, of `master`, `remote` and the settings `conf`, and stopped
        in the end. `token` lets into the cluster. `show` is called twice a second with how every
        stage stands. Raises `StageFailed`.
        """
        with self.start(url, **options) as running:
            return running.wait(show)

    def start(self, url: str, **options: Unpack[RunOptions]) -> "RunningPipeline":
        """The same, for a program that does more meanwhile. Use what it returns in a `with`."""
        from snowmelt.spark.running_pipeline import RunningPipeline  # noqa: PLC0415  a pipeline is a light thing

        for option in options:
            if option not in RunOptions.__annotations__:
                raise BadOption("option", option, ", ".join(RunOptions.__annotations__))
        if options.get("drain"):
            drained_order(self._stages)
        return RunningPipeline(self, url, options)
