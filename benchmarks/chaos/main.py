"""One run from its start to its verdict."""

import argparse
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

import msgspec
from benchmarks.chaos import disks, links, table
from benchmarks.chaos.crowd import Crowd, shares
from benchmarks.chaos.disks import Disk
from benchmarks.chaos.draining import drain
from benchmarks.chaos.frame import add_options, framed, say
from benchmarks.chaos.injuries import Kind
from benchmarks.chaos.judging import Judgement, judge
from benchmarks.chaos.links import Links
from benchmarks.chaos.memory import Memory, memory_of
from benchmarks.chaos.plan import Plan
from benchmarks.chaos.recording import now
from benchmarks.chaos.storm import Storm
from benchmarks.chaos.well import Waits, waits

from snowmelt.cli.local import HERE, LocalCluster
from snowmelt.core.errors import Unavailable

START_AT_ONCE = 4
UP_SECONDS = 60.0
FINISH_SECONDS = 120.0


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a whole."""

    nodes: int
    replicas: int
    clients: int
    seconds: float
    every: float
    heartbeat: float
    seed: int
    injuries: dict[str, int]
    """How often which kind was done."""
    start_seconds: float
    """Until all nodes were in one view."""
    up_seconds: float
    """After the last injury, until all were in one view again."""
    drain_seconds: float
    memory: Memory
    judgement: Judgement
    well: Waits
    broken: list[str]


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Injures a cluster under load; judges what clients saw."
    )
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--priorities", type=int, default=1, help="how many; 0 for any whole ones")
    parser.add_argument("--inline-max", type=int, default=1 << 20, help="bytes; 0 for none")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--processes", type=int, default=4, help="of clients")
    parser.add_argument("--seconds", type=float, default=120.0)
    kinds = ",".join(Kind)
    parser.add_argument("--inject", default=kinds, help=f"which injuries; any of {kinds}")
    parser.add_argument("--every", type=float, default=2.0, help="seconds; 0 for never")
    parser.add_argument("--heartbeat", type=float, default=0.5, help="the nodes', in seconds")
    parser.add_argument("--items", type=int, default=20, help="in a batch")
    parser.add_argument("--size", type=int, default=100, help="of an item, in bytes")
    parser.add_argument("--bound", type=int, default=20_000, help="items that may wait")
    parser.add_argument("--lease", type=float, default=5.0)
    parser.add_argument("--timeout", type=float, default=5.0, help="of one call")
    parser.add_argument("--forget", type=float, default=0.01, help="share of leases forgotten")
    add_options(parser)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    return framed(parsed(arguments), "chaos-", run, table.show)


def kinds_of(options: argparse.Namespace) -> list[Kind]:
    """Which injuries are wanted and can be done here."""
    wanted = [Kind(name) for name in options.inject.split(",")]
    able = {
        Kind.CUT: links.possible() and options.nodes > 1,
        Kind.SEVER: links.possible(),
        Kind.FULL: disks.possible(),
        Kind.FAIL: disks.possible(),
    }
    left_out = [kind for kind in wanted if not able.get(kind, True)]
    if left_out:
        say(f"left out, since they need root and Linux (or more nodes): {', '.join(left_out)}")
    return [kind for kind in wanted if kind not in left_out]


def run(options: argparse.Namespace, folder: Path) -> Result:
    begin = time.monotonic()
    kinds = kinds_of(options)
    nodes = [f"n{one + 1}" for one in range(options.nodes)]
    clients = [f"c{one}" for one in range(options.processes)]
    with ExitStack() as stack:
        wires, homes, outside = None, [HERE] * len(nodes), [HERE] * len(clients)
        if {Kind.CUT, Kind.SEVER} & {*kinds}:
            wires = stack.enter_context(Links([*nodes, *clients]))
            homes, outside = list(map(wires.home, nodes)), list(map(wires.home, clients))
        owned = {}
        if {Kind.FULL, Kind.FAIL} & {*kinds}:
            owned = {name: Disk(folder / "nodes" / name) for name in nodes}
            for disk in owned.values():
                stack.enter_context(disk)
        cluster = stack.enter_context(
            LocalCluster(options.nodes, folder / "nodes", options.heartbeat, homes=homes)
        )
        chance = Random(options.seed)
        storm = stack.enter_context(Storm(cluster, folder, chance, wires, owned))
        start_all(cluster)
        started = time.monotonic()
        say(f"{options.nodes} nodes are up after {started - begin:.1f} s")
        plan = planned(options, cluster.url, folder)
        broken: list[str] = []
        with Crowd(plan, options.processes, outside) as crowd:
            storm.blow(crowd, options.seconds, options.every, kinds)
            load, ended = time.monotonic() - started, now()
            storm.note("the load is over")
            up = wait_up(cluster, broken)
            say(f"all are up again after {up:.1f} s")
            broken += crowd.finish(FINISH_SECONDS)
        broken += storm.wrong
        drained = time.monotonic()
        status, wrong = drain(plan, FINISH_SECONDS)
        drained = time.monotonic() - drained
        if wrong:
            broken.append(wrong)
        if status is not None and status.lost:
            broken.append(f"the queue says that it lost {status.lost} items")
        storm.note("drained", status=status)
        memory = memory_of([node.pid for node in cluster.nodes])
    judgement = judge(folder, load, ended)
    return Result(
        nodes=options.nodes,
        replicas=options.replicas,
        clients=options.clients,
        seconds=options.seconds,
        every=options.every,
        heartbeat=options.heartbeat,
        seed=options.seed,
        injuries=dict(sorted(storm.struck.items())),
        start_seconds=round(started - begin, 1),
        up_seconds=round(up, 1),
        drain_seconds=round(drained, 1),
        memory=memory,
        judgement=judgement,
        well=waits(folder, nodes[0], shares(options.clients, options.processes), ended),
        broken=[*broken, *judgement.broken],
    )


def planned(options: argparse.Namespace, url: str, folder: Path) -> Plan:
    return Plan(
        url=url,
        place=str(folder),
        replicas=options.replicas,
        priorities=options.priorities,
        inline_max=options.inline_max,
        clients=options.clients,
        items=options.items,
        size=options.size,
        bound=options.bound,
        lease=options.lease,
        timeout=options.timeout,
        forget=options.forget,
        seed=options.seed,
    )


def start_all(cluster: LocalCluster) -> None:
    """A few at a time: each is a Python that begins, and there are few cores."""
    if cluster.nodes[0].folder.exists():  # as a small disk of its own
        cluster.nodes[0].found()
    else:
        cluster.found()
    for first in range(0, len(cluster.nodes), START_AT_ONCE):
        for node in cluster.nodes[first : first + START_AT_ONCE]:
            node.start()
        names = [node.name for node in cluster.nodes[: first + START_AT_ONCE]]
        cluster.wait_for(names, UP_SECONDS)


def wait_up(cluster: LocalCluster, broken: list[str]) -> float:
    begin = time.monotonic()
    try:
        cluster.wait_for([node.name for node in cluster.nodes], UP_SECONDS)
    except Unavailable as error:
        broken.append(str(error))
    return time.monotonic() - begin
