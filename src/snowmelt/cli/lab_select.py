"""`snowmelt lab select`: the k-th smallest of elements on many nodes, in synchronous rounds."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from snowmelt.cli.lab_options import one_of
from snowmelt.cli.progress import shown
from snowmelt.core.names import plain_name
from snowmelt.lab.extra import lab_extra
from snowmelt.lab.select.options import (
    MACHINES_MAX,
    Distribution,
    Engine,
    Mode,
    SelectOptions,
    Shares,
    engine_for,
)

if TYPE_CHECKING:
    from snowmelt.lab.select.experiment import Measured

WISH = "lab select"


def add_to(lab: typer.Typer) -> None:
    """Adds the command."""
    lab.command("select")(select)


def select(
    nodes: Annotated[int, typer.Option(help="How many there are.")] = 100,
    elements: Annotated[int, typer.Option(help="Of all nodes.")] = 100_000,
    k: Annotated[
        int | None, typer.Option(help="The rank that is looked for; else the one in the middle.")
    ] = None,
    distribution: Annotated[
        str,
        typer.Option(
            help="Of priorities: uniform, equal, zipf; adversarial: each node has a stretch of all."
        ),
    ] = Distribution.UNIFORM.value,
    shares: Annotated[
        str, typer.Option(help="Of nodes: ring, as uneven as its arcs are; or even.")
    ] = Shares.RING.value,
    mode: Annotated[
        str, typer.Option(help="repaired: always exact; paper: as printed.")
    ] = Mode.REPAIRED.value,
    salt: Annotated[str, typer.Option(help="Labels are drawn from this and the names.")] = "lab",
    seed: Annotated[int, typer.Option(help="The same seed, the same elements.")] = 1,
    engine: Annotated[
        str,
        typer.Option(help=f"machines, up to {MACHINES_MAX} nodes; arrays: the same, and fast."),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """The k-th smallest by KSelect: rounds, congestion, sizes of messages, and whether it is."""
    options = SelectOptions(
        nodes=nodes,
        elements=elements,
        k=k,
        distribution=one_of("--distribution", Distribution, distribution),
        shares=one_of("--shares", Shares, shares),
        mode=one_of("--mode", Mode, mode),
        salt=plain_name("--salt", salt),
        seed=seed,
    )
    with_engine = engine_for(one_of("--engine", Engine, engine) if engine else None, options)
    told = _told(options, with_engine)
    if as_json:
        print(json.dumps(told))
        return
    _print(told)


def _told(options: SelectOptions, engine: Engine) -> dict[str, Any]:
    measured = _measured(options, engine)
    return {
        **msgspec.to_builtins(options),
        "k": options.rank,
        "engine": engine.value,
        **msgspec.to_builtins(measured),
    }


def _measured(options: SelectOptions, engine: Engine) -> "Measured":
    with lab_extra(WISH):
        from snowmelt.lab.select.arrays import Arrays  # noqa: PLC0415  # needs the extra
        from snowmelt.lab.select.experiment import Experiment  # noqa: PLC0415
    one = Arrays(options) if engine is Engine.ARRAYS else Experiment(options)
    for _ in shown(one.run(), None):
        pass
    return one.measured()


def _print(told: dict[str, Any]) -> None:
    print(f"the {told['k']}. smallest of {told['elements']} on {told['nodes']} nodes: ", end="")
    if told["value"] is None:
        print(f"not found, {told['end']}")
    elif told["exact"]:
        print(f"priority {told['value']}, id {told['id']}, exact")
    else:
        print(f"priority {told['value']}, which is the {told['rank']}. smallest")
    print(f"rounds      {told['rounds']}, in {told['waves']} waves of the tree")
    print(f"phase 1     {told['iterations_phase1']} iterations, ", end="")
    print(f"{told['candidates_after_phase1']} candidates after them")
    print(f"phase 2     {told['iterations']} samples, {told['misses']} windows missed, ", end="")
    print(f"{told['candidates_left']} candidates after them")
    print(f"congestion  {told['congestion_max']} messages at a node in a round at most")
    print(f"messages    {told['message_bits_max']} bits at most")
