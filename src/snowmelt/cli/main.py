"""The program: commands, and how errors end it.

Exit codes: 0 well; 1 any other failure; 2 a wrong option; 3 refused (token, certificate, id); 4 the
state does not allow it, or nobody answers; 5 unknown, the time ran out; 6 the other side broke
the protocol; 7 this machine (disk); `snowmelt sim`: 10 broken invariant, 11 never settled, 12
crashed machine; `snowmelt check`: 20 invalid, 21 unknown.
"""

import sys

import typer

from snowmelt import __version__
from snowmelt.cli import (
    advise,
    baton,
    bench,
    check,
    cluster,
    demo,
    groups,
    lab,
    multicast,
    node,
    pipeline,
    pool,
    queue,
    sim,
    taking,
)
from snowmelt.core.errors import SnowmeltError

app = typer.Typer(
    name="snowmelt",
    help="A distributed queue: say which order you need, get the protocol that gives it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:  # typer's form
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _main(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and end."
    ),
) -> None:
    """Snowmelt."""
    del version


for group in (
    *(node, cluster, queue, taking, groups, pool, baton, multicast, pipeline),
    *(sim, check, lab, advise, bench, demo),
):
    group.add_to(app)


def run() -> None:
    """Runs the program; an error of ours is a sentence and an exit code, never a stack."""
    try:
        app()
    except SnowmeltError as error:
        print(f"snowmelt: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        raise SystemExit(0) from None
