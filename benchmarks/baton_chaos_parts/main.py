"""One run from its start to its verdict."""

import argparse
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.baton_chaos_parts import table
from benchmarks.baton_chaos_parts.crowd import Crowd, home_of
from benchmarks.baton_chaos_parts.judging import Judgement, judge
from benchmarks.baton_chaos_parts.plan import Plan, Plant, rotated
from benchmarks.baton_chaos_parts.queueing import Bounds
from benchmarks.baton_chaos_parts.storm import Storm
from benchmarks.chaos.frame import add_options, framed, say
from benchmarks.chaos.kinds import Kind, possible
from benchmarks.chaos.links import Links
from benchmarks.chaos.main import start_all, wait_up
from benchmarks.chaos.starving import watch

from snowmelt.cli.local import HERE, LocalCluster
from snowmelt.cli.local_etcd import LocalEtcd
from snowmelt.core.errors import CallerError
from snowmelt_lab.output import PICTURES, checked_file

FINISH_SECONDS: Final = 90.0
LATE_SECONDS: Final = 3.0
OFFERED: Final = (Kind.KILL, Kind.STOP, Kind.FORK, Kind.SLOW)


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a whole."""

    nodes: int
    workers: int
    seconds: float
    heartbeat: float
    seed: int
    done: dict[str, int]
    """How many of each were killed, stopped or slow."""
    start_seconds: float
    """Until all workers were at work."""
    up_seconds: list[float]
    """After each storm, until all nodes were in one view again."""
    judgement: Judgement
    broken: list[str]


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Kills and stops who holds batons; judges it.")
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--batons", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120.0)
    names = ",".join(OFFERED)
    parser.add_argument("--inject", default=names, help=f"any of {names}")
    parser.add_argument("--etcd", action="store_true", help="etcd decides; no node is spared")
    parser.add_argument("--fork-every", type=float, default=4.0, help="of a worker, in seconds")
    parser.add_argument("--storm", type=float, default=25.0, help="seconds with faults")
    parser.add_argument("--calm", type=float, default=15.0, help="seconds without, after each")
    parser.add_argument("--final", type=float, default=21.0, help="the same at the end")
    parser.add_argument("--heartbeat", type=float, default=0.3, help="the nodes', in seconds")
    parser.add_argument("--timeout", type=float, default=60.0, help="of a wish, in seconds")
    parser.add_argument("--hold", type=float, default=0.3, help="most holds' longest, in seconds")
    parser.add_argument("--between", type=float, default=0.05, help="from a check to its act")
    parser.add_argument("--pause", type=float, default=0.1, help="between a worker's turns")
    parser.add_argument("--save", type=float, default=0.1, help="share of holds that save")
    parser.add_argument("--settle", type=float, default=9.0, help="seconds from fault to order")
    parser.add_argument("--serve", type=float, default=12.0, help="seconds until all were served")
    parser.add_argument("--overtaking", type=float, default=0.5, help="seconds that are no order")
    plants = [plant.value for plant in Plant]
    parser.add_argument("--plant", choices=plants, default="none", help="a fault to be found")
    parser.add_argument("--figure", type=Path, help="draw the run into this file")
    add_options(parser)
    options = parser.parse_args(arguments)
    if options.nodes < 2 or options.workers < 1 or options.batons < 1:
        parser.error("--nodes: 2 or more; --workers and --batons: 1 or more")
    if min(options.storm, options.pause, options.timeout) <= 0:
        parser.error("--storm, --pause and --timeout: above 0 seconds")
    try:
        options.kinds = possible(options.inject, OFFERED)
    except ValueError as error:
        parser.error(f"--inject: {error}")
    if options.figure is not None:
        check_figure(parser, options.figure)
    return options


def check_figure(parser: argparse.ArgumentParser, path: Path) -> None:
    """Refuses what could not be drawn, before minutes are spent."""
    try:
        checked_file("--figure", path, PICTURES)
    except CallerError as error:
        parser.error(str(error))


def main(arguments: list[str] | None = None) -> int:
    return framed(parsed(arguments), "baton-chaos-", run, table.show)


def run(options: argparse.Namespace, folder: Path) -> Result:
    with ExitStack() as stack:
        wires, homes = None, [HERE] * options.nodes
        if Kind.SLOW in options.kinds:
            nodes = [f"n{one + 1}" for one in range(options.nodes)]
            wires = stack.enter_context(Links([*nodes, *map(home_of, range(options.workers))]))
            homes = list(map(wires.home, nodes))
        words: list[str] = []
        if options.etcd:
            words = ["--coordinator", stack.enter_context(LocalEtcd(folder / "etcd")).url]
        cluster = stack.enter_context(
            LocalCluster(
                options.nodes, folder / "nodes", options.heartbeat, homes=homes, options=words
            )
        )
        start_all(cluster)
        plan = planned(options, cluster.url, folder)
        with (
            Crowd(plan, wires) as crowd,
            Storm(crowd, cluster, plan, options.kinds, wires, spared=not options.etcd) as storm,
            watch(folder, crowd, cluster),
        ):
            began = time.monotonic()
            for number in range(options.workers):
                crowd.start(number)
            crowd.wait_started()
            start = time.monotonic() - began
            say(f"all workers are at work after {start:.1f} s")
            ups, broken = weathered(options, storm, crowd, cluster)
            storm.over()
            broken += [*storm.wrong, *crowd.finish(crowd.running, 1, FINISH_SECONDS)]
            lives = [member.life for member in crowd.members]
    (folder / "lives.json").write_bytes(msgspec.json.encode(lives))
    judged = judge(folder, lives, bounded(options))
    if options.figure is not None:
        # Imported here, since a run without a picture needs no matplotlib.
        from benchmarks.baton_chaos_parts.chart import draw  # noqa: PLC0415

        draw(folder, options.figure)
    return Result(
        nodes=options.nodes,
        workers=options.workers,
        seconds=options.seconds,
        heartbeat=options.heartbeat,
        seed=options.seed,
        done=dict(sorted(storm.done.items())),
        start_seconds=round(start, 1),
        up_seconds=[round(one, 1) for one in ups],
        judgement=judged,
        broken=[*broken, *judged.broken],
    )


def weathered(
    options: argparse.Namespace, storm: Storm, crowd: Crowd, cluster: LocalCluster
) -> tuple[list[float], list[str]]:
    """Storms and calms in turn; how long nodes took to be up after each, and what was wrong."""
    ups: list[float] = []
    broken: list[str] = []
    end = time.monotonic() + options.seconds
    while (left := end - time.monotonic()) > 0:
        storm.blow(min(options.storm, left))
        ups.append(wait_up(cluster, broken))
        crowd.wait_started()
        left = end - time.monotonic()
        last = left <= options.calm
        say(f"all are up {ups[-1]:.1f} s after a storm; {max(0.0, left):.0f} s are left")
        storm.calm(options.final if last else options.calm)
        if last:
            break
    return ups, broken


def planned(options: argparse.Namespace, url: str, folder: Path) -> Plan:
    return Plan(
        urls=rotated(url),
        place=str(folder),
        batons=tuple(f"chaos-{one}" for one in range(options.batons)),
        timeout=options.timeout,
        hold=options.hold,
        between=options.between,
        pause=options.pause,
        save=options.save,
        fork_every=options.fork_every if Kind.FORK in options.kinds else 0.0,
        plant=Plant(options.plant),
        seed=options.seed,
    )


def bounded(options: argparse.Namespace) -> Bounds:
    return Bounds(
        settle=options.settle,
        serve=options.serve,
        overtaking=options.overtaking,
        timeout=options.timeout,
        late=LATE_SECONDS,
    )
