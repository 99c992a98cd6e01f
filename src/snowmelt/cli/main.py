"""The program: commands, and how errors end it.

Exit codes: 0 well; 1 any other failure; 2 a wrong option; 3 refused (token, certificate, id); 4 the
state does not allow it, or nobody answers; 5 unknown, the time ran out; 6 the other side broke
the protocol; 7 this machine (disk); 8 nothing came; 9 no such queue; `snowmelt sim`: 10 broken
invariant, 11 never settled, 12 crashed machine; `snowmelt check`: 20 invalid, 21 unknown.
"""

import gc
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import typer

from snowmelt import __version__
from snowmelt.cli.commands import Commands
from snowmelt.core.errors import CallerError, SnowmeltError

COMMANDS: Final = {
    "node": ("node",),
    "found": ("found",),
    "cluster": ("up", "status", "ping", "forget"),
    "rescue": ("rescue",),
    "migrate": ("migrate",),
    "queue": ("put", "peek", "stats", "purge", "delete", "redrive"),
    "queues": ("queues", "top"),
    "altering": ("create", "alter", "pause", "resume"),
    "ranks": ("select", "quantile"),
    "taking": ("get",),
    "worker": ("worker",),
    "groups": ("groups",),
    "pool": ("pool",),
    "baton": ("baton",),
    "multicast": ("multicast",),
    "pipeline": ("pipeline",),
    "bench": ("bench",),
    "demo": ("demo",),
}
"""The modules here, in the order of the help, and the commands, or group, that each has by name.

A command loads its own only.
"""

GROUP: Final = "snowmelt.commands"
"""The entry points by which other distributions bring commands."""

ELSEWHERE: Final = {
    "sim": "snowmelt-world",
    "check": "snowmelt-world",
    "lab": "snowmelt-lab",
    "advise": "snowmelt-lab",
}
"""The distribution to install for a command that is not here."""


def program(words: Sequence[str] = ()) -> typer.Typer:
    """The program, with just the command that these words begin with; if none, with all.

    Whoever calls a command in a loop of a shell waits for each start, and most of a start is
    loading what other commands need.

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
    wanted = [module for module, names in COMMANDS.items() if first in names]
    if not wanted and first and not first.startswith("-"):
        _bring(app, first)
        return app
    for module in wanted or COMMANDS:
        for name in COMMANDS[module]:
            _add(app, name, getattr(import_module(f"snowmelt.cli.{module}"), name))
    if not wanted:
        _bring(app)
    return app


def _bring(app: typer.Typer, name: str = "") -> None:
    """Adds what other distributions bring: the command of this name, or all."""
    from importlib.metadata import entry_points  # noqa: PLC0415  # no command of ours needs it

    found = entry_points(group=GROUP, name=name) if name else entry_points(group=GROUP)
    for one in found:
        _add(app, one.name, one.load())
    if not found and name in ELSEWHERE:
        where = ELSEWHERE[name]
        raise CallerError(f"snowmelt {name} comes with {where}: pip install {where}")


def _add(app: typer.Typer, name: str, command: Any) -> None:
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name)(command)


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


def run() -> None:
    """Runs the program; an error of ours is a sentence and an exit code, never a stack."""
    try:
        command = program(sys.argv[1:])
        gc.freeze()  # what is loaded stays, and is not looked through again, nor at the end
        command()
    except SnowmeltError as error:
        print(f"snowmelt: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        raise SystemExit(0) from None
