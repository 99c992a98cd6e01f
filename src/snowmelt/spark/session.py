"""A Spark session that knows queues, where Spark's own configuration says, or else on this machine.

1. Where it runs says, from the strongest: the arguments `remote` and `master`, the settings given,
   and what has been said to Spark itself (`configuration.py`). Only where none of them says
   anything a local one is made, quiet and with a Java that is found.
2. What has been said to Spark itself is not overruled by settings made here.
3. Executors run the Python that is said (`PYSPARK_PYTHON`, `spark.pyspark.python`), else the one
   that runs this program: on many clusters an environment lies at the same path everywhere.
4. Spark plans a Python source on the driver with the path that executors have. A path within an
   archive that is unpacked for executors is not there on the driver; a link makes it so.
"""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from snowmelt.core.errors import BadOption
from snowmelt.spark.configuration import MASTER, REMOTE, said
from snowmelt.spark.java import ensure_java
from snowmelt.spark.trial import check_planner
from snowmelt.spark.where import at_once, check_listening, is_remote

if TYPE_CHECKING:
    from snowmelt.spark.reader_function import ReaderFunction

LOGGING: Final = Path(__file__).parent / "log4j2.properties"
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
PYTHON: Final = "spark.pyspark.python"


def session(
    name: str = "snowmelt", *, master: str | None = None, remote: str | None = None, **conf: str
) -> SparkSession:
    """The active session, or a new one; queues are known to it.

    A new session runs where `master` or `remote` says, else where `conf` or Spark's own
    configuration says: `PYSPARK_SUBMIT_ARGS`, the environment variables `SPARK_REMOTE` and
    `SPARK_MASTER`, or `spark-defaults.conf`; else on all cores of this machine. Run by
    `spark-submit`, what was said there counts. Names in `conf` are Spark's own, and overrule every
    setting made here:

        spark = session("tracks", **{"spark.driver.memory": "4g"})
        spark = session("tracks", master="spark://head:7077")
        spark = session("tracks", remote="sc://gate:15002")
    """
    if master is not None and remote is not None:
        raise BadOption("remote", remote, f"none with master, which is {master!r}")
    found = _active(master, remote)
    if found is None:
        found = _made(name, _settings(master, remote, conf))
    else:
        for key, value in conf.items():
            found.conf.set(key, value)
    register(found)
    return found


def register(session: SparkSession) -> None:
    """Makes `format("snowmelt")` known to a session that was made elsewhere.

    It learns how many tasks the session runs at once, as far as executors are there by now. Call it
    again after more of them came.

    A Connect server finds it by itself where the package is installed for its Python; if it is
    missing there, or is another version, you learn it now and not from the first query.
    """
    if is_remote(session):
        check_planner(session)
        return
    from snowmelt.spark.datasource import of_session  # noqa: PLC0415  only when asked for

    session.dataSource.register(of_session(at_once(session)))


def register_inside(session: SparkSession, group: str, inside: "ReaderFunction") -> str:
    """Makes a source known that makes something of its rows; the word for `format`."""
    from snowmelt.spark.datasource import of_session  # noqa: PLC0415  only when asked for

    name = f"snowmelt_{group}"
    session.dataSource.register(of_session(at_once(session), name, inside))
    return name


def _active(master: str | None, remote: str | None) -> SparkSession | None:
    try:
        found = SparkSession.active()
    except PySparkRuntimeError:  # there is none
        return None
    if is_remote(found) or remote is not None:
        if remote is None and master is None:
            return found
        told = f"{master or remote}"
        raise BadOption("remote" if remote else "master", told, "none: there is an active session")
    here = found.conf.get(MASTER)
    if master not in (None, here):
        raise BadOption("master", master, f"{here}, which the active session has; or stop that one")
    return found


def _made(name: str, settings: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    check_listening(settings.get(REMOTE) or settings.get(MASTER) or "")
    if REMOTE not in settings:
        if not _submitted():
            ensure_java()
        link_python(Path.cwd())
    return builder.getOrCreate()


def _settings(master: str | None, remote: str | None, conf: dict[str, str]) -> dict[str, str]:
    if _submitted():
        return conf
    told = said()
    asked = remote or conf.get(REMOTE) or (None if master or MASTER in conf else told.get(REMOTE))
    if asked:
        rest = {key: value for key, value in conf.items() if key != MASTER}
        return {**rest, REMOTE: asked}
    os.environ.pop("SPARK_REMOTE", None)  # it would go before a master that was asked for
    chosen = master or conf.get(MASTER) or told.get(MASTER) or "local[*]"
    settings = {**conf, MASTER: chosen}
    _name_python(chosen, {**told, **conf})
    return _local(chosen, settings, told) if chosen.startswith("local") else settings


def _submitted() -> bool:
    """Whether `spark-submit` runs this program: then its Java runs already, its settings stand."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _name_python(master: str, conf: dict[str, str]) -> None:
    """Which Python executors run (rule 3); an image for Kubernetes has its own."""
    if PYTHON in conf:
        os.environ.setdefault("PYSPARK_PYTHON", conf[PYTHON])
    elif not master.startswith("k8s:"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def link_python(folder: Path) -> None:
    """Makes the executors' Python be there on the driver, when its path is relative (rule 4).

    With `PYSPARK_PYTHON=./environment/bin/python` it is a link `environment` to where the packages
    of this program are. It stays: the next program needs it as well.
    """
    python = os.environ.get("PYSPARK_PYTHON", "")
    first, *rest = Path(python).parts or ("",)
    if not rest or Path(python).is_absolute() or (folder / python).exists():
        return
    allowed = (
        f"a path that the driver has as well, in {folder}: Spark plans a Python source there with "
        f"the executors' path. Make it a link to an environment with snowmelt[spark]"
    )
    if not Path(sys.prefix, *rest).exists():
        raise BadOption("PYSPARK_PYTHON", python, allowed)
    try:
        (folder / first).symlink_to(sys.prefix, target_is_directory=True)
    except OSError as error:
        raise BadOption("PYSPARK_PYTHON", python, f"{allowed} ({error.strerror})") from error


def _local(master: str, conf: dict[str, str], told: dict[str, str]) -> dict[str, str]:
    ours = quiet_settings(_cores(master))
    logging = ours.pop(JAVA_OPTIONS)
    settings = {key: value for key, value in ours.items() if key not in told} | conf
    if "SPARK_CONF_DIR" not in os.environ:  # a person's folder brings a person's logging
        more = conf.get(JAVA_OPTIONS, told.get(JAVA_OPTIONS, ""))
        settings[JAVA_OPTIONS] = f"{logging} {more}".strip()
    return settings


def quiet_settings(cores: int) -> dict[str, str]:
    """The settings of a session on this machine alone: no web page, and a log of errors only."""
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        JAVA_OPTIONS: f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
    }


def _cores(master: str) -> int:
    """How many tasks run at a time on this master.

    >>> _cores("local"), _cores("local[3]"), _cores("local[4,2]")
    (1, 3, 4)
    """
    threads = re.match(r"local\[(\d+)", master)
    if threads:
        return int(threads[1])
    return 1 if master == "local" else os.cpu_count() or 1
