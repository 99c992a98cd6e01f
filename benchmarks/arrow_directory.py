"""Arrow against a directory with a home, against the best order there is, and on which graph.

    python benchmarks/arrow_directory.py [--parts contest,offline,graphs] [--seeds 1000]
        [--figure FILE] [--json]

`contest`: hops and latencies of requests, one after another, all at once, and at more and more a
step, by tree and number of nodes, with and without time that a node needs for a message.
`offline`: two to eight requests at once, beside the shortest way through all of them, and beside
s log2 R. `graphs`: what trees on three kinds of graph are worth, by degree and number of nodes.
It ends with 1 when an order is wrong or a ratio is above s log2 R.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from math import log2
from pathlib import Path
from statistics import mean
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.arrow_directory_parts.graphs import GraphKind, Worth, worth
from benchmarks.arrow_directory_parts.offline import OneShot, one_shot

from snowmelt_lab.arrow.contest import Contest, ContestOptions, Rival, Score
from snowmelt_lab.arrow.options import Arrivals, TreeKind
from snowmelt_lab.drawing import INK, RIGHT, WRONG, canvas, save

SIZES = (2, 10, 30, 100, 300, 1_000)
RATES = (0.1, 0.3, 1.0, 3.0, 6.0, 9.0, 12.0, 20.0, 40.0, 100.0)
RATED_NODES = 100
WORK = 0.1
SEQUENCE = 300
POISSON = 3_000
CONTEST_SEEDS = 3
OFFLINE_NODES = 31
OFFLINE_REQUESTS = range(2, 9)
GRAPH_SIZES = (10, 30, 100, 300, 1_000)
DEGREES = (4, 6, 8, 12, 16)
SALTS = 3

LINES = (
    (TreeKind.PATH, Rival.ARROW, "arrow on a path", "#9aa5b1", "-"),
    (TreeKind.STAR, Rival.ARROW, "arrow on a star", "#e09f3e", "-"),
    (TreeKind.BINARY, Rival.ARROW, "arrow on a binary tree", "#3a86c8", "-"),
    (TreeKind.OVERLAY, Rival.ARROW, "arrow on the overlay", RIGHT, "-"),
    (TreeKind.OVERLAY, Rival.HOME, "home, over the overlay", WRONG, "--"),
    (TreeKind.STAR, Rival.DIRECT, "home, one step from all", INK, "--"),
)


class Point(msgspec.Struct, frozen=True):
    """One contest of one rival, on average over the seeds."""

    tree: str
    rival: str
    arrivals: str
    nodes: int
    work: float
    rate: float
    hops: float
    latency: float
    latency_p99: float
    busiest: float
    wrong: list[str]


class Ratios(msgspec.Struct, frozen=True):
    """Arrow's steps over the least there are, for one tree and so many requests."""

    tree: str
    direct: bool
    """Whether the best order goes by direct links, and not by the graph."""
    requests: int
    stretch_min: int
    stretch_max: int
    mean: float
    worst: float
    worst_of_bound: float
    """The largest share of s log2 R, with each run's own s."""


def contests() -> Iterator[Point]:
    for nodes in SIZES:
        for tree in TreeKind:
            yield from rivals(Arrivals.SEQUENCE, tree, nodes, SEQUENCE, 0.0)
            for work in (0.0, WORK):
                yield from rivals(Arrivals.ONE_SHOT, tree, nodes, nodes, work)
    for rate in RATES:
        for tree in TreeKind:
            for work in (0.0, WORK):
                yield from rivals(Arrivals.POISSON, tree, RATED_NODES, POISSON, work, rate)


def rivals(
    arrivals: Arrivals, tree: TreeKind, nodes: int, requests: int, work: float, rate: float = 1.0
) -> Iterator[Point]:
    for rival in Rival:
        scores = []
        for seed in range(CONTEST_SEEDS):
            options = ContestOptions(
                nodes=nodes,
                tree=tree,
                requests=requests,
                arrivals=arrivals,
                rate=rate,
                work=work,
                seed=seed,
            )
            contest = Contest(options, rival)
            contest.run()
            scores.append(contest.score)
        yield point(options, rival, scores)


def point(options: ContestOptions, rival: Rival, scores: list[Score]) -> Point:
    return Point(
        tree=options.tree.value,
        rival=rival.value,
        arrivals=options.arrivals.value,
        nodes=options.nodes,
        work=options.work,
        rate=options.rate,
        hops=mean(score.hops for score in scores),
        latency=mean(score.latency for score in scores),
        latency_p99=mean(score.latency_p99 for score in scores),
        busiest=mean(score.busiest for score in scores),
        wrong=[score.wrong for score in scores if score.wrong],
    )


def ratios(seeds: int) -> Iterator[Ratios]:
    for tree in TreeKind:
        for count in OFFLINE_REQUESTS:
            runs = [one_shot(tree, OFFLINE_NODES, count, seed) for seed in range(seeds)]
            for direct in (False, True):
                yield ratios_of(tree, count, runs, direct=direct)


def ratios_of(tree: TreeKind, count: int, runs: list[OneShot], *, direct: bool) -> Ratios:
    stretches = [one.stretch_direct if direct else one.stretch for one in runs]
    found = [one.arrow / (one.best_direct if direct else one.best) for one in runs]
    pairs = zip(found, stretches, strict=True)
    return Ratios(
        tree=tree.value,
        direct=direct,
        requests=count,
        stretch_min=min(stretches),
        stretch_max=max(stretches),
        mean=mean(found),
        worst=max(found),
        worst_of_bound=max(ratio / (stretch * log2(count)) for ratio, stretch in pairs),
    )


def graphs() -> Iterator[Worth]:
    for nodes in GRAPH_SIZES:
        for degree in DEGREES:
            for kind in GraphKind:
                yield averaged([worth(kind, nodes, degree, salt) for salt in range(SALTS)])


def averaged(found: list[Worth]) -> Worth:
    """On average over the salts; of what is a maximum, the greatest."""
    return msgspec.structs.replace(
        found[0],
        degree_max=max(one.degree_max for one in found),
        children_max=max(one.children_max for one in found),
        depth=max(one.depth for one in found),
        diameter=max(one.diameter for one in found),
        stretch=max(one.stretch for one in found),
        mean=mean(one.mean for one in found),
        mean_stretch=mean(one.mean_stretch for one in found),
        moved=mean(one.moved for one in found),
        moved_root=mean(one.moved_root for one in found),
    )


def draw(points: list[Point], path: Path) -> None:
    title = "Nobody in the middle: arrow beside a directory with a home"
    figure, (alone, at_once, rated) = canvas(3, title)
    for tree, rival, label, colour, dash in LINES:
        mine = [one for one in points if (one.tree, one.rival) == (tree.value, rival.value)]
        style: dict[str, Any] = {"color": colour, "linestyle": dash, "marker": "o", "markersize": 4}
        hops = [one for one in mine if one.arrivals == Arrivals.SEQUENCE.value]
        alone.plot([one.nodes for one in hops], [one.hops for one in hops], label=label, **style)
        for panel, arrivals, by in (
            (at_once, Arrivals.ONE_SHOT, "nodes"),
            (rated, Arrivals.POISSON, "rate"),
        ):
            some = [one for one in mine if one.arrivals == arrivals.value and one.work]
            panel.plot([getattr(one, by) for one in some], [one.latency for one in some], **style)
    for panel in (alone, at_once, rated):
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.xaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_major_formatter("{x:g}")
    alone.set_title("one after another", fontsize=10)
    alone.set_xlabel("nodes")
    alone.set_ylabel("edges that messages go over, a request")
    alone.legend(fontsize=8)
    at_once.set_title(f"all at once, {WORK:g} steps of work a message", fontsize=10)
    at_once.set_xlabel("nodes, each asking once")
    at_once.set_ylabel("mean steps until the place before is told")
    rated.set_title(f"{RATED_NODES} nodes, {WORK:g} steps of work a message", fontsize=10)
    rated.set_xlabel("requests in a step, in all")
    rated.axvline(1 / WORK, color=WRONG, linewidth=0.8, linestyle=":")
    rated.annotate(" a home's most", (1 / WORK, rated.get_ylim()[0] * 1.15), fontsize=8)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="contest,offline,graphs")
    parser.add_argument("--seeds", type=int, default=1_000, help="of the offline part, each R")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    parts = options.parts.split(",")
    points = list(contests()) if "contest" in parts else []
    offline = list(ratios(options.seeds)) if "offline" in parts else []
    found: dict[str, list[Any]] = {"contest": points, "offline": offline, "graphs": []}
    if "graphs" in parts:
        found["graphs"] = list(graphs())
    if options.figure is not None and points:
        draw(points, options.figure)
    if options.json:
        print(json.dumps(msgspec.to_builtins(found)))
    else:
        for rows in found.values():
            for row in rows:
                print(*(f"{key} {value}" for key, value in spelled(row)), sep="  ")
    sys.exit(any(one.wrong for one in points) or any(one.worst_of_bound > 1 for one in offline))


def spelled(row: msgspec.Struct) -> Iterator[tuple[str, str]]:
    for key, value in msgspec.structs.asdict(row).items():
        yield key, f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
