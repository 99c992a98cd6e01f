"""One run from its start to its verdict."""

import argparse
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.chaos.frame import add_options, framed, say
from benchmarks.chaos.kinds import Kind, possible
from benchmarks.chaos.links import HUB_ADDRESS, Links
from benchmarks.chaos.main import start_all
from benchmarks.chaos.starving import watch
from benchmarks.pool_chaos_parts import table
from benchmarks.pool_chaos_parts.crowd import Crowd, Life, Member, Role
from benchmarks.pool_chaos_parts.draining import drain
from benchmarks.pool_chaos_parts.judging import Judgement, judge
from benchmarks.pool_chaos_parts.plan import SIZE_MIN, Plan, Plant
from benchmarks.pool_chaos_parts.storm import Counts, Storm

from snowmelt.cli.local import HERE, LocalCluster

FINISH_SECONDS: Final = 60.0
DRAIN_SECONDS: Final = 120.0
HEARTBEAT: Final = 0.5


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a whole."""

    nodes: int
    producers: int
    consumers: int
    seconds: float
    seed: int
    done: dict[str, int]
    """How many of each were killed, stopped or slow, or left."""
    start_seconds: float
    """Until all processes were at work."""
    drain_seconds: float
    idle_most: float
    """How long a consumer may idle beside a full producer."""
    objects_per_second: int
    judgement: Judgement
    broken: list[str]


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Injures a pool's processes; judges them.")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--producers", type=int, default=20)
    parser.add_argument("--consumers", type=int, default=20)
    parser.add_argument("--kill-producers", type=int, default=5, metavar="N")
    parser.add_argument("--kill-consumers", type=int, default=5, metavar="N")
    parser.add_argument("--kill-nodes", type=int, default=0, metavar="N")
    parser.add_argument("--stop", type=int, default=6, metavar="N", help="of all, nodes too")
    parser.add_argument("--slow", type=int, default=6, metavar="N", help="links of any of them")
    parser.add_argument(
        "--inject", default=",".join(Kind), help="which of these; what is not: none"
    )
    parser.add_argument("--leave", type=int, default=3, help="producers that leave in order")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--buffers", type=int, default=5)
    parser.add_argument("--max-hops", type=int, default=3)
    parser.add_argument("--wait", type=float, default=1.0, help="the pool's, in seconds")
    parser.add_argument("--lease", type=float, default=5.0)
    parser.add_argument("--grace", type=float, default=1.0)
    parser.add_argument("--slack", type=float, default=0.5, help="idling beyond wait, in seconds")
    parser.add_argument("--size-max", type=int, default=2_000_000, help="of an object, in bytes")
    parser.add_argument("--put-pause", type=float, default=0.04, help="of a producer, in seconds")
    parser.add_argument("--slow-pause", type=float, default=0.08, help="of a slow consumer")
    parser.add_argument("--fast-pause", type=float, default=0.005, help="of a fast consumer")
    parser.add_argument("--phase", type=float, default=4.0, help="seconds from slow to fast")
    parser.add_argument("--nack", type=float, default=0.03, help="share of objects given back")
    plants = [plant.value for plant in Plant]
    parser.add_argument("--plant", choices=plants, default="none", help="a fault to be found")
    add_options(parser)
    options = parser.parse_args(arguments)
    if min(options.nodes, options.producers, options.consumers) < 1:
        parser.error("--nodes, --producers and --consumers: 1 or more")
    if min(options.put_pause, options.slow_pause, options.fast_pause, options.phase) <= 0:
        parser.error("pauses and phases: above 0 seconds")
    if options.size_max <= SIZE_MIN:
        parser.error(f"--size-max: above {SIZE_MIN} bytes")
    try:
        options.kinds = possible(options.inject, Kind)
    except ValueError as error:
        parser.error(f"--inject: {error}")
    return options


def main(arguments: list[str] | None = None) -> int:
    return framed(parsed(arguments), "pool-chaos-", run, table.show)


def run(options: argparse.Namespace, folder: Path) -> Result:
    with ExitStack() as stack:
        wires, homes = None, [HERE] * options.nodes
        if Kind.SLOW in options.kinds:
            nodes = [f"n{one + 1}" for one in range(options.nodes)]
            wires = stack.enter_context(Links([*nodes, *crowded(options)]))
            homes = list(map(wires.home, nodes))
        cluster = stack.enter_context(
            LocalCluster(options.nodes, folder / "nodes", HEARTBEAT, homes=homes)
        )
        start_all(cluster)
        plan = planned(options, cluster.url, folder)
        with Crowd(plan, wires) as crowd, watch(folder, crowd, cluster):
            began = time.monotonic()
            started(options, crowd)
            start = time.monotonic() - began
            say(f"all processes are at work after {start:.1f} s")
            storm = Storm(crowd, cluster, plan, options.seconds, wires)
            storm.blow(counted(options))
            broken = [*storm.wrong, *stopped(crowd)]
            say("the load is over")
            drained = time.monotonic()
            wrong = drain(plan, DRAIN_SECONDS)
            drained = time.monotonic() - drained
            broken += [wrong] if wrong else []
            broken += crowd.finish(crowd.running(Role.PRODUCER), 1, FINISH_SECONDS)
            lives = [member.life for member in crowd.members]
    (folder / "lives.json").write_bytes(msgspec.json.encode(lives))
    idle_most = options.wait + options.slack
    judged = judge(folder, lives, idle_most)
    return Result(
        nodes=options.nodes,
        producers=options.producers,
        consumers=options.consumers,
        seconds=options.seconds,
        seed=options.seed,
        done=dict(sorted(storm.done.items())),
        start_seconds=round(start, 1),
        drain_seconds=round(drained, 1),
        idle_most=idle_most,
        objects_per_second=round((judged.acknowledged - judged.drained) / options.seconds),
        judgement=judged,
        broken=[*broken, *judged.broken],
    )


def crowded(options: argparse.Namespace) -> list[str]:
    """What the processes of the pool are called, whichever of their lives it is."""
    return [
        Life(role, number, 0).home
        for role, count in ((Role.PRODUCER, options.producers), (Role.CONSUMER, options.consumers))
        for number in range(count)
    ]


def started(options: argparse.Namespace, crowd: Crowd) -> None:
    """All of both kinds, at work."""
    for role, count in ((Role.CONSUMER, options.consumers), (Role.PRODUCER, options.producers)):
        for number in range(count):
            crowd.start(role, number)
    crowd.wait_started()


def stopped(crowd: Crowd) -> list[str]:
    """Producers put no more, and stay; consumers end. What was wrong with that."""
    crowd.wait_started()  # those that came back late
    producers: list[Member] = crowd.running(Role.PRODUCER)
    for member in producers:
        member.tell(1)
    return crowd.finish(crowd.running(Role.CONSUMER), 1, FINISH_SECONDS)


def counted(options: argparse.Namespace) -> Counts:
    kills = Kind.KILL in options.kinds
    return Counts(
        producers=kills * options.kill_producers,
        consumers=kills * options.kill_consumers,
        nodes=kills * options.kill_nodes,
        stops=(Kind.STOP in options.kinds) * options.stop,
        slows=(Kind.SLOW in options.kinds) * options.slow,
        leaving=options.leave,
    )


def planned(options: argparse.Namespace, url: str, folder: Path) -> Plan:
    return Plan(
        url=url,
        place=str(folder),
        buffers=options.buffers,
        max_hops=options.max_hops,
        wait=options.wait,
        lease=options.lease,
        grace=options.grace,
        size_max=options.size_max,
        put_pause=options.put_pause,
        slow_pause=options.slow_pause,
        fast_pause=options.fast_pause,
        phase=options.phase,
        nack=options.nack,
        kinds=options.kinds,
        plant=Plant(options.plant),
        host=HUB_ADDRESS if Kind.SLOW in options.kinds else HERE.host,
        seed=options.seed,
    )
