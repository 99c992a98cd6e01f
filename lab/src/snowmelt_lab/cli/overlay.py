"""`snowmelt lab overlay`: the linearized de Bruijn overlay, drawn and measured."""

import json
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from snowmelt.core.errors import BadOption
from snowmelt.core.names import NodeId, plain_name
from snowmelt_lab.bounds import within
from snowmelt_lab.cli.progress import shown
from snowmelt_lab.machines.overlay import Ring
from snowmelt_lab.output import PICTURES, checked_file

DRAWN_MAX = 400
CHANGES_MAX = 1_000
TRIALS_MAX = 1_000


def overlay(
    nodes: Annotated[int, typer.Option(help="How many there are.")] = 16,
    out: Annotated[
        Path | None, typer.Option(help="Draw ring, tree and a route: .svg, .png or .pdf.")
    ] = None,
    growth: Annotated[
        Path | None, typer.Option(help="Draw costs against sizes up to --nodes into this file.")
    ] = None,
    changes: Annotated[
        int, typer.Option(help="Also try so many joins and leaves, and a crowd of each.")
    ] = 0,
    routes: Annotated[int, typer.Option(help="How many routes are measured.")] = 10_000,
    salt: Annotated[str, typer.Option(help="Labels are drawn from this and the names.")] = "lab",
    seed: Annotated[int, typer.Option(help="The same seed, the same dice.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Heights, hops and shares of the linearized de Bruijn overlay; and what joins cost."""
    _check(nodes, changes, routes, salt)
    for option, path in (("--out", out), ("--growth", growth)):
        checked_file(option, path, PICTURES)
    if out is not None:
        _draw(nodes, salt, seed, out)
    from snowmelt_lab.overlay import measures

    measured = measures.measured(nodes, salt, routes, seed)
    told: dict[str, Any] = msgspec.to_builtins(measured)
    if changes:
        from snowmelt_lab.overlay.changes import measured as changed

        told["changes"] = msgspec.to_builtins(changed(nodes, salt, changes, seed))
    if growth is not None:
        told["growth"] = _grow(nodes, salt, routes, seed, growth)
    if as_json:
        print(json.dumps(told))
        return
    _print(told)


def _check(nodes: int, changes: int, routes: int, salt: str) -> None:
    within("--nodes", nodes, 1, 100_000)
    within("--changes", changes, 0, TRIALS_MAX)
    within("--routes", routes, 1, 1_000_000)
    if changes and nodes > CHANGES_MAX:
        raise BadOption("--changes", changes, f"0 with more than {CHANGES_MAX} nodes")
    plain_name("--salt", salt)


def _draw(nodes: int, salt: str, seed: int, out: Path) -> None:
    if nodes > DRAWN_MAX:
        raise BadOption("--out", str(out), f"a picture of {DRAWN_MAX} nodes at most")
    from snowmelt_lab.overlay.picture import draw

    ring = Ring([NodeId(f"n{number}") for number in range(1, nodes + 1)], salt)
    draw(ring, seed, out)


def _grow(nodes: int, salt: str, routes: int, seed: int, path: Path) -> list[dict[str, Any]]:
    from snowmelt_lab.overlay import growth, measures

    sizes = measures.sizes_up_to(nodes)
    if len(sizes) < growth.SIZES_MIN:
        raise BadOption("--growth", str(path), "a curve, which needs --nodes of 50 or more")
    points = list(shown(growth.points(sizes, salt, routes, seed), len(sizes)))
    growth.draw(points, path)
    return [msgspec.to_builtins(point) for point in points]


def _print(told: dict[str, Any]) -> None:
    share = told["share"]
    print(f"{told['nodes']} nodes")
    print(f"tree    {told['tree_height']} high, {told['tree_height_hops']} hops between nodes")
    flat = ", ".join(f"{high} with {arity}" for arity, high in told["flat_tree_height"].items())
    print(f"flat    {flat} children a place")
    print(f"routes  {told['routing_hops_mean']} hops, {told['routing_hops_p99']} at most of 99 %")
    print(f"shares  {share['least']} to {share['most']} times the mean")
    if "changes" in told:
        one = told["changes"]
        print(f"join    served after {one['served']['mean']} rounds", end=", ")
        print(f"restored after {one['join_restored']['mean']}")
        print(f"leave   restored after {one['leave_restored']['mean']} rounds")
