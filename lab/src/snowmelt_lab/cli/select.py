"""`snowmelt lab select`: the k-th smallest of elements on many nodes, in synchronous rounds."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from snowmelt.core.names import plain_name
from snowmelt_lab.bounds import one_of, within
from snowmelt_lab.cli.progress import shown
from snowmelt_lab.engine import MACHINES_MAX, Engine, engine_for
from snowmelt_lab.output import PICTURES, checked_file
from snowmelt_lab.select.options import Distribution, Mode, SelectOptions, Shares

if TYPE_CHECKING:
    from snowmelt_lab.select.experiment import Measured

CASES_MAX = 1_000_000


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
    growth: Annotated[
        Path | None, typer.Option(help="Draw rounds against sizes up to --nodes into this file.")
    ] = None,
    traffic: Annotated[
        Path | None, typer.Option(help="Draw congestion and sizes of messages into this file.")
    ] = None,
    plans: Annotated[
        Path | None, typer.Option(help="Draw how both plans end, up to --nodes, into this file.")
    ] = None,
    machines: Annotated[
        int, typer.Option(help="In --growth and --traffic: ask the machines too, up to this size.")
    ] = 0,
    cases: Annotated[
        int, typer.Option(help="Instead, so many selections of every kind, against sorting.")
    ] = 0,
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
    asked = one_of("--engine", Engine, engine) if engine else None
    with_engine = engine_for(asked, nodes, at_ease=options.at_ease)
    within("--cases", cases, 0, CASES_MAX)
    files = {"--growth": growth, "--traffic": traffic, "--plans": plans}
    for option, path in files.items():
        checked_file(option, path, PICTURES)
    if cases:
        told = _cases(options, cases)
    elif any(files.values()):
        told = _drawn(options, machines, growth, traffic, plans)
    else:
        told = _told(options, with_engine)
    if as_json:
        print(json.dumps(told))
        return
    if "value" in told:
        _print(told)
    else:
        _print_rows(told)


def _told(options: SelectOptions, engine: Engine) -> dict[str, Any]:
    measured = _measured(options, engine)
    return {
        **msgspec.to_builtins(options),
        "k": options.rank,
        "engine": engine.value,
        **msgspec.to_builtins(measured),
    }


def _measured(options: SelectOptions, engine: Engine) -> "Measured":
    from snowmelt_lab.select.arrays import Arrays
    from snowmelt_lab.select.experiment import Experiment

    one = Arrays(options) if engine is Engine.ARRAYS else Experiment(options)
    for _ in shown(one.run(), None):
        pass
    return one.measured()


def _cases(options: SelectOptions, cases: int) -> dict[str, Any]:
    from snowmelt_lab.select import trials

    tried = list(shown(trials.tried(options.seed, cases), cases))
    told: dict[str, Any] = msgspec.to_builtins(trials.counted(tried))
    return told


def _drawn(
    options: SelectOptions,
    machines: int,
    growth: Path | None,
    traffic: Path | None,
    plans: Path | None,
) -> dict[str, Any]:
    from snowmelt_lab.select import growth as grown
    from snowmelt_lab.select import picture, trials

    told: dict[str, Any] = {}
    if growth is not None or traffic is not None:
        points = list(shown(grown.points(options, machines), len(grown.sizes(options))))
        told["growth"] = [msgspec.to_builtins(point) for point in points]
        if growth is not None:
            told["fit"] = msgspec.to_builtins(picture.draw_growth(points, growth))
        if traffic is not None:
            picture.draw_traffic(points, traffic)
    if plans is not None:
        rows = list(shown(trials.compared(options), len(trials.rows_of(options))))
        told["plans"] = [msgspec.to_builtins(row) for row in rows]
        picture.draw_plans(rows, plans)
    return told


def _print_rows(told: dict[str, Any]) -> None:
    for name, value in told.items():
        if not isinstance(value, list):
            print(f"{name.replace('_', ' ')}: {value}")
            continue
        for row in value:
            print(", ".join(f"{column} {cell}" for column, cell in row.items()))


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
