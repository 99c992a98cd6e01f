"""Options that every command asks for which tells of one pool, simulated or computed."""

from enum import Enum
from typing import Annotated, TypeVar

import typer

from snowmelt.core.errors import BadOption

Kind = TypeVar("Kind", bound=Enum)

AlgorithmName = Annotated[str, typer.Option(help="stochastic, or a rival: central, manager.")]
Engine = Annotated[str, typer.Option(help="kernel: compiled; machine: what the product runs.")]
Producers = Annotated[int, typer.Option(help="How many there are: N.")]
Consumers = Annotated[int, typer.Option(help="How many there are: M.")]
Buffers = Annotated[int, typer.Option(help="Objects that a producer keeps.")]
MaxHops = Annotated[int, typer.Option(help="Probes before a request waits in line.")]
ProduceRate = Annotated[float, typer.Option(help="Objects a tick that a producer makes, mean.")]
ConsumeRate = Annotated[float, typer.Option(help="Objects a tick that a consumer uses.")]
Transit = Annotated[float, typer.Option(help="Ticks that a message takes, mean.")]
Process = Annotated[
    float, typer.Option(help="Ticks that a producer or a broker needs for a message, mean.")
]
Objects = Annotated[
    int | None,
    typer.Option(help="Measured at most; a million, or 100000 with --engine machine."),
]
HalfWidth = Annotated[
    float | None,
    typer.Option(help="The kernel ends when the wait is known so well; 0.02 is 2 %, 0 never."),
]
Groups = Annotated[
    str, typer.Option(help="Producers of several kinds, count:relative rate: 50:2,50:1.")
]
Shares = Annotated[
    str, typer.Option(help="uniform, adaptive, or shares of requests by group: 0.67,0.33.")
]
FanOut = Annotated[int, typer.Option(help="Producers that a consumer knows; 0 is all.")]
MakeTimes = Annotated[str, typer.Option(help="To make objects: exponential, uniform, constant.")]
UseTimes = Annotated[str, typer.Option(help="To use objects: the same.")]
Seed = Annotated[int, typer.Option(help="The same seed, the same dice.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def one_of(option: str, kind: type[Kind], text: str) -> Kind:
    """The one that is meant, by its value.

    >>> from snowmelt.lab.pool.options import Times
    >>> one_of("--times", Times, "even")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --times is 'even'; allowed: exponential, uniform, constant
    """
    try:
        return kind(text)
    except ValueError:
        allowed = ", ".join(one.value for one in kind)
        raise BadOption(option, text, allowed) from None
