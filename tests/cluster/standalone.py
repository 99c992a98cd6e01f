"""Spark's own cluster, small: a standalone master and workers, a process each, on the loopback.

The programs are those of the installed PySpark, started by `spark-class`. Executors are children of
their workers, in process groups of their own no less than these; all are ended in the end.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

import snowmelt
from snowmelt.cli.local import free_port
from snowmelt.spark.java import find_java

HOME = Path(pyspark.__file__).parent
BIN = str(Path(sys.prefix, "bin"))
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_SECONDS = 60.0
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Tests are short: code compiled fast serves them better than fast code."""


class Daemon:
    """One of Spark's long-lived programs; its log tells when it is ready."""

    def __init__(
        self, command: Sequence[str], log: Path, ready: str, more: Mapping[str, str]
    ) -> None:
        self.log = log
        self._ready = ready
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=plain_environment() | more,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Waits until it says that it is ready."""
        end = time.monotonic() + START_SECONDS
        while self._ready not in self.log.read_text(errors="replace"):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"not ready: {self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Asks it and all its children to end; whoever does not is killed."""
        for sign, seconds in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, sign)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
                break
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


class Standalone:
    """A master and workers of one core each. Use it in a `with`."""

    def __init__(
        self, folder: Path, workers: int = 2, environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self._workers = workers
        self._environment = sources() | dict(environment or {})
        self.url = ""
        self.daemons: list[Daemon] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the workers, and then the master."""
        for daemon in reversed(self.daemons):
            daemon.stop()
        self.daemons.clear()

    def connect_server(self, variables: Mapping[str, str]) -> str:
        """Starts a Connect server whose work is done here; where it is found."""
        port = free_port()
        said = {
            "spark.master": self.url,
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.cores.max": "2",
            **SMALL,
        }
        settings = [word for key, value in said.items() for word in ("--conf", f"{key}={value}")]
        program = [str(HOME / "bin" / "spark-submit"), "--class", CONNECT, *settings]
        name = f"connect-{port}"
        more = {"SPARK_DAEMON_MEMORY": "600m"} | dict(variables)  # it is a driver as well
        self._daemon([*program, "spark-internal"], name, "Spark Connect server started", more)
        self.daemons[-1].wait()
        return f"sc://127.0.0.1:{port}"

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        here = ["--host", "127.0.0.1", "--webui-port", "0"]
        master = [str(HOME / "bin" / "spark-class"), MASTER, *here, "--port", str(port)]
        self._daemon(master, "master", "I have been elected leader")
        for number in range(self._workers):
            place = ["--cores", "1", "--memory", "700m", "--work-dir", str(self.folder / "work")]
            worker = [str(HOME / "bin" / "spark-class"), WORKER, *here, "--port", "0", *place]
            self._daemon([*worker, self.url], f"worker-{number}", "Successfully registered with")
        for daemon in self.daemons:
            daemon.wait()

    def _daemon(
        self,
        command: Sequence[str],
        name: str,
        ready: str,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        log = self.folder / f"{name}.log"
        more = self._environment | dict(variables or {})
        self.daemons.append(Daemon(command, log, ready, more))


SMALL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.catalogImplementation": "in-memory",
}


def plain_environment() -> dict[str, str]:
    """This program's environment, as if nobody had said anything of Spark, nor of our sources."""
    spark = ("SPARK", "PYSPARK", "PYTHONPATH", "MASTER")
    found = {name: value for name, value in os.environ.items() if not name.startswith(spark)}
    found["PATH"] = os.pathsep.join(
        one for one in os.environ["PATH"].split(os.pathsep) if one != BIN
    )
    java = find_java()
    found["JAVA_HOME"] = str(java.launch_home)
    if java.trimmed:
        found["SNOWMELT_TRIMMED_JAVA"] = str(java.home / "bin" / "java")
    return found | {"SPARK_DAEMON_MEMORY": "200m", "SPARK_DAEMON_JAVA_OPTS": QUICK}


def sources() -> dict[str, str]:
    """Where this program has our sources from: a checkout need not be installed as it is."""
    own, more = str(Path(snowmelt.__file__).parents[1]), os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys((own, *more.split(os.pathsep))))}
