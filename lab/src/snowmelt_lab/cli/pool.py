"""`snowmelt lab pool` and `snowmelt lab model`: Johnson's experiments, and what his models say.

Both take the same line of options, so that a pool that was simulated can be computed as well.
"""

import json
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final

import msgspec
import typer

from snowmelt.cli.commands import spread
from snowmelt.core.errors import BadOption
from snowmelt_lab.bounds import one_of
from snowmelt_lab.cli.progress import shown
from snowmelt_lab.pool import machine
from snowmelt_lab.pool.measures import Measured
from snowmelt_lab.pool.options import Algorithm, PoolOptions, Times, access_of, groups_of

OBJECTS: Final = {"kernel": 1_000_000, "machine": 100_000}
"""Of each engine, when nothing else is said."""
HALF_WIDTH: Final = 0.02
STATE_LEAST: Final = 0.01
"""States with a smaller share of the time are not worth a word."""

Run = Callable[[PoolOptions, Callable[[range], Iterable[int]]], Measured]


class Setting(msgspec.Struct, frozen=True):
    """One pool, as a person says it: each field is an option."""

    algorithm: Annotated[str, typer.Option(help="stochastic, or a rival: central, manager.")] = (
        Algorithm.STOCHASTIC.value
    )
    engine: Annotated[
        str, typer.Option(help="kernel: compiled; machine: what the product runs.")
    ] = "kernel"
    producers: Annotated[int, typer.Option(help="How many there are: N.")] = 100
    consumers: Annotated[int, typer.Option(help="How many there are: M.")] = 100
    buffers: Annotated[int, typer.Option(help="Objects that a producer keeps.")] = 5
    max_hops: Annotated[int, typer.Option(help="Probes before a request waits in line.")] = 3
    produce_rate: Annotated[
        float, typer.Option(help="Objects a tick that a producer makes, mean.")
    ] = 0.01
    consume_rate: Annotated[float, typer.Option(help="Objects a tick that a consumer uses.")] = 0.01
    transit: Annotated[float, typer.Option(help="Ticks that a message takes, mean.")] = 1.0
    process: Annotated[
        float, typer.Option(help="Ticks that a producer or a broker needs for a message, mean.")
    ] = 0.0
    objects: Annotated[
        int | None,
        typer.Option(help="Measured at most; a million, or 100000 with --engine machine."),
    ] = None
    half_width: Annotated[
        float | None,
        typer.Option(help="The kernel ends when the wait is known so well; 0.02 is 2 %, 0 never."),
    ] = None
    groups: Annotated[
        str, typer.Option(help="Producers of several kinds, count:relative rate: 50:2,50:1.")
    ] = ""
    access: Annotated[
        str, typer.Option(help="uniform, adaptive, or shares of requests by group: 0.67,0.33.")
    ] = "uniform"
    fan_out: Annotated[int, typer.Option(help="Producers that a consumer knows; 0 is all.")] = 0
    times: Annotated[str, typer.Option(help="To make objects: exponential, uniform, constant.")] = (
        Times.EXPONENTIAL.value
    )
    consume_times: Annotated[str, typer.Option(help="To use objects: the same.")] = (
        Times.EXPONENTIAL.value
    )
    seed: Annotated[int, typer.Option(help="The same seed, the same dice.")] = 1

    def options(self, objects: int, half_width: float) -> PoolOptions:
        """As the experiments take it; these stand for what was not said."""
        access, shares = access_of(self.access)
        said = msgspec.structs.asdict(self)
        del said["engine"]
        return PoolOptions(
            **said
            | {
                "algorithm": one_of("--algorithm", Algorithm, self.algorithm),
                "objects": objects if self.objects is None else self.objects,
                "half_width": half_width if self.half_width is None else self.half_width,
                "groups": groups_of(self.groups),
                "access": access,
                "shares": shares,
                "times": one_of("--times", Times, self.times),
                "consume_times": one_of("--consume-times", Times, self.consume_times),
            }
        )


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@spread
def pool(*, setting: Setting, as_json: AsJson = False) -> None:
    """A pool in a calm world: how long consumers wait, and what it costs. Times are in ticks."""
    engine, half_width = setting.engine, setting.half_width
    if engine not in OBJECTS:
        raise BadOption("--engine", engine, ", ".join(OBJECTS))
    if engine == "machine" and half_width is not None:
        raise BadOption("--half-width", half_width, "left out: --engine machine does not end early")
    options = setting.options(OBJECTS[engine], HALF_WIDTH)
    measured = _run_of(engine)(options, lambda parts: shown(parts, len(parts)))
    told = msgspec.to_builtins(measured)
    if as_json:
        print(json.dumps(told))
        return
    _print(options, f"{measured.objects} objects in {measured.seconds:.1f} s", told)
    print(f", and {measured.settle_per_object:.3f} to settle it")
    for message, count in sorted(measured.messages.items()):
        print(f"  {message:<16}{count:.3f}")


def _run_of(engine: str) -> Run:
    if engine == "machine":
        return machine.run
    from snowmelt_lab.pool import kernel

    return kernel.run


@spread
def model(
    *,
    model: Annotated[
        str, typer.Option(help="paper: producers are independent; refined: their stock wanders.")
    ] = "paper",
    setting: Setting,
    as_json: AsJson = False,
) -> None:
    """What a pool comes to by the paper's equations. Times are in ticks.

    The models take all times as exponential. --seed deals the lists when there is a --fan-out;
    --engine, --objects and --half-width are there so that `lab pool` and this take the same line.
    """
    unlimited = msgspec.structs.replace(setting, objects=None, half_width=None)
    options = unlimited.options(OBJECTS["machine"], HALF_WIDTH)
    from snowmelt_lab.pool import models

    told = msgspec.to_builtins(models.solve(options, one_of("--model", models.Model, model)))
    if as_json:
        print(json.dumps(told))
        return
    _print(options, "computed", told)
    print()
    if not told["converged"]:
        print("the equations did not converge: take none of this as a result")


def _print(options: PoolOptions, how: str, told: dict[str, Any]) -> None:
    """All that measured and modelled pools have in common, up to the messages of an object."""
    print(
        f"{options.algorithm.value}: {options.producers} producers, {options.consumers} consumers,"
        f" load {options.load:.0%}, {how}"
    )
    half_width = told.get("wait_ci95")
    error = "" if half_width is None else f" +- {half_width:.2g}"
    print(f"throughput        {told['throughput']:.4g} objects a tick")
    print(f"wait              {told['wait_mean']:.4g}{error} ticks")
    print(f"probes            {told['hops_mean']:.3f} an object")
    print(f"busy              {told['consumer_busy']:.1%} of the consumers' time")
    print(f"held up           {told['producer_blocked']:.1%} of the producers' time")
    print(f"found nothing     {told['probe_empty']:.1%} of the probes")
    print(f"waited in line    {told['request_blocked']:.1%} of the requests")
    often = [(state, share) for state, share in told["states"].items() if share >= STATE_LEAST]
    if often:
        print(f"producers have    {'  '.join(f'{state}: {share:.1%}' for state, share in often)}")
    print(f"messages          {told['messages_per_object']:.3f} an object", end="")
