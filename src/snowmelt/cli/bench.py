"""`snowmelt bench`: the benchmarks that come with the source."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

import snowmelt
from snowmelt.core.errors import CallerError

bench = typer.Typer(help="Measure Snowmelt beside the queues people use today.")

Quick = Annotated[bool, typer.Option(help="One short round, for a first look.")]

_PASSED_ON: Final[dict[str, Any]] = {
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
    "add_help_option": False,
}
"""All other options are the benchmark's own."""


class NoSource(CallerError):
    """The benchmarks, or what they need, are not on this machine."""


@bench.command(**_PASSED_ON)
def fifo(context: typer.Context, quick: Quick = False) -> None:
    """Put, get and acknowledge, beside Redis, NATS, beanstalkd and RabbitMQ, all in one run.

    It starts their servers itself; which packages have them, and all options: --help.
    """
    _run("fifo", context, quick)


@bench.command(**_PASSED_ON)
def pool(context: typer.Context, quick: Quick = False) -> None:
    """From process to process, beside Redis lists, multiprocessing, Ray and Dask, all in one run.

    It starts what they need itself; a peer that is not installed takes no part. All options:
    --help.
    """
    _run("pool", context, quick)


@bench.command(**_PASSED_ON)
def baton(context: typer.Context, quick: Quick = False) -> None:
    """From holder to holder, beside Redis locks, etcd and ZooKeeper, all in one run.

    It starts their servers itself; which packages have them, and all options: --help.
    """
    _run("baton", context, quick)


@bench.command(**_PASSED_ON)
def priority(context: typer.Context, quick: Quick = False) -> None:
    """Most urgent first, beside Redis, beanstalkd and RabbitMQ, all in one run.

    It starts their servers itself; which packages have them, and all options: --help.
    """
    _run("priority", context, quick)


@bench.command(**_PASSED_ON)
def jobs(context: typer.Context, quick: Quick = False) -> None:
    """Jobs that do nothing, beside Celery, RQ, Dramatiq, Huey, arq, Taskiq, Procrastinate.

    It starts their servers itself; how to install the libraries, and all options: --help.
    """
    _run("jobs", context, quick)


@bench.command(**_PASSED_ON)
def failover(context: typer.Context, quick: Quick = False) -> None:
    """How long nobody can put when the leader is killed, beside RabbitMQ and NATS.

    It starts three nodes of each; which packages have them, and all options: --help.
    """
    _run("failover", context, quick)


def _run(comparison: str, context: typer.Context, quick: bool) -> NoReturn:
    """Runs one of the comparisons with the options that were given to it."""
    source = _source()
    sys.path.insert(0, str(source))
    try:
        main = import_module("benchmarks.peers.main").main
        code = main(comparison, ["--quick", *context.args] if quick else context.args)
    except ModuleNotFoundError as error:
        raise NoSource(
            f"the benchmark needs {error.name}: pip install -e '{source}[bench]'"
        ) from None
    raise typer.Exit(code)


def _source() -> Path:
    """The folder that the benchmarks are in: they are no part of the installed package."""
    source = Path(snowmelt.__file__).resolve().parents[2]
    if not (source / "benchmarks" / "peers" / "main.py").is_file():
        raise NoSource(
            "the benchmarks come with the source, not with the package: "
            "clone the repository, run `make setup` there, and use .venv/bin/snowmelt bench"
        )
    return source
