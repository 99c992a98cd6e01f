"""`snowmelt baton`: a command run while a baton is held, and how the nodes see batons."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Annotated, Final, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from snowmelt.cli.baton_command import KILL_AFTER, Command, check_kill_after
from snowmelt.cli.commands import Commands
from snowmelt.cli.options import (
    CLUSTER,
    DEFAULT_URL,
    TOKEN,
    URL,
    USER,
    AsJson,
    ClusterOptions,
    check_timeout,
)
from snowmelt.cli.tables import listing, styled
from snowmelt.client.baton.face import Held
from snowmelt.client.baton.steps import TURN_SECONDS, MemberAnswer, list_batons, sights
from snowmelt.client.connection import steps
from snowmelt.core.errors import BadOption, NotGranted, SnowmeltError, TooLarge
from snowmelt.core.shown import printable
from snowmelt.protocols.baton.calls import VALUE_BYTES_MAX, ResetBaton
from snowmelt.protocols.baton.settings import baton_name

baton = Commands(help="Batons: locks that heal, and carry a value.", no_args_is_help=True)
T = TypeVar("T")
NAME = typer.Argument(help="The baton's name.")
NO_TURN: Final = 124
NOT_HELD: Final = 125


@baton.command()
def run(
    name: Annotated[str, NAME],
    command: Annotated[list[str], typer.Argument(help="What to run, after --.")],
    value_file: Annotated[
        Path | None,
        typer.Option(help="File that gets the value first, and gives it after success."),
    ] = None,
    kill_after: Annotated[
        float, typer.Option(help="Seconds from SIGTERM to SIGKILL, once the baton is lost.")
    ] = KILL_AFTER,
    url: Annotated[str, URL] = DEFAULT_URL,
    token_file: Annotated[Path | None, TOKEN] = None,
    user: Annotated[str, USER] = "",
    timeout: Annotated[
        float, typer.Option(help="Seconds to wait for a turn; 0: only if it is free.")
    ] = TURN_SECONDS,
) -> None:
    """Run a command while holding a baton, as `flock` does. Ends as the command ends.

    The command finds the baton's name in SNOWMELT_BATON and its fence in SNOWMELT_FENCE: a number
    larger than any holder's before. When the baton is lost it gets SIGTERM, and this ends with 125,
    as where nobody answers. Without a turn in time the command is not run, and this ends with 124.
    Ctrl-C reaches the command as any other; a script that runs this ends then, as with `flock`.
    """
    if timeout != 0:
        check_timeout(timeout)
    check_kill_after(kill_after)
    if shutil.which(command[0]) is None:
        raise BadOption("COMMAND", command[0], "a program that is there and can be run")
    try:
        with (
            ClusterOptions(url, token_file, user=user).open() as cluster,
            cluster.baton(name, timeout).acquire() as held,
        ):
            if value_file is not None:
                _write_value(value_file, held)
            code = Command(command, held, kill_after).run()
            if value_file is not None and code == 0:
                _read_value(value_file, held)
    except KeyboardInterrupt:
        end_interrupted()
    except BadOption:
        raise
    except SnowmeltError as error:  # codes that commands don't end with, as `timeout` has them
        print(printable(f"snowmelt: {error}"), file=sys.stderr)
        code = NO_TURN if isinstance(error, NotGranted) else NOT_HELD
    raise typer.Exit(code)


def end_interrupted() -> NoReturn:
    """Ends this process by SIGINT: a shell ends a script only if its program ended by that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
    raise SystemExit(128 + signal.SIGINT)


def _write_value(file: Path, held: Held) -> None:
    try:
        file.write_bytes(held.value)
    except OSError as error:
        allowed = f"a file that can be written ({error.strerror})"
        raise BadOption("--value-file", str(file), allowed) from error


def _read_value(file: Path, held: Held) -> None:
    try:
        with file.open("rb") as stream:
            value = stream.read(VALUE_BYTES_MAX + 1)
    except OSError as error:
        allowed = f"a file that can be read ({error.strerror})"
        raise BadOption("--value-file", str(file), allowed) from error
    if len(value) > VALUE_BYTES_MAX:
        raise TooLarge(f"{file} has more than {VALUE_BYTES_MAX} bytes; the old value goes on")
    held.value = value


@baton.command()
def show(name: Annotated[str, NAME], as_json: AsJson = False, at: ClusterOptions = CLUSTER) -> None:
    """Show how each node sees a baton: holder, waiters, and the end of the line."""
    seen = _told(at, sights(name, at.timeout))
    if as_json:
        print(json.dumps({"baton": name, "nodes": [sight_object(one) for one in seen]}))
    else:
        Console().print(sights_table(seen))


@baton.command(name="list")
def list_(as_json: AsJson = False, at: ClusterOptions = CLUSTER) -> None:
    """List the batons that some node knows of."""
    names = _told(at, list_batons(at.timeout))
    if as_json:
        print(json.dumps({"batons": names}))
    else:
        for name in names:
            print(name)


@baton.command()
def reset(name: Annotated[str, NAME], at: ClusterOptions = CLUSTER) -> None:
    """Give up a value that can't be read on the coordinator's disk; the baton goes on without."""
    _told(at, _reset(name, at.timeout))


@baton.command()
def delete(
    name: Annotated[str, NAME],
    counter: Annotated[bool, typer.Option("--counter", help="Of a counter of this name.")] = False,
    at: ClusterOptions = CLUSTER,
) -> None:
    """Give a baton's value up in a turn of its own; unused names are forgotten."""
    with at.open() as cluster:
        if counter:
            cluster.counter(name).delete(at.timeout)
            print(f"counter {name} begins at 0")
            return
        with cluster.baton(name).acquire(at.timeout) as held:
            value, held.value = held.value, b""
    print(f"{len(value)} bytes are given up" if value else f"baton {name} had no value")


def _reset(name: str, timeout: float) -> steps.Steps[None]:
    yield steps.Query(ResetBaton(baton_name(name)), timeout)


def _told(at: ClusterOptions, asking: steps.Steps[T]) -> T:
    with at.clients() as clients:
        return steps.run(clients, asking)


def sight_object(sight: MemberAnswer) -> dict[str, object]:
    """How a node sees it, as an object; without a state when it did not answer."""
    status = sight.status
    if status is None:
        return {"node": sight.member.id, "state": None}
    names = ("node", "state", "fence", "waiting", "points_at")
    return {name: getattr(status, name) for name in names}


def sights_table(seen: list[MemberAnswer]) -> Table:
    """Shows how each node sees the baton, one row a node."""
    heads = ("node", "state", "fence", "waiting", "points at")
    table = listing(heads, words=("node", "state", "points at"))
    for one in seen:
        status = one.status
        if status is None:
            table.add_row(one.member.id, styled("no answer", "red"), "-", "-", "-")
            continue
        style = "dim" if status.state == "elsewhere" else "green"
        numbers = (str(status.fence), str(status.waiting))
        table.add_row(status.node, styled(status.state, style), *numbers, status.points_at)
    return table
