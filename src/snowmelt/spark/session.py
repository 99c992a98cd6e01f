"""A Spark session that knows queues, made for this machine unless a master is named."""

import os
import re
import sys
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from snowmelt.core.errors import BadOption
from snowmelt.spark.java import ensure_java

LOGGING: Final = Path(__file__).parent / "log4j2.properties"
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"


def session(name: str = "snowmelt", *, master: str | None = None, **conf: str) -> SparkSession:
    """The active session, or a new one; queues are registered with it.

    A new session's master is `master`, else `spark.master` in `conf`, else the environment variable
    `SPARK_MASTER`, else all cores of this machine. Run by `spark-submit`, what was said there
    counts. Names in `conf` are Spark's own, and overrule every setting made here:

        spark = session("tracks", **{"spark.driver.memory": "4g"})
    """
    found = _active(master)
    if found is None:
        found = _made(name, master, conf)
    else:
        for key, value in conf.items():
            found.conf.set(key, value)
    register(found)
    return found


def register(session: SparkSession) -> None:
    """Makes `format("snowmelt")` known to a session that was made elsewhere."""
    from snowmelt.spark.datasource import SnowmeltDataSource  # noqa: PLC0415  # only when asked for

    session.dataSource.register(SnowmeltDataSource)


def _active(master: str | None) -> SparkSession | None:
    try:
        found = SparkSession.active()
    except PySparkRuntimeError:  # there is none
        return None
    here = found.conf.get("spark.master")
    if master not in (None, here):
        raise BadOption("master", master, f"{here}, which the active session has; or stop that one")
    return found


def _made(name: str, master: str | None, conf: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName(name)
    for key, value in _settings(master, conf).items():
        builder = builder.config(key, value)
    if not _submitted():
        ensure_java()
    return builder.getOrCreate()


def _settings(master: str | None, conf: dict[str, str]) -> dict[str, str]:
    if _submitted():
        return conf
    chosen = master or conf.get("spark.master") or os.environ.get("SPARK_MASTER") or "local[*]"
    settings = {**conf, "spark.master": chosen}
    return _local(chosen, settings) if chosen.startswith("local") else settings


def _submitted() -> bool:
    """Whether `spark-submit` runs this program: then its Java runs already, its settings stand."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _local(master: str, conf: dict[str, str]) -> dict[str, str]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": str(_cores(master)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **conf,
    }
    if "SPARK_CONF_DIR" not in os.environ:  # a person's folder brings a person's logging
        logging = f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"
        settings[JAVA_OPTIONS] = f"{logging} {conf.get(JAVA_OPTIONS, '')}".strip()
    return settings


def _cores(master: str) -> int:
    """How many tasks run at a time on this master.

    >>> _cores("local"), _cores("local[3]"), _cores("local[4,2]")
    (1, 3, 4)
    """
    threads = re.match(r"local\[(\d+)", master)
    if threads:
        return int(threads[1])
    return 1 if master == "local" else os.cpu_count() or 1
