"""One run from its start to its verdict."""

import argparse
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.chaos.frame import add_options, framed, say
from benchmarks.chaos.main import start_all, wait_up
from benchmarks.chaos.starving import watch
from benchmarks.overlay_chaos_parts import table
from benchmarks.overlay_chaos_parts.crowd import Crowd
from benchmarks.overlay_chaos_parts.draining import drain
from benchmarks.overlay_chaos_parts.judging import Judgement, judge
from benchmarks.overlay_chaos_parts.plan import ANY, Plan, Plant
from benchmarks.overlay_chaos_parts.storm import Kind, Storm

from snowmelt.cli.local import LocalCluster

FINISH_SECONDS: Final = 120.0
DRAIN_SECONDS: Final = 240.0
EACH: Final = 4
"""Clients in each process."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a whole."""

    nodes: int
    replicas: int
    clients: int
    seconds: float
    seed: int
    done: dict[str, int]
    """How often which was done."""
    start_seconds: float
    """Until all nodes were in one view."""
    up_seconds: float
    """After the last injury, until all were in one view again."""
    drain_seconds: float
    judgement: Judgement
    broken: list[str]


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Injures a priority queue; judges it.")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--clients", type=int, default=32, help=f"by {EACH}, a process for each")
    parser.add_argument("--seconds", type=float, default=120.0)
    kinds = ",".join(Kind)
    parser.add_argument("--inject", default=kinds, help=f"which of {kinds}")
    parser.add_argument("--every", type=float, default=1.5, help="seconds; 0 for never")
    parser.add_argument("--heartbeat", type=float, default=0.5, help="the nodes', in seconds")
    parser.add_argument("--priorities", default="4", help="how many; or any: int, or float")
    parser.add_argument("--items", type=int, default=20, help="in a batch, at most")
    parser.add_argument("--size", type=int, default=100, help="of an item, in bytes")
    parser.add_argument("--bound", type=int, default=5_000, help="items that may wait")
    parser.add_argument("--deliveries", type=int, default=3, help="that fail, until one is dead")
    parser.add_argument("--lease", type=float, default=5.0)
    parser.add_argument("--timeout", type=float, default=5.0, help="of one call")
    parser.add_argument("--pause", type=float, default=0.1, help="of a client, in seconds")
    parser.add_argument("--forget", type=float, default=0.03, help="share of leases forgotten")
    parser.add_argument("--nack", type=float, default=0.1, help="share of leases given back")
    plants = [plant.value for plant in Plant]
    parser.add_argument("--plant", choices=plants, default="none", help="a fault to be found")
    add_options(parser)
    options = parser.parse_args(arguments)
    try:
        options.kinds = [Kind(one) for one in filter(None, options.inject.split(","))]
    except ValueError as error:
        parser.error(f"--inject: {error}")
    if options.priorities not in ANY:
        if not options.priorities.isdecimal():
            parser.error(f"--priorities: a number, or one of {', '.join(ANY)}")
        options.priorities = int(options.priorities)
    if options.clients % EACH or min(options.nodes, options.clients) < 1:
        parser.error(f"--nodes: 1 or more; --clients: some multiple of {EACH}")
    if options.every and not options.kinds:
        parser.error("--inject: at least one kind, or --every 0")
    return options


def main(arguments: list[str] | None = None) -> int:
    return framed(parsed(arguments), "overlay-chaos-", run, table.show)


def run(options: argparse.Namespace, folder: Path) -> Result:
    begin = time.monotonic()
    with ExitStack() as stack:
        cluster = stack.enter_context(
            LocalCluster(options.nodes, folder / "nodes", options.heartbeat)
        )
        start_all(cluster)
        started = time.monotonic()
        say(f"{options.nodes} nodes are up after {started - begin:.1f} s")
        plan = planned(options, cluster.url, folder)
        with Crowd(plan) as crowd, watch(folder, crowd, cluster):
            for number in range(options.clients // EACH):
                crowd.start(number)
            crowd.wait_started()
            say("all clients are at work")
            loaded = time.monotonic_ns()
            storm = Storm(crowd, cluster, plan)
            storm.blow(options.seconds, options.every, options.kinds)
            ended = time.monotonic_ns()
            broken = storm.wrong
            up = wait_up(cluster, broken)
            say(f"all are up again after {up:.1f} s")
            broken += crowd.finish([one for one in crowd.members if one.running], 1, FINISH_SECONDS)
            drained = time.monotonic()
            wrong = drain(plan, DRAIN_SECONDS)
            drained = time.monotonic() - drained
            broken += [wrong] if wrong else []
    judged = judge(folder, plan, loaded, ended)
    return Result(
        nodes=options.nodes,
        replicas=options.replicas,
        clients=options.clients,
        seconds=options.seconds,
        seed=options.seed,
        done=dict(sorted(storm.done.items())),
        start_seconds=round(started - begin, 1),
        up_seconds=round(up, 1),
        drain_seconds=round(drained, 1),
        judgement=judged,
        broken=[*broken, *judged.broken],
    )


def planned(options: argparse.Namespace, url: str, folder: Path) -> Plan:
    return Plan(
        url=url,
        place=str(folder),
        replicas=options.replicas,
        priorities=options.priorities,
        clients=EACH,
        items=options.items,
        size=options.size,
        bound=options.bound,
        deliveries=options.deliveries,
        lease=options.lease,
        timeout=options.timeout,
        pause=options.pause,
        forget=options.forget,
        nack=options.nack,
        seed=options.seed,
        plant=Plant(options.plant),
    )
