"""`snowmelt check`: a verdict on recorded histories."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from snowmelt.cli.pipeline import spark_extra
from snowmelt.core.errors import BadOption
from snowmelt_world.check.history import History
from snowmelt_world.check.properties import PROPERTIES, check_history, known, usual
from snowmelt_world.check.verdict import Invalid, Undecided, Verdict
from snowmelt_world.cli.spark import SPARK, on_spark

INVALID = 20
UNKNOWN = 21


def check(
    histories: Annotated[
        list[str],
        typer.Argument(
            metavar="HISTORY...", help="Files of operations, one JSON object a line; each judged."
        ),
    ],
    property: Annotated[  # noqa: A002  # the option's name
        list[str] | None,
        typer.Option(help="What to check; again for more: " + ", ".join(PROPERTIES)),
    ] = None,
    spark: Annotated[str, SPARK] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object each.")] = False,
) -> None:
    """Judge a recorded history. It is valid, invalid with an example, or unknown.

    With --spark, one that is too large for a machine; a folder of files is one history there. Ends
    with 20 when a property is invalid, 21 when one is unknown.
    """
    names = known(property or ())
    judged = _on_spark(spark, histories, names) if spark else _here(histories, names)
    worst = 0
    for place, (operations, verdicts) in zip(histories, judged, strict=True):
        named = {"history": place} if len(histories) > 1 else {}
        if as_json:
            told = {**named, "operations": operations, "verdicts": msgspec.to_builtins(verdicts)}
            print(json.dumps(told))
        else:
            print(*(f"{one}:" for one in named.values()), *verdicts, sep="\n")
        worst = max(worst, *map(_rank, verdicts))
    if worst:
        raise typer.Exit((0, UNKNOWN, INVALID)[worst])


def _rank(verdict: Verdict) -> int:
    return 2 * isinstance(verdict, Invalid) + isinstance(verdict, Undecided)


def _here(histories: Sequence[str], names: list[str]) -> Iterator[tuple[int, list[Verdict]]]:
    for place in histories:
        try:
            with Path(place).open("rb") as lines:
                read = History.read(lines)
        except OSError as error:
            allowed = f"a file of operations ({error.strerror})"
            raise BadOption("HISTORY", place, allowed) from error
        yield len(read), check_history(read, names or usual(read))


def _on_spark(
    master: str, histories: Sequence[str], names: list[str]
) -> Iterator[tuple[int, list[Verdict]]]:
    with on_spark(master, "snowmelt check") as session:
        with spark_extra("snowmelt check"):
            from snowmelt_world.check_on_spark import check as judge  # noqa: PLC0415  # needs the extra
        judged = judge(session, histories, names)
    alone = {name: why for one in judged for name, why in one.alone.items()}
    for name, why in alone.items():
        typer.echo(f"{name}: {why}", err=True)
    return ((one.operations, one.verdicts) for one in judged)
