"""`snowmelt lab arrow-compare`: arrow beside a directory with a home, on the same requests."""

import json
from typing import Annotated

import msgspec
import typer

from snowmelt.lab.arrow.contest import Contest, ContestOptions, Rival
from snowmelt.lab.arrow.options import Arrivals, TreeKind, one_of


def arrow_compare(
    nodes: Annotated[int, typer.Option(help="How many there are.")] = 63,
    tree: Annotated[
        str, typer.Option(help="path, star, binary, random, or overlay: breadth first in a graph.")
    ] = TreeKind.OVERLAY.value,
    requests: Annotated[int, typer.Option(help="Places asked for.")] = 1_000,
    arrivals: Annotated[
        str, typer.Option(help="sequence, one-shot or poisson: when they are asked for.")
    ] = Arrivals.SEQUENCE.value,
    rate: Annotated[float, typer.Option(help="Requests in a step, in all, if poisson.")] = 1.0,
    work: Annotated[float, typer.Option(help="Steps a node needs for each message.")] = 0.0,
    seed: Annotated[int, typer.Option(help="The same seed, the same dice.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
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
