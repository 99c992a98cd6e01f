"""A standalone cluster beside a node with queues, and drivers that are run on both."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.standalone import SMALL, plain_environment, small, sources

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.client.cluster import Cluster
from snowmelt_world.standalone import Daemon, Standalone

ROOT = Path(__file__).parents[2]
SECONDS = 280


class Bench:
    """Spark's cluster, ours, and a folder."""

    def __init__(self, spark: Standalone, url: str, queues: Cluster, folder: Path) -> None:
        self.spark = spark
        self.url = url
        self.queues = queues
        self.folder = folder

    def settings(self, name: str, **more: str) -> dict[str, str]:
        """Variables that name a folder of Spark's configuration, with these settings in it."""
        conf = self.folder / name
        conf.mkdir()
        lines = [f"{key} {value}" for key, value in (SMALL | more).items()]
        (conf / "spark-defaults.conf").write_text("\n".join(lines))
        return {"SPARK_CONF_DIR": str(conf)}

    def driver(self, name: str, *words: str, variables: Mapping[str, str]) -> dict[str, Any]:
        """What a driver of `programs.py` found."""
        done = self.run(sys.executable, "-m", "tests.cluster.programs", name, *words, **variables)
        assert done.returncode == 0, done.stderr[-4000:]
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def run(self, *command: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Runs a program as if nobody had said anything of Spark but this."""
        return subprocess.run(
            command,
            env=_environment(variables),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def begin(self, name: str, *words: str, variables: Mapping[str, str]) -> Daemon:
        """Starts a driver of `programs.py`, which may be killed."""
        command = [sys.executable, "-m", "tests.cluster.programs", name, *words]
        log = self.folder / f"{name}.log"
        return Daemon(command, log, "", _environment(variables))

    def bodies(self, queue: str) -> list[bytes]:
        """What waits in a queue."""
        return sorted(seen.body for seen in self.queues.fifo(queue).peek(100_000))


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    path = sources()["PYTHONPATH"]
    return plain_environment() | {"PYTHONPATH": f"{path}:{ROOT}"} | dict(variables)


@contextmanager
def bench_of(folder: Path, hidden: Path | None = None) -> Iterator[Bench]:
    """All of it, while this lasts; of a hidden folder workers see nothing."""
    with (
        LocalCluster(1, folder / "nodes", 0.5) as nodes,
        small(folder / "daemons", hidden) as spark,
    ):
        nodes.start()
        with snowmelt.connect(nodes.url) as queues:
            yield Bench(spark, nodes.url, queues, folder)
