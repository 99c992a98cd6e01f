"""`snowmelt lab arrow`: the arrow protocol heals from arbitrary states, and queues requests."""

import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from snowmelt_lab.arrow.contest import Contest, ContestOptions, Rival
from snowmelt_lab.arrow.experiment import Measured, run
from snowmelt_lab.arrow.options import FACTOR_SAFE, Arrivals, ArrowOptions, TreeKind, corruption_of
from snowmelt_lab.arrow.picture import draw
from snowmelt_lab.arrow.tracing import traced
from snowmelt_lab.bounds import one_of
from snowmelt_lab.output import checked_file

Nodes = Annotated[int, typer.Option(help="How many there are.")]
Tree = Annotated[
    str, typer.Option(help="path, star, binary, random, or overlay: breadth first in a graph.")
]
When = Annotated[str, typer.Option(help="sequence, one-shot or poisson: when they are asked for.")]
Seed = Annotated[int, typer.Option(help="The same seed, the same dice.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def arrow(
    nodes: Nodes = 15,
    tree: Tree = TreeKind.RANDOM.value,
    requests: Annotated[int, typer.Option(help="Places asked for, once all is legal.")] = 100,
    arrivals: When = Arrivals.SEQUENCE.value,
    corrupt: Annotated[
        str, typer.Option(help="What begins in an arbitrary state, by commas; or none.")
    ] = "arrows,finds,observers",
    timeout_factor: Annotated[
        float, typer.Option(help="Round trips from one observation of an edge to the next.")
    ] = FACTOR_SAFE,
    seed: Seed = 1,
    draw_file: Annotated[
        Path | None, typer.Option("--draw", help="Draw it step by step into this file: .svg.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """How long arrows take to heal, and what they cost. Times are in round trips."""
    options = ArrowOptions(
        nodes=nodes,
        tree=one_of("--tree", TreeKind, tree),
        requests=requests,
        arrivals=one_of("--arrivals", Arrivals, arrivals),
        corrupt=corruption_of(corrupt),
        timeout_factor=timeout_factor,
        seed=seed,
    )
    checked_file("--draw", draw_file, (".svg",))
    if draw_file is not None:
        draw(traced(options), draw_file)
    measured = run(options)
    if as_json:
        print(json.dumps(msgspec.to_builtins(measured)))
        return
    _print(options, measured)


def _print(options: ArrowOptions, measured: Measured) -> None:
    print(f"{options.nodes} nodes in a tree of the kind {options.tree.value}")
    if measured.tree_over_round_trip is not None:
        within = f"within {measured.tree_bound_over_round_trip:g}"
        print(f"tree right        after {measured.tree_over_round_trip:.2f} round trips, {within}")
    bound = measured.bound_over_round_trip
    within = "without a bound" if bound is None else f"within {bound:g}"
    if measured.time_over_round_trip is None:
        print(f"edges legal       never, {within}")
    else:
        print(f"edges legal       after {measured.time_over_round_trip:.2f} round trips, {within}")
    print(f"legal stay legal  {'yes' if not measured.closure_breaks else 'no'}")
    if measured.finds_per_request is not None:
        print(f"finds             {measured.finds_per_request:.3f} a request")
    print(f"order             {measured.wrong or 'valid'}")
    print(f"messages          {measured.messages}")


def arrow_compare(
    nodes: Nodes = 63,
    tree: Tree = TreeKind.OVERLAY.value,
    requests: Annotated[int, typer.Option(help="Places asked for.")] = 1_000,
    arrivals: When = Arrivals.SEQUENCE.value,
    rate: Annotated[float, typer.Option(help="Requests in a step, in all, if poisson.")] = 1.0,
    work: Annotated[float, typer.Option(help="Steps a node needs for each message.")] = 0.0,
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """Arrow against a home that knows the queue's end. A step is a message's time on an edge."""
    options = ContestOptions(
        nodes=nodes,
        tree=one_of("--tree", TreeKind, tree),
        requests=requests,
        arrivals=one_of("--arrivals", Arrivals, arrivals),
        rate=rate,
        work=work,
        seed=seed,
    )
    scores = {}
    for rival in Rival:
        contest = Contest(options, rival)
        contest.run()
        scores[rival.value] = contest.score
    if as_json:
        print(json.dumps(msgspec.to_builtins(scores)))
        return
    print(f"{nodes} nodes, {tree}, {requests} requests; steps until the place before is told:")
    print("          hops   latency     99 %   longest   busiest   order")
    for name, score in scores.items():
        print(f"{name:7} {score.hops:6.2f} {score.latency:9.2f} {score.latency_p99:8.2f}", end=" ")
        print(f"{score.latency_max:9.2f} {score.busiest:8.1%}    {score.wrong or 'valid'}")
