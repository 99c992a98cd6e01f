"""A cluster of Spark's own on this machine: a standalone master and workers, a process each.

The programs are those of the installed PySpark, started by `spark-class`. Each has a process group,
in which its children are as well, executors among them; so what is ended in the end is all of it.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import pyspark
from pyspark.find_spark_home import _find_spark_home

from snowmelt.core.errors import Unavailable
from snowmelt.spark.java import ensure_java

MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
REGISTERED: Final = "Successfully registered with master"
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.05
TOLD: Final = 2000
QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that has little to do: code compiled fast serves it better than fast code."""
CLASSES: Final = Path(sys.prefix, f"spark-{pyspark.__version__}.jsa")
"""Classes of Spark's as Java has them when it has read and checked them."""


def quick() -> str:
    """Options for a Java that lives for seconds; with these classes its start costs half.

    One that they are not of, as a newer one, goes on without them, and says nothing of it.
    """
    classes = f" -Xshare:auto -XX:SharedArchiveFile={CLASSES} -Xlog:disable"
    return QUICK + classes if CLASSES.exists() else QUICK


class Daemon:
    """One long-lived program, whose log says when it is ready."""

    def __init__(
        self, command: Sequence[str], log: Path, ready: str, environment: Mapping[str, str]
    ) -> None:
        self.log = log
        self.command = command
        self._ready = re.compile(ready)
        with log.open("wb") as file:
            self.process = subprocess.Popen(  # noqa: S603  # Spark's own programs
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=log.parent,
                start_new_session=True,
            )

    def wait(self) -> str:
        """Waits until it says that it is ready; what it says then."""
        end = time.monotonic() + START_SECONDS
        while True:
            text = self.log.read_text(errors="replace")
            if found := self._ready.search(text):
                return found[0]
            if self.process.poll() is not None or time.monotonic() > end:
                raise Unavailable(f"{self.log.stem} of Spark did not start: {text[-TOLD:]}")
            time.sleep(LOOK_SECONDS)

    def children(self) -> list[int]:
        """The processes it has started, as executors are a worker's; each is a thread's of it."""
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return [int(word) for one in threads for word in _told(one / "children").split()]

    def kill(self) -> None:
        """Ends it, with all its children, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_SECONDS)

    def stop(self) -> None:
        """Asks it and all its children to end; those that do not are killed."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        self.kill()


def _told(file: Path) -> str:
    """What a file says; nothing when its thread has ended."""
    try:
        return file.read_text()
    except OSError:
        return ""


class Standalone:
    """A master, and workers of one core each. Use it in a `with`."""

    def __init__(
        self,
        folder: Path,
        workers: int = 2,
        *,
        memory: str = "1g",
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        ensure_java()
        self.folder = folder
        self.url = ""
        self.daemons: list[Daemon] = []
        self._count = workers
        self._memory = memory
        self._environment = dict(os.environ if environment is None else environment)
        self._environment.setdefault("SPARK_DAEMON_MEMORY", "200m")
        self._environment.setdefault("SPARK_DAEMON_JAVA_OPTS", quick())
        self._prefix = list(prefix)
        """What a worker's command begins with."""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def workers(self) -> list[Daemon]:
        """The workers, the first to be started first."""
        return self.daemons[1 : 1 + self._count]

    def restart(self, worker: Daemon) -> None:
        """Kills a worker with its executors, and starts one like it."""
        worker.kill()
        at = self.daemons.index(worker)
        another = self.begin(worker.command, worker.log.stem, REGISTERED)
        self.daemons[at] = self.daemons.pop()
        another.wait()

    def stop(self) -> None:
        """Ends the workers, and then the master."""
        for daemon in reversed(self.daemons):
            daemon.stop()
        self.daemons.clear()

    def begin(
        self, command: Sequence[str], name: str, ready: str, more: Mapping[str, str] | None = None
    ) -> Daemon:
        """Starts a program that ends with the cluster."""
        environment = self._environment | dict(more or {})
        daemon = Daemon(command, self.folder / f"{name}.log", ready, environment)
        self.daemons.append(daemon)
        return daemon

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        start = str(Path(_find_spark_home(), "bin", "spark-class"))
        here = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = self.begin([start, MASTER, *here], "master", r"spark://127\.0\.0\.1:[1-9]\d*")
        self.url = master.wait()
        share = ("--cores", "1", "--memory", self._memory, "--work-dir", str(self.folder / "work"))
        for number in range(self._count):
            worker = [*self._prefix, start, WORKER, *here, *share, self.url]
            self.begin(worker, f"worker-{number}", REGISTERED)
        for daemon in self.workers:
            daemon.wait()
