"""`snowmelt lab priority`: Skeap, Skueue and Seap as in the paper, in synchronous rounds."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from snowmelt.core.errors import BadOption
from snowmelt.core.names import plain_name
from snowmelt_lab.bounds import one_of, within
from snowmelt_lab.cli.progress import shown
from snowmelt_lab.engine import MACHINES_MAX, Engine, engine_for
from snowmelt_lab.output import PICTURES, checked_file
from snowmelt_lab.priority.options import PriorityOptions, Protocol

if TYPE_CHECKING:
    from snowmelt_lab.priority.experiment import Measured


def priority(
    protocol: Annotated[
        str,
        typer.Option(help="skeap; skueue: the same with one priority; seap: any 64-bit priority."),
    ] = Protocol.SKEAP.value,
    nodes: Annotated[int, typer.Option(help="How many there are.")] = 100,
    ops_per_node: Annotated[
        int, typer.Option(help="Operations that each node makes in the time of a wave.")
    ] = 1,
    waves: Annotated[int, typer.Option(help="Operations are made for the time of so many.")] = 5,
    priorities: Annotated[int, typer.Option(help="How many; skueue has one, and seap any.")] = 4,
    delete_share: Annotated[
        float, typer.Option(help="How likely an operation takes an element out, 0 to 1.")
    ] = 0.5,
    salt: Annotated[str, typer.Option(help="Labels are drawn from this and the names.")] = "lab",
    seed: Annotated[int, typer.Option(help="The same seed, the same dice.")] = 1,
    engine: Annotated[
        str,
        typer.Option(
            help=f"machines, up to {MACHINES_MAX} nodes; arrays: the same, and fast, without seap."
        ),
    ] = "",
    growth: Annotated[
        Path | None, typer.Option(help="Draw rounds against sizes up to --nodes into this file.")
    ] = None,
    traffic: Annotated[
        Path | None, typer.Option(help="Draw congestion and sizes of messages into this file.")
    ] = None,
    fairness: Annotated[
        Path | None, typer.Option(help="Draw how many elements nodes keep into this file.")
    ] = None,
    rates: Annotated[
        Path | None,
        typer.Option(help="Draw Skeap and Seap side by side, by operations, into this file."),
    ] = None,
    machines: Annotated[
        int, typer.Option(help="In --growth and --traffic: ask the machines too, up to this size.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Rounds, congestion, sizes of messages: what the paper claims, measured."""
    options = PriorityOptions(
        protocol=one_of("--protocol", Protocol, protocol),
        nodes=nodes,
        ops_per_node=ops_per_node,
        waves=waves,
        priorities=priorities,
        delete_share=delete_share,
        salt=plain_name("--salt", salt),
        seed=seed,
    )
    with_engine = _engine(options, one_of("--engine", Engine, engine) if engine else None)
    files = {"growth": growth, "traffic": traffic, "fairness": fairness, "rates": rates}
    for word, path in files.items():
        checked_file(f"--{word}", path, PICTURES)
    wanted = {word: path for word, path in files.items() if path is not None}
    told = _drawn(options, machines, wanted) if wanted else _told(options, with_engine)
    if as_json:
        print(json.dumps(told))
        return
    _print(told)


def _engine(options: PriorityOptions, asked: Engine | None) -> Engine:
    if options.protocol is not Protocol.SEAP:
        return engine_for(asked, options.nodes, at_ease=options.at_ease)
    if asked is Engine.ARRAYS:
        raise BadOption("--engine", asked.value, "machines with --protocol seap")
    within("--nodes", options.nodes, 2, MACHINES_MAX)
    return Engine.MACHINES


def _told(options: PriorityOptions, engine: Engine) -> dict[str, Any]:
    measured = _measured(options, engine)
    return {
        **msgspec.to_builtins(options),
        "priorities": None if options.protocol is Protocol.SEAP else options.rows,
        "engine": engine.value,
        **msgspec.to_builtins(measured),
    }


def _measured(options: PriorityOptions, engine: Engine) -> "Measured":
    from snowmelt_lab.priority.arrays import Arrays
    from snowmelt_lab.priority.experiment import Experiment

    one = Arrays(options) if engine is Engine.ARRAYS else Experiment(options)
    for _ in shown(one.run(), options.waves + 1):
        pass
    return one.measured()


def _drawn(options: PriorityOptions, machines: int, files: dict[str, Path]) -> dict[str, Any]:
    from snowmelt_lab.priority import fairness as shares
    from snowmelt_lab.priority import growth as grown
    from snowmelt_lab.priority import picture, rates

    told: dict[str, Any] = {}
    if "growth" in files:
        each = [options.ops_per_node]
        points = list(shown(grown.points(options, each, machines), len(grown.pairs(options, each))))
        told["growth"] = [msgspec.to_builtins(point) for point in points]
        told["fit"] = msgspec.to_builtins(picture.draw_growth(points, files["growth"]))
    if "traffic" in files:
        pairs = grown.pairs(options, grown.RATES)
        points = list(shown(grown.points(options, grown.RATES, machines), len(pairs)))
        told["traffic"] = [msgspec.to_builtins(point) for point in points]
        picture.draw_traffic(options.protocol, points, files["traffic"])
    if "fairness" in files:
        rows = list(shown(shares.compared(options.nodes, options.seed), len(shares.rings())))
        told["fairness"] = [msgspec.to_builtins(row) for row in rows]
        picture.draw_fairness(options.nodes, rows, files["fairness"])
    if "rates" in files:
        both = list(shown(rates.compared(options), len(rates.pairs(options))))
        told["rates"] = [msgspec.to_builtins(one) for one in both]
        picture.draw_rates(options.nodes, both, files["rates"])
    return told


def _print(told: dict[str, Any]) -> None:
    if "operations" not in told:
        for word in ("growth", "traffic", "fairness", "rates"):
            for row in told.get(word, ()):
                print(", ".join(f"{name} {value}" for name, value in row.items()))
        if "fit" in told:
            fit = told["fit"]
            print(f"rounds = {fit['start']} + {fit['per_doubling']} log2 n", end="; ")
            print("left over: " + ", ".join(f"{one:g}" for one in fit["residuals"]))
        return
    known = {None: "any priority", 1: "one priority"}
    rows = known.get(told["priorities"], f"{told['priorities']} priorities")
    print(f"{told['protocol']} with {rows} on {told['nodes']} nodes: ", end="")
    print(f"{told['operations']} operations, {told['found_nothing']} found nothing")
    print(f"rounds      {told['rounds_mean']} in the mean, {told['rounds_p99']} at most of 99 %:")
    print(f"            {told['rounds_waiting_mean']} until a wave takes the operation along,")
    print(f"            {told['rounds_climbing_mean']} until its position is known,")
    print(f"            {told['rounds_table_mean']} until the table has done it")
    print(f"congestion  {told['congestion_max']} messages at a node in a round at most")
    print(f"messages    {told['message_bits_max']} bits at most")
    print(f"tree        {told['tree_height']} high, {told['tree_height_hops']} hops between nodes")
    print(f"routes      {told['routing_hops_mean']} hops in the mean")
    print(f"consistent  {'yes' if told['consistent'] else told['wrong']}")
