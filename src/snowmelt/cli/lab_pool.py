"""`snowmelt lab pool`: Johnson's experiments, compiled or with the pool's own machines."""

import json
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import typer
from rich.console import Console
from rich.progress import track

from snowmelt.cli.lab_options import (
    AlgorithmName,
    AsJson,
    Buffers,
    ConsumeRate,
    Consumers,
    Engine,
    FanOut,
    Groups,
    HalfWidth,
    MakeTimes,
    MaxHops,
    Objects,
    Process,
    ProduceRate,
    Producers,
    Seed,
    Shares,
    Transit,
    UseTimes,
    one_of,
)
from snowmelt.core.errors import BadOption
from snowmelt.lab.extra import lab_extra
from snowmelt.lab.pool import machine
from snowmelt.lab.pool.measures import Measured
from snowmelt.lab.pool.options import Algorithm, PoolOptions, Times, access_of, groups_of

OBJECTS: Final = {"kernel": 1_000_000, "machine": 100_000}
"""Of each engine, when nothing else is said."""
HALF_WIDTH: Final = 0.02
STATE_LEAST: Final = 0.01

Run = Callable[[PoolOptions, Callable[[range], Iterable[int]]], Measured]


def add_to(lab: typer.Typer) -> None:
    """Adds the command."""
    lab.command("pool")(pool)


def pool(
    algorithm: AlgorithmName = Algorithm.STOCHASTIC.value,
    engine: Engine = "kernel",
    producers: Producers = 100,
    consumers: Consumers = 100,
    buffers: Buffers = 5,
    max_hops: MaxHops = 3,
    produce_rate: ProduceRate = 0.01,
    consume_rate: ConsumeRate = 0.01,
    transit: Transit = 1.0,
    process: Process = 0.0,
    objects: Objects = None,
    half_width: HalfWidth = None,
    groups: Groups = "",
    access: Shares = "uniform",
    fan_out: FanOut = 0,
    times: MakeTimes = Times.EXPONENTIAL.value,
    consume_times: UseTimes = Times.EXPONENTIAL.value,
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """A pool in a calm world: how long consumers wait, and what it costs. Times are in ticks."""
    if engine not in OBJECTS:
        raise BadOption("--engine", engine, ", ".join(OBJECTS))
    if engine == "machine" and half_width is not None:
        raise BadOption("--half-width", half_width, "left out: --engine machine does not end early")
    kind, shares = access_of(access)
    options = PoolOptions(
        algorithm=one_of("--algorithm", Algorithm, algorithm),
        producers=producers,
        consumers=consumers,
        buffers=buffers,
        max_hops=max_hops,
        produce_rate=produce_rate,
        consume_rate=consume_rate,
        transit=transit,
        process=process,
        objects=OBJECTS[engine] if objects is None else objects,
        half_width=HALF_WIDTH if half_width is None else half_width,
        seed=seed,
        groups=groups_of(groups),
        access=kind,
        shares=shares,
        fan_out=fan_out,
        times=one_of("--times", Times, times),
        consume_times=one_of("--consume-times", Times, consume_times),
    )
    measured = _run_of(engine)(options, _shown)
    if as_json:
        print(json.dumps(msgspec.to_builtins(measured)))
        return
    _print(options, measured)


def _run_of(engine: str) -> Run:
    if engine == "machine":
        return machine.run
    with lab_extra("--engine kernel"):
        from snowmelt.lab.pool import kernel  # noqa: PLC0415  # needs the extra
    return kernel.run


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
    print(f"busy              {measured.consumer_busy:.1%} of the consumers' time")
    print(f"held up           {measured.producer_blocked:.1%} of the producers' time")
    print(f"found nothing     {measured.probe_empty:.1%} of the probes")
    print(f"waited in line    {measured.request_blocked:.1%} of the requests")
    if measured.states:
        shares = "  ".join(f"{state}: {share:.1%}" for state, share in _told(measured.states))
        print(f"producers have    {shares}")
    print(f"messages          {measured.messages_per_object:.3f} an object,", end=" ")
    print(f"and {measured.settle_per_object:.3f} to settle it")
    for kind, count in sorted(measured.messages.items()):
        print(f"  {kind:<16}{count:.3f}")


def _told(states: dict[str, float]) -> list[tuple[str, float]]:
    """The states that are worth a word."""
    return [(state, share) for state, share in states.items() if share >= STATE_LEAST]
