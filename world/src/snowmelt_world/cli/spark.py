"""`--spark MASTER`: a command's work done on Spark, which is started for it and stopped again."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import typer
from rich.console import Console

from snowmelt.cli.pipeline import spark_extra
from snowmelt.core.errors import BadOption
from snowmelt_world.work import Crew

MASTER: Final = re.compile(r"local(\[([1-9]\d*|\*)(,[1-9]\d*)?\])?|yarn|(spark|k8s)://.+")
"""What Spark takes; anything else it answers with a stack, after a while."""
SPARK = typer.Option(help="Do it on Spark: its master, such as local[2] or spark://HOST:7077.")


@contextmanager
def on_spark(
    master: str, command: str, *, option: str = "--spark", also: str = ""
) -> Iterator[Any]:
    """A session on this master; `also` says what else the option takes."""
    if MASTER.fullmatch(master) is None:
        raise BadOption(option, master, f"{also}local[N], local[*], yarn, spark://… or k8s://…")
    with spark_extra(command):
        from snowmelt.spark.session import session  # noqa: PLC0415  # only where Spark is needed
    with Console(stderr=True).status("Starting Spark …"):
        made = session(command, master=master)
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def crew_of(master: str, command: str, here: Crew) -> Iterator[Crew]:
    """Spark's executors; without a master whoever works here."""
    if not master:
        yield here
        return
    with on_spark(master, command) as session, spark_extra(command):
        from snowmelt_world.spread import spread  # noqa: PLC0415  # needs the extra

        yield spread(session)
