"""`snowmelt check`: a verdict on a recorded history."""

import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from snowmelt.check.history import History
from snowmelt.check.properties import PROPERTIES, check_history, usual
from snowmelt.check.verdict import Invalid, Undecided
from snowmelt.core.errors import BadOption

INVALID = 20
UNKNOWN = 21


def check(
    history: Annotated[Path, typer.Argument(help="A file of operations, one JSON object a line.")],
    property: Annotated[  # noqa: A002  # the option's name
        list[str] | None,
        typer.Option(help="What to check; again for more: " + ", ".join(PROPERTIES)),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Judge a recorded history: valid, invalid with a small example, or unknown with the reason.

    Ends with 20 when a property is invalid, 21 when one is unknown.
    """
    try:
        with history.open("rb") as lines:
            read = History.read(lines)
    except OSError as error:
        allowed = f"a file of operations ({error.strerror})"
        raise BadOption("HISTORY", str(history), allowed) from error
    verdicts = check_history(read, property or usual(read))
    if as_json:
        told = {"operations": len(read), "verdicts": msgspec.to_builtins(verdicts)}
        print(json.dumps(told))
    else:
        for verdict in verdicts:
            print(verdict)
    if any(isinstance(verdict, Invalid) for verdict in verdicts):
        raise typer.Exit(INVALID)
    if any(isinstance(verdict, Undecided) for verdict in verdicts):
        raise typer.Exit(UNKNOWN)
