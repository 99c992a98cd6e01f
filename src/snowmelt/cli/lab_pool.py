"""`snowmelt lab pool`: Johnson's experiments, compiled or with the pool's own machines."""

import json
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import typer

from snowmelt.cli.lab_measures import print_measures
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
from snowmelt.cli.progress import shown
from snowmelt.core.errors import BadOption
from snowmelt.lab.extra import lab_extra
from snowmelt.lab.pool import machine
from snowmelt.lab.pool.measures import Measured
from snowmelt.lab.pool.options import Algorithm, PoolOptions, Times, access_of, groups_of

OBJECTS: Final = {"kernel": 1_000_000, "machine": 100_000}
"""Of each engine, when nothing else is said."""
HALF_WIDTH: Final = 0.02

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
    measured = _run_of(engine)(options, lambda parts: shown(parts, len(parts)))
    told = msgspec.to_builtins(measured)
    if as_json:
        print(json.dumps(told))
        return
    print_measures(options, f"{measured.objects} objects in {measured.seconds:.1f} s", told)
    print(f", and {measured.settle_per_object:.3f} to settle it")
    for message, count in sorted(measured.messages.items()):
        print(f"  {message:<16}{count:.3f}")


def _run_of(engine: str) -> Run:
    if engine == "machine":
        return machine.run
    with lab_extra("--engine kernel"):
        from snowmelt.lab.pool import kernel  # noqa: PLC0415  # needs the extra
    return kernel.run
