"""Spark's own cluster as tests want it: small, and as if nobody had said anything of Spark."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark

import snowmelt
from snowmelt.cli.local import free_port
from snowmelt.spark.java import find_java
from snowmelt_world.standalone import Standalone, quick

HOME = Path(pyspark.__file__).parent
BIN = str(Path(sys.prefix, "bin"))
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
SMALL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": quick(),
    "spark.executor.extraJavaOptions": quick(),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.catalogImplementation": "in-memory",
}


def small(folder: Path, hidden: Path | None = None) -> Standalone:
    """A master and two workers; of a hidden folder they see nothing, as if on other machines."""
    environment = plain_environment() | sources()
    script = 'mount -t tmpfs none "$0" && exec "$@"'
    apart = ["unshare", "--mount", "sh", "-c", script, str(hidden)] if hidden is not None else []
    return Standalone(folder, memory="700m", environment=environment, prefix=apart)


def connect_server(spark: Standalone, variables: Mapping[str, str]) -> str:
    """Starts a Connect server whose work is done by a cluster; where it is found."""
    port = free_port()
    said = {
        "spark.master": spark.url,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.cores.max": "2",
        **SMALL,
    }
    settings = [word for key, value in said.items() for word in ("--conf", f"{key}={value}")]
    command = [str(HOME / "bin" / "spark-submit"), "--class", CONNECT, *settings, "spark-internal"]
    more = {"SPARK_DAEMON_MEMORY": "600m"} | dict(variables)  # it is a driver as well
    spark.begin(command, f"connect-{port}", "Spark Connect server started", more).wait()
    return f"sc://127.0.0.1:{port}"


def plain_environment() -> dict[str, str]:
    """This program's environment, as if nobody had said anything of Spark, nor of our sources."""
    spark = ("SPARK", "PYSPARK", "PYTHONPATH", "MASTER")
    found = {name: value for name, value in os.environ.items() if not name.startswith(spark)}
    folders = os.environ["PATH"].split(os.pathsep)
    found["PATH"] = os.pathsep.join(one for one in folders if one != BIN)
    java = find_java()
    found["JAVA_HOME"] = str(java.launch_home)
    if java.trimmed:
        found["SNOWMELT_TRIMMED_JAVA"] = str(java.home / "bin" / "java")
    return found


def sources() -> dict[str, str]:
    """Where this program has our sources from: a checkout need not be installed as it is."""
    own, more = str(Path(snowmelt.__file__).parents[1]), os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys((own, *more.split(os.pathsep))))}
