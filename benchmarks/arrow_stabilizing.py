"""How long arrows take to heal from arbitrary states, beside the bound; and what watching costs.

    python benchmarks/arrow_stabilizing.py [--seeds 10000] [--tree-seeds 1000] [--figure FILE]
        [--processes 2] [--json]

Each seed draws a tree of 2 to 500 nodes (path, star, binary, random, overlay), a time-out of 2 to
10 round trips, and an arbitrary state: arrows anywhere, any stray finds and observers on any edge,
any state of the watch over it. Requests go on meanwhile. Every edge has to be legal within
3R + tau, and to stay so; and then all requests have to be in one order. The seeds with a tree begin
with arbitrary distances, parents, children and claims too, and the tree has a bound of its own.

Then the trade: the time that 60 nodes need, for longer and longer time-outs, beside the messages
that an edge costs in a round trip when all is well. It ends with 1 when a bound is not kept.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from statistics import mean, quantiles
from time import perf_counter

import msgspec
from rich.console import Console
from rich.progress import track

from snowmelt.core.instant import Instant
from snowmelt_lab.arrow.corruption import corrupt
from snowmelt_lab.arrow.experiment import heal, run
from snowmelt_lab.arrow.options import (
    ROUND_TRIP,
    Arrivals,
    ArrowOptions,
    Corruption,
    TreeKind,
)
from snowmelt_lab.arrow.world import World
from snowmelt_lab.drawing import INK, RIGHT, WRONG, canvas, save

NODES_MAX = 500
SMALL = 1.5
"""The higher, the more trees are small."""
FACTORS = (2.0, 2.0, 2.0, 3.0, 5.0, 10.0)
EDGES = (Corruption.ARROWS, Corruption.FINDS, Corruption.OBSERVERS)
TRADES = (2, 3, 4, 6, 8, 12, 16, 24, 32)
TRADE_SEEDS = 40
CALM = 10
"""Time-outs for which a healed edge's messages are counted."""


class One(msgspec.Struct, frozen=True):
    """What became of a seed."""

    seed: int
    nodes: int
    factor: float
    ratio: float
    """Of the time to the bound."""
    tree_ratio: float
    right: bool
    """Healed in time, stayed legal, legal as a whole, and one order."""


class Sweep(msgspec.Struct, frozen=True):
    """What became of many."""

    seeds: int
    wrong: list[int]
    worst: float
    worst_seed: int
    worst_shortest: float
    """Among those with the shortest time-out, for which the bound is 5R."""
    mean: float
    p99: float
    worst_tree: float
    nodes_max: int
    seconds: float


class Trade(msgspec.Struct, frozen=True):
    """One length of the time-out, in round trips."""

    factor: float
    messages: float
    """An edge and round trip, when all is well."""
    time_mean: float
    time_max: float
    bound: float


def judged(seed: int, *, tree: bool) -> One:
    chance = Random(seed)
    options = ArrowOptions(
        nodes=round(2 * (NODES_MAX / 2) ** (chance.random() ** SMALL)),
        tree=chance.choice(list(TreeKind)),
        requests=10,
        arrivals=chance.choice(list(Arrivals)),
        timeout_factor=chance.choice(FACTORS),
        corrupt=tuple(Corruption) if tree else EDGES,
        seed=seed,
    )
    told = run(options)
    assert told.bound_over_round_trip is not None
    time = told.time_over_round_trip
    ratio = float("inf") if time is None else time / told.bound_over_round_trip
    tree_ratio = 0.0
    if told.tree_bound_over_round_trip is not None:
        at = told.tree_over_round_trip
        tree_ratio = float("inf") if at is None else at / told.tree_bound_over_round_trip
    kept = ratio <= 1 and tree_ratio <= 1 and told.closure_breaks == 0
    right = kept and told.stabilized and told.whole_legal and told.order_valid
    return One(seed, options.nodes, options.timeout_factor, ratio, tree_ratio, right)


def swept(seeds: int, processes: int, *, tree: bool) -> Sweep:
    begin = perf_counter()
    with ProcessPoolExecutor(processes) as pool:
        work = pool.map(partial(judged, tree=tree), range(seeds), chunksize=20)
        found = list(shown(work, seeds))
    worst = max(found, key=lambda one: one.ratio)
    return Sweep(
        seeds=seeds,
        wrong=[one.seed for one in found if not one.right],
        worst=worst.ratio,
        worst_seed=worst.seed,
        worst_shortest=max((one.ratio for one in found if one.factor == 2), default=0.0),
        mean=mean(one.ratio for one in found),
        p99=quantiles([one.ratio for one in found], n=100)[-1],
        worst_tree=max(one.tree_ratio for one in found),
        nodes_max=max(one.nodes for one in found),
        seconds=perf_counter() - begin,
    )


def traded() -> Iterator[Trade]:
    for factor in TRADES:
        worlds = [trial(factor, seed) for seed in range(TRADE_SEEDS)]
        times = [time for time, _ in worlds]
        yield Trade(
            factor=factor,
            messages=mean(messages for _, messages in worlds),
            time_mean=mean(times),
            time_max=max(times),
            bound=3 + factor,
        )


def trial(factor: float, seed: int) -> tuple[float, float]:
    """When a tree of 60 nodes was healed, and what an edge costs after that in a round trip."""
    world = World(ArrowOptions(nodes=60, timeout_factor=factor, seed=seed))
    corrupt(world)
    at = heal(world).at
    assert at is not None, f"seed {seed} with a time-out of {factor} round trips never heals"
    before = watching(world)
    span = round(CALM * factor) * ROUND_TRIP
    world.run(Instant(world.now + span))
    edges = len(world.plan.edges)
    return at / ROUND_TRIP, (watching(world) - before) / edges / (span / ROUND_TRIP)


def watching(world: World) -> int:
    return world.sent["Observer"] + world.sent["Observed"]


def draw(trades: list[Trade], path: Path) -> None:
    figure, (cost, time) = canvas(2, "Watching edges: fewer messages, or a shorter time to heal")
    factors = [trade.factor for trade in trades]
    messages = [trade.messages for trade in trades]
    cost.plot(messages, [trade.bound for trade in trades], "--", color=INK, label="bound, 3R + τ")
    cost.plot(messages, [trade.time_max for trade in trades], "o-", color=WRONG, label="longest")
    cost.plot(messages, [trade.time_mean for trade in trades], "o-", color=RIGHT, label="mean")
    for trade in trades[::2]:
        cost.annotate(f" τ = {trade.factor:g} R", (trade.messages, trade.bound), fontsize=8)
    cost.set_xscale("log")
    cost.set_yscale("log")
    cost.set_xticks(messages[::2], [f"{each:.2g}" for each in messages[::2]], minor=False)
    cost.set_yticks([3, 5, 10, 20, 35], ["3", "5", "10", "20", "35"], minor=False)
    cost.minorticks_off()
    cost.set_xlabel("messages an edge and round trip, when all is well")
    cost.set_ylabel("until all edges are legal (round trips)")
    cost.legend(loc="lower left")
    time.plot(factors, [trade.bound for trade in trades], "--", color=INK)
    time.plot(factors, [trade.time_max for trade in trades], "o-", color=WRONG)
    time.plot(factors, [trade.time_mean for trade in trades], "o-", color=RIGHT)
    time.set_xlabel("time-out τ (round trips)")
    time.set_ylabel("until all edges are legal (round trips)")
    time.set_ylim(bottom=0)
    save(figure, path)


def shown(things: Iterator[One], total: int) -> Iterator[One]:
    console = Console(stderr=True)
    hidden = not console.is_terminal
    yield from track(things, "", total, console=console, transient=True, disable=hidden)


def told(name: str, sweep: Sweep) -> None:
    print(f"{name}: {sweep.seeds} seeds, up to {sweep.nodes_max} nodes, {sweep.seconds:.0f} s")
    print(f"  wrong             {sweep.wrong or 'none'}")
    print(f"  worst             {sweep.worst:.3f} of the bound (seed {sweep.worst_seed});", end=" ")
    print(f"{sweep.worst_shortest:.3f} of 5R with the shortest time-out")
    print(f"  mean, 99th of 100 {sweep.mean:.3f}, {sweep.p99:.3f}")
    if sweep.worst_tree:
        print(f"  tree, worst       {sweep.worst_tree:.3f} of its bound")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--tree-seeds", type=int, default=1_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sweeps = {
        "arrows": swept(options.seeds, options.processes, tree=False),
        "trees": swept(options.tree_seeds, options.processes, tree=True),
    }
    trades = list(traded())
    if options.figure is not None:
        draw(trades, options.figure)
    if options.json:
        print(json.dumps(msgspec.to_builtins({**sweeps, "trades": trades})))
    else:
        for name, sweep in sweeps.items():
            told(name, sweep)
        for trade in trades:
            print(f"time-out {trade.factor:>4g} R: {trade.messages:.3f} messages,", end=" ")
            print(f"healed in {trade.time_mean:.2f} R, at most {trade.time_max:.2f}", end=" ")
            print(f"of {trade.bound:g}")
    late = any(trade.time_max > trade.bound for trade in trades)
    sys.exit(late or any(sweep.wrong for sweep in sweeps.values()))


if __name__ == "__main__":
    main()
