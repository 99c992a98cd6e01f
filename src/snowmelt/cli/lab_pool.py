"""`snowmelt lab pool`: Johnson's experiments with the pool's own machines."""

import json
from collections.abc import Iterable
from enum import Enum
from typing import Annotated, Final, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.progress import track

from snowmelt.core.errors import BadOption
from snowmelt.lab.pool.machine import run
from snowmelt.lab.pool.measures import Measured
from snowmelt.lab.pool.options import Algorithm, PoolOptions, Times, access_of, groups_of

ENGINES: Final = ("machine",)

Kind = TypeVar("Kind", bound=Enum)


def add_to(lab: typer.Typer) -> None:
    """Adds the command."""
    lab.command("pool")(pool)


def pool(
    algorithm: Annotated[
        str, typer.Option(help="stochastic, or one of its rivals: central, manager.")
    ] = Algorithm.STOCHASTIC.value,
    engine: Annotated[str, typer.Option(help="machine: what the product runs.")] = "machine",
    producers: Annotated[int, typer.Option(help="How many there are: N.")] = 100,
    consumers: Annotated[int, typer.Option(help="How many there are: M.")] = 100,
    buffers: Annotated[int, typer.Option(help="Objects that a producer keeps.")] = 5,
    max_hops: Annotated[int, typer.Option(help="Probes before a request waits in line.")] = 3,
    produce_rate: Annotated[
        float, typer.Option(help="Objects a tick that a producer makes, in the mean.")
    ] = 0.01,
    consume_rate: Annotated[
        float, typer.Option(help="Objects a tick that a consumer uses.")
    ] = 0.01,
    transit: Annotated[float, typer.Option(help="Ticks that a message takes, mean.")] = 1.0,
    objects: Annotated[int, typer.Option(help="Objects consumed while it is measured.")] = 100_000,
    groups: Annotated[
        str, typer.Option(help="Producers of several kinds, count:relative rate: 50:2,50:1.")
    ] = "",
    access: Annotated[
        str, typer.Option(help="uniform, adaptive, or shares of requests by group: 0.67,0.33.")
    ] = "uniform",
    fan_out: Annotated[int, typer.Option(help="Producers that a consumer knows; 0 is all.")] = 0,
    times: Annotated[
        str, typer.Option(help="To make and use objects: exponential, uniform, constant.")
    ] = Times.EXPONENTIAL.value,
    seed: Annotated[int, typer.Option(help="The same seed, the same dice.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """A pool in a calm world: how long consumers wait, and what it costs. Times are in ticks."""
    if engine not in ENGINES:
        raise BadOption("--engine", engine, ", ".join(ENGINES))
    kind, shares = access_of(access)
    options = PoolOptions(
        algorithm=_one_of("--algorithm", Algorithm, algorithm),
        producers=producers,
        consumers=consumers,
        buffers=buffers,
        max_hops=max_hops,
        produce_rate=produce_rate,
        consume_rate=consume_rate,
        transit=transit,
        objects=objects,
        seed=seed,
        groups=groups_of(groups),
        access=kind,
        shares=shares,
        fan_out=fan_out,
        times=_one_of("--times", Times, times),
    )
    measured = run(options, _shown)
    if as_json:
        print(json.dumps(msgspec.to_builtins(measured)))
        return
    _print(options, measured)


def _one_of(option: str, kind: type[Kind], text: str) -> Kind:
    try:
        return kind(text)
    except ValueError:
        allowed = ", ".join(one.value for one in kind)
        raise BadOption(option, text, allowed) from None


def _shown(parts: range) -> Iterable[int]:
    """Progress on a terminal, and silence in a pipe."""
    console = Console(stderr=True)
    hidden = not console.is_terminal
    return track(parts, "", len(parts), console=console, transient=True, disable=hidden)


def _print(options: PoolOptions, measured: Measured) -> None:
    print(
        f"{options.algorithm.value}: {options.producers} producers, {options.consumers} consumers,"
        f" load {options.load:.0%}, {measured.objects} objects in {measured.seconds:.1f} s"
    )
    error = "" if measured.wait_ci95 is None else f" +- {measured.wait_ci95:.2g}"
    print(f"throughput        {measured.throughput:.4g} objects a tick")
    print(f"wait              {measured.wait_mean:.4g}{error} ticks")
    print(f"probes            {measured.hops_mean:.3f} an object")
    print(f"held up           {measured.producer_blocked:.1%} of the producers' time")
    print(f"found nothing     {measured.probe_empty:.1%} of the probes")
    print(f"waited in line    {measured.request_blocked:.1%} of the requests")
    print(f"messages          {measured.messages_per_object:.3f} an object,", end=" ")
    print(f"and {measured.settle_per_object:.3f} to settle it")
    for kind, count in sorted(measured.messages.items()):
        print(f"  {kind:<16}{count:.3f}")
