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


COMPARISONS: Final = {
    "fifo": "Put, get and acknowledge, beside Redis, NATS, beanstalkd and RabbitMQ.",
    "pool": "From process to process, beside Redis lists, multiprocessing, Ray and Dask.",
    "baton": "From holder to holder, beside Redis locks, etcd and ZooKeeper.",
    "priority": "Most urgent first, beside Redis, beanstalkd and RabbitMQ.",
    "jobs": "Jobs that do nothing, beside Celery, RQ, Dramatiq, Huey, arq, Taskiq, Procrastinate.",
    "failover": "How long nobody can put when the leader is killed, beside RabbitMQ and NATS.",
}
"""What is compared with what, all in one run; `--help` of each says the rest."""


def compare(context: typer.Context, quick: Quick = False) -> NoReturn:
    """Runs the comparison of this command's name with the options that were given to it."""
    source = _source()
    sys.path.insert(0, str(source))
    try:
        main = import_module("benchmarks.peers.main").main
        code = main(context.info_name, ["--quick", *context.args] if quick else context.args)
    except ModuleNotFoundError as error:
        raise NoSource(
            f"the benchmark needs {error.name}: pip install -e '{source}[bench]'"
        ) from None
    raise typer.Exit(code)


for name, said in COMPARISONS.items():
    bench.command(name, help=said, **_PASSED_ON)(compare)


def _source() -> Path:
    """The folder that the benchmarks are in: they are no part of the installed package."""
    source = Path(snowmelt.__file__).resolve().parents[2]
    if not (source / "benchmarks" / "peers" / "main.py").is_file():
        raise NoSource(
            "the benchmarks come with the source, not with the package: "
            "clone the repository, run `make setup` there, and use .venv/bin/snowmelt bench"
        )
    return source
