"""The toy tracker's pipeline beside what its functions reach alone, on the same cores."""

import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from snowmelt.client.cluster import Cluster
from snowmelt.spark import Pipeline
from snowmelt.spark.shipping import load
from snowmelt.spark.stages import SparkStage

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
SEED: Final = 1
AT_ONCE: Final = 2000
HEARD_SECONDS: Final = 10.0


class Batch(msgspec.Struct, frozen=True):
    """One micro-batch of one stage, as Spark reports it."""

    stage: str
    rows: int
    begin: float
    seconds: float


class Batches(StreamingQueryListener):
    """Hears of all micro-batches that had rows."""

    def __init__(self) -> None:
        self.heard: list[Batch] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's words, all of these
        """Nothing is to be done."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing is to be done."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Nothing is to be done."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        told = event.progress
        if told.numInputRows:
            begin = datetime.fromisoformat(told.timestamp).timestamp()
            seconds = told.durationMs["triggerExecution"] / 1000
            self.heard.append(Batch(told.name, told.numInputRows, begin, seconds))

    def wait(self, stages: int) -> None:
        """Waits until so many stages were heard of: reports come a little after batches end."""
        end = time.monotonic() + HEARD_SECONDS
        while len({one.stage for one in self.heard}) < stages and time.monotonic() < end:
            time.sleep(0.05)

    @property
    def seconds(self) -> float:
        """From the begin of the first to the end of the last."""
        return max(one.begin + one.seconds for one in self.heard) - min(
            one.begin for one in self.heard
        )


class Tracker:
    """One pipeline, run again and again on the same queues: Spark is warm, and goes on there."""

    def __init__(self, spark: SparkSession, cluster: Cluster, url: str, folder: Path) -> None:
        load(EXAMPLES / "ufmulti" / "pipeline.py")
        self._spark = spark
        self._cluster = cluster
        self._url = url
        self._folder = Path(tempfile.mkdtemp(prefix="ufmulti-", dir=folder))
        self._fed = 0

    def run(self, events: int, batch_seconds: float | None = None) -> Batches:
        """Puts events through, and tells what micro-batches that took."""
        from ufmulti.feed import feed  # noqa: PLC0415  # importable by now
        from ufmulti.pipeline import RAW, pipeline  # noqa: PLC0415

        feed(self._cluster.fifo(RAW), events, SEED + self._fed, lambda _: None)
        self._fed += 1
        stages: Any = pipeline(str(self._folder / "pairs"))
        if batch_seconds is not None:
            stages = hurried(stages, batch_seconds)
        batches = Batches()
        self._spark.streams.addListener(batches)
        begin = time.perf_counter()
        stages.run(
            self._url, drain=True, checkpoints=self._folder / "checkpoints", session=self._spark
        )
        whole = time.perf_counter() - begin
        batches.wait(len(stages.stages))
        self._spark.streams.removeListener(batches)
        told = f"{batches.seconds:.1f} s from the first of {len(batches.heard)} batches to the last"
        print(f"{events:,} events in {whole:.1f} s, {told}", file=sys.stderr, flush=True)
        return batches


def hurried(pipeline: Pipeline, batch_seconds: float) -> Pipeline:
    """The same pipeline, whose batches last about so long."""
    made = Pipeline(pipeline.name)
    made._stages = [  # noqa: SLF001  # a value of its own
        replace(one, batch_seconds=batch_seconds) if isinstance(one, SparkStage) else one
        for one in pipeline.stages
    ]
    return made


def kernel(events: int, cores: int) -> float:
    """Events a second of all three functions alone, a process for each core, bodies in memory."""
    with ProcessPoolExecutor(cores, get_context("spawn")) as pool:
        share = events // cores
        taken: Sequence[float] = list(pool.map(_computed, range(cores), [share] * cores))
    return cores * share / max(taken)


def _computed(number: int, events: int) -> float:
    load(EXAMPLES / "ufmulti" / "pipeline.py")
    from ufmulti.generate import generate  # noqa: PLC0415
    from ufmulti.pairs import pairs_table, select_bodies  # noqa: PLC0415
    from ufmulti.reconstruct import reconstruct_bodies  # noqa: PLC0415

    made = [generate(first, AT_ONCE, SEED + number) for first in range(0, events, AT_ONCE)]
    begin = 0.0
    for bodies in [made[0], *made]:  # the first one twice: the first time is a start
        tracks = reconstruct_bodies(bodies)[0]
        pairs_table(select_bodies(tracks)[0])
        begin = begin or time.perf_counter()
    return time.perf_counter() - begin
