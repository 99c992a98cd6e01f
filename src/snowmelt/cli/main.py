"""The program: commands, and how errors end it.

Exit codes: 0 well; 1 any other failure; 2 a wrong option; 3 refused (token, certificate, id); 4 the
state does not allow it, or nobody answers; 5 unknown, the time ran out. 6 the other side broke the
protocol; 7 this machine (disk); 8 nothing came; 9 no such queue; 13 the queue is not empty.
`snowmelt sim`: 10 broken invariant, 11 never settled, 12 crashed machine. `snowmelt check` and
`chaos`: 20 invalid, 21 unknown. `snowmelt baton run`: 124 no turn in time, 125 the baton was lost
or could not be asked for, else that of its command.
"""

import gc
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import typer

from snowmelt import __version__
from snowmelt.cli.commands import Commands
from snowmelt.core.errors import CallerError, NoSuchQueue, SnowmeltError
from snowmelt.core.shown import printable

COMMANDS: Final = {
    "Items": {
        "put": "queue",
        "get": "get",
        "worker": "worker",
        "peek": "queue",
        "groups": "groups",
    },
    "Queues": {
        "queues": "queues",
        "top": "queues",
        "consumers": "queues",
        "schedules": "schedules",
        "unschedule": "schedules",
        "stats": "queue",
        "select": "item",
        "quantile": "item",
        "create": "altering",
        "alter": "altering",
        "pause": "altering",
        "resume": "altering",
        "redrive": "queue",
        "move": "move",
        "item": "item",
        "trace": "item",
        "purge": "queue",
        "delete": "queue",
        "backup": "backup",
        "restore": "backup",
        "export": "export",
    },
    "Beside queues": {
        "pool": "pool",
        "baton": "baton",
        "multicast": "multicast",
        "pipeline": "pipeline",
    },
    "Cluster": {
        "up": "cluster",
        "node": "node",
        "status": "cluster",
        "page": "page",
        "ping": "cluster",
        "reload": "cluster",
        "found": "found",
        "drain": "leaving",
        "forget": "leaving",
        "rescue": "rescue",
        "migrate": "migrate",
        "doctor": "doctor",
    },
}
"""The panels of the help, their commands in its order, and the module that has each.

A command loads its own module only.
"""

ELSEWHERE: Final = {
    "sim": "snowmelt_world.cli.sim",
    "check": "snowmelt_world.cli.check",
    "chaos": "snowmelt_world.cli.chaos",
    "attack": "snowmelt_world.cli.attack",
    "lab": "snowmelt_lab.cli.lab",
    "advise": "snowmelt_lab.cli.advise",
    "demo": "snowmelt_lab.cli.demo",
    "bench": "snowmelt_lab.cli.bench",
    "sqs": "snowmelt_doors.sqs.cli",
}
"""The commands of other distributions, and the module that has each."""


def program(words: Sequence[str] = ()) -> typer.Typer:
    """The program, with just the command that these words begin with; if none, with all.

    A loop in a shell waits for each start of a command, and most of a start is loading what other
    commands need.

    >>> [one.name for one in program(["pool", "stats"]).registered_groups]
    ['pool']
    """
    app = Commands(
        name="snowmelt",
        help="A distributed queue: say which order you need, get the protocol that gives it.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_main)
    first = words[0] if words else ""
    if first == "--version":
        return app
    ours = [
        (panel, name, f"snowmelt.cli.{module}")
        for panel, names in COMMANDS.items()
        for name, module in names.items()
    ]
    others = [("Other packages", name, module) for name, module in ELSEWHERE.items()]
    wanted = [one for one in (*ours, *others) if one[1] == first]
    there = [one for one in others if find_spec(_package(one[2])) is not None]
    for panel, name, module in wanted or (*ours, *there):
        _add(app, name, _command(name, module), panel)
    return app


def _package(module: str) -> str:
    return module.partition(".")[0]


def _command(name: str, module: str) -> Any:
    """A command of this distribution, or of another, which may not be installed."""
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != _package(module):
            raise
        where = _package(module).replace("_", "-")
        raise CallerError(f"snowmelt {name} comes with {where}: pip install {where}") from None


def _add(app: typer.Typer, name: str, command: Any, panel: str) -> None:
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name, rich_help_panel=panel)
    else:
        short = command.__doc__.partition(".")[0].replace("\n    ", " ")
        app.command(name, rich_help_panel=panel, short_help=short)(command)


def _version(wanted: bool) -> None:  # typer's form
    if wanted:
        print(__version__)
        raise typer.Exit


def _main(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and end."
    ),
) -> None:
    """Snowmelt."""
    del version


def _way_out(error: SnowmeltError) -> str:
    """The command that helps, where the library's sentence names none."""
    if not isinstance(error, NoSuchQueue) or "snowmelt" in str(error):
        return ""
    return "; snowmelt queues lists those there are"


def run() -> None:
    """Runs the program; an error of ours is a sentence and an exit code, never a stack."""
    try:
        command = program(sys.argv[1:])
        gc.freeze()  # what is loaded stays, and is not looked through again, nor at the end
        command()
    except SnowmeltError as error:
        print(printable(f"snowmelt: {error}{_way_out(error)}"), file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        raise SystemExit(0) from None
