"""Where the stages of a pipeline keep how far they are, and what they have to say."""

import logging
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from snowmelt.client.cluster import Cluster
from snowmelt.core.errors import BadOption, Empty, NoSuchQueue, QueueExists
from snowmelt.spark.stages import SparkStage, Stage, WorkerStage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger(__name__)
SPARK: Final = "_spark"
"""Whose log holds all that Spark says; no stage has this name."""


class PipelineFolder:
    """The folder of a pipeline below its checkpoints, on this machine or, by a URL, anywhere.

    >>> PipelineFolder("words", "hdfs://big/checkpoints").checkpoint("split")
    'hdfs://big/checkpoints/words/split'
    """

    def __init__(self, pipeline: str, checkpoints: str | Path) -> None:
        self._remote = "://" in str(checkpoints)
        root = str(checkpoints).rstrip("/") if self._remote else str(Path(checkpoints).absolute())
        self._root = f"{root}/{pipeline}"
        self._pipeline = pipeline
        self._logs: Path | None = None

    def check(self, stages: Sequence[Stage]) -> None:
        """Refuses a place where one of these stages could not write."""
        for stage in stages:
            if self._remote and isinstance(stage, WorkerStage):
                allowed = f"a folder on this machine: stage {stage.name} is a worker"
                raise BadOption("checkpoints", self._root, allowed)
        if not self._remote:
            try:
                Path(self._root).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                allowed = f"a folder that can be written ({error.strerror})"
                raise BadOption("checkpoints", self._root, allowed) from error

    def checkpoint(self, stage: str) -> str:
        """What Spark knows of a stage."""
        return f"{self._root}/{stage}"

    @property
    def here(self) -> Path | None:
        """The folder, when it is one of this machine."""
        return None if self._remote else Path(self._root)

    def folder(self, stage: str) -> Path:
        """What a worker knows of its stage."""
        return Path(self._root, stage)

    def log(self, stage: str) -> Path:
        """The log of a stage that failed; in a new folder that only its owner sees, if far away."""
        if self._remote and self._logs is None:
            self._logs = Path(tempfile.mkdtemp(prefix=f"snowmelt-{self._pipeline}-"))
        return (self._logs or Path(self._root)) / f"{stage}.log"


def make_sink(cluster: Cluster, stage: Stage) -> None:
    """Makes a stage's sink where it is not there: on as many nodes as its source.

    A source that no stage fills is not made: a misspelled name must not read as an empty queue.
    """
    try:
        settings = cluster.fifo(stage.source).stats().settings
    except NoSuchQueue:
        text = f"queue {stage.source!r}, the source of stage {stage.name}, is not in the cluster"
        raise NoSuchQueue(f"{text}; the first put into it makes it") from None
    if stage.sink is None:
        return
    with suppress(QueueExists, Empty):
        try:
            cluster.fifo(stage.sink).stats()
        except NoSuchQueue:
            sink = cluster.fifo(
                stage.sink, replicas=settings.replicas, durable_copies=settings.durable_copies
            )
            sink.get_many(1, timeout=0).release()  # the first use makes it


def check_places(
    session: "SparkSession", cluster: Cluster, places: PipelineFolder, stages: Sequence[SparkStage]
) -> None:
    """Tries the executors of a cluster beforehand, whether they reach all that the stages need.

    Parquet is written by executors, each on its own machine if the folder is not the same for all:
    that is refused. Of a checkpoint they write only what a stage remembers of earlier rows.
    """
    from snowmelt.spark.trial import check_executors  # noqa: PLC0415  only where Spark is
    from snowmelt.spark.where import has_local_files, is_local  # noqa: PLC0415

    if is_local(session):
        return
    folders = {}
    if has_local_files(session):
        written = {one.parquet: f"parquet of stage {one.name}" for one in stages if one.parquet}
        folders = {local: told for path, told in written.items() if (local := _local(path))}
        if places.here is not None:
            folders[places.here] = "checkpoints"
    view = cluster.status().view
    nodes = [member.address for member in view.members] if view is not None else []
    for folder, host in check_executors(session, nodes, list(folders)).items():
        allowed = "a folder that all machines see: hdfs://…, s3a://…, or a shared disk by file://…"
        error = BadOption(folders[folder], str(folder), f"{allowed}. {host} does not see this one")
        if folder != places.here:
            raise error
        _LOG.warning("%s; it serves stages that remember nothing of earlier rows", error)


def _local(path: str) -> Path | None:
    """The folder of this machine that a path means; None for one elsewhere.

    >>> _local("hdfs://big/out"), _local("file:///shared/out")
    (None, PosixPath('/shared/out'))
    """
    scheme, colon, rest = path.partition(":")
    if not colon:
        return Path(path).absolute()
    return Path("/", rest.lstrip("/")) if scheme == "file" else None
