"""Where the stages of a pipeline keep how far they are, and what they have to say."""

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from snowmelt.client.cluster import Cluster
from snowmelt.core.errors import BadOption, Empty, NoSuchQueue, QueueExists
from snowmelt.spark.stages import Stage, WorkerStage

SPARK: Final = "_spark"
"""Whose log holds all that Spark says; no stage has this name."""


class Places:
    """The folder of a pipeline below its checkpoints, on this machine or, by a URL, anywhere.

    >>> Places("words", "hdfs://big/checkpoints").checkpoint("split")
    'hdfs://big/checkpoints/words/split'
    """

    def __init__(self, pipeline: str, checkpoints: str | Path) -> None:
        self._remote = "://" in str(checkpoints)
        root = str(checkpoints).rstrip("/") if self._remote else str(Path(checkpoints).absolute())
        self._root = f"{root}/{pipeline}"
        self._pipeline = pipeline

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

    def folder(self, stage: str) -> Path:
        """What a worker knows of its stage."""
        return Path(self._root, stage)

    def log(self, stage: str) -> Path:
        """Where all is told of a stage that failed."""
        local = Path(tempfile.gettempdir()) if self._remote else Path(self._root)
        return local / (f"{self._pipeline}.{stage}.log" if self._remote else f"{stage}.log")


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
