"""`snowmelt lab model`: what Johnson's models say of a pool, beside `snowmelt lab pool`."""

import json
from typing import Annotated

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
from snowmelt.lab.extra import lab_extra
from snowmelt.lab.pool.options import Algorithm, PoolOptions, Times, access_of, groups_of

ModelName = Annotated[
    str, typer.Option(help="paper: producers are independent; refined: their stock wanders.")
]


def add_to(lab: typer.Typer) -> None:
    """Adds the command."""
    lab.command("model")(model)


def model(
    model: ModelName = "paper",
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
    """What a pool comes to by the paper's equations. Times are in ticks.

    The models take all times as exponential. --seed deals the lists when there is a --fan-out;
    --engine, --objects and --half-width are there so that `lab pool` and this take the same line.
    """
    del engine, objects, half_width
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
        seed=seed,
        groups=groups_of(groups),
        access=kind,
        shares=shares,
        fan_out=fan_out,
        times=one_of("--times", Times, times),
        consume_times=one_of("--consume-times", Times, consume_times),
    )
    with lab_extra("lab model"):
        from snowmelt.lab.pool import models  # noqa: PLC0415  # needs the extra
    answer = models.solve(options, one_of("--model", models.Model, model))
    told = msgspec.to_builtins(answer)
    if as_json:
        print(json.dumps(told))
        return
    print_measures(options, "computed", told)
    print()
    if not told["converged"]:
        print("the equations did not converge: take none of this as a result")
