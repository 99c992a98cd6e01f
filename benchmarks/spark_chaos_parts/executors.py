"""A cluster of Spark beside the nodes, and what is killed of it."""

import os
from pathlib import Path
from random import Random
from typing import Final

from benchmarks.spark_chaos_parts.processes import kill
from benchmarks.spark_chaos_parts.program import python_path

from snowmelt.spark.standalone import Standalone

ELSEWHERE: Final = ("executor", "machine")


def machines(folder: Path) -> Standalone:
    """A master and two workers, whose executors find what this program finds."""
    environment = {**os.environ, "PYTHONPATH": python_path()}
    return Standalone(folder / "spark", memory="700m", environment=environment)


def kill_elsewhere(kind: str, spark: Standalone, chance: Random) -> None:
    """Kills an executor, or a worker with its executor, in whose place another is started."""
    worker = chance.choice(spark.workers)
    if kind == "executor":
        for executor in worker.children():
            kill(executor)
    else:
        spark.restart(worker)
