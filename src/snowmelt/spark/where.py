"""Where a session's work is done: on this machine, on a cluster, or behind a Connect server."""

import re
import socket
from collections.abc import Iterator
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

from snowmelt.core.errors import Unreachable

CONNECT_PORT: Final = 15_002
ANSWER_SECONDS: Final = 5.0
MANY: Final = 65_536
"""More numbers than there are cores anywhere."""
_MASTERS: Final = re.compile(r"spark://(?P<hosts>[^/?#]+)")
_GATE: Final = re.compile(r"sc://(?P<hosts>[^/;?#]+)")


def is_remote(session: SparkSession) -> bool:
    """Whether a session is a Connect server's, which runs elsewhere and has no `sparkContext`."""
    return ".connect." in type(session).__module__


def is_local(session: SparkSession) -> bool:
    """Whether all of a session's work is done by processes of this machine alone."""
    return not is_remote(session) and str(session.sparkContext.master).startswith("local")


def at_once(session: SparkSession) -> int:
    """How many tasks are run at the same time, as far as executors are there by now.

    A Connect server does not say; but it cuts a range into as many parts.
    """
    if not is_remote(session):
        return session.sparkContext.defaultParallelism
    return session.range(0, MANY).select(spark_partition_id()).distinct().count()


def has_local_files(session: SparkSession) -> bool:
    """Whether a path without a scheme is one on the driver's machine, which is this one."""
    if is_remote(session):
        return False
    told = session.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS")  # noqa: SLF001
    return str(told).startswith("file:")


def check_listening(place: str) -> None:
    """Raises when nobody is there at a standalone master's or a Connect server's URL.

    Spark itself would try for a minute, or for ten. Of other masters it is known best where they
    are: YARN's and Kubernetes' stand in files of their own.
    """
    addresses = list(addresses_in(place))
    reasons = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), ANSWER_SECONDS).close()
        except OSError as error:
            reasons.append(f"{host}:{port}: {error}")
        else:
            return
    if reasons:
        text = f"nobody answers at {place} ({'; '.join(reasons)})"
        raise Unreachable(f"{text}; is it started, and is this the URL in its log?")


def addresses_in(place: str) -> Iterator[tuple[str, int]]:
    """The addresses of a URL whose host can be asked.

    >>> list(addresses_in("spark://one:7077,two:7078")), list(addresses_in("sc://gate/;token=x"))
    ([('one', 7077), ('two', 7078)], [('gate', 15002)])
    >>> list(addresses_in("yarn"))
    []
    """
    found = _MASTERS.match(place) or _GATE.match(place)
    for word in found["hosts"].split(",") if found else ():
        host, _, port = word.rpartition(":")
        if host and port.isdecimal():
            yield host.strip("[]"), int(port)
        else:
            yield word, CONNECT_PORT if place.startswith("sc:") else 7077
