"""A storm over a cluster that etcd decides for: the longest put and get while one at a time dies.

    python benchmarks/etcd_storm.py [--seconds 600] [--away 30] [--rest 12] [--nodes 5]
        [--clients 32] [--priorities 1] [--seed 1] [--plot waits.png] [--json]

Nodes with their default heartbeat, a fifo of three replicas, an etcd of three members. With
`--priorities` it is a priority queue of so many; 0 are any whole numbers. Half of the clients put
batches, the others get and acknowledge. One thing at a time is done, the leader most often: a node
or a member of etcd is killed (SIGKILL) and started again `--away` seconds later, or stands still
(SIGSTOP) for up to that long, or any two processes don't hear each other. `--rest` seconds later
comes the next. In the end all heal, the queue is emptied, and `snowmelt_world.check` judges the
history: it ends with 1 when an item is lost, comes twice, or is out of order. Its own counters
say how much etcd is asked.

A put's time counts all its tries, a get's all of one client until it brings something. Both are
told once more of those that nothing touched that was done. Cuts need
Linux and root, and are left out without. The ten minutes take eleven, and some more to judge.
"""

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.chaos import links
from benchmarks.chaos.crowd import Crowd
from benchmarks.chaos.draining import drain
from benchmarks.chaos.frame import add_options, framed, say
from benchmarks.chaos.judging import Judgement, judge
from benchmarks.chaos.links import Links
from benchmarks.chaos.main import start_all, wait_up
from benchmarks.chaos.plan import Plan
from benchmarks.chaos.recording import now
from benchmarks.failover_parts.asked import counted
from benchmarks.failover_parts.etcd_members import MEMBERS, EtcdMembers
from benchmarks.failover_parts.striking import Striking
from benchmarks.failover_parts.waits import draw, longest, untouched, waits_of

from snowmelt.cli.local import HERE, LocalCluster
from snowmelt.cli.node import HEARTBEAT, MISSES

FINISH_SECONDS = 120.0
PROCESSES = 4


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A storm as a whole."""

    seconds: float
    struck: dict[str, int]
    longest_put: float
    longest_get: float
    longest_put_well: float
    """Of those that met nothing that was done, nor the seconds after it."""
    longest_get_well: float
    asked: float
    """Requests to etcd a second."""
    asked_most: float
    """In the ten seconds in which it was asked most."""
    judgement: Judgement
    broken: list[str]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--away", type=float, default=30.0)
    parser.add_argument("--rest", type=float, default=12.0)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--priorities", type=int, default=1, help="how many; 0 for any whole ones")
    parser.add_argument("--plot", type=Path, default=None)
    add_options(parser)
    return parser.parse_args()


def run(options: argparse.Namespace, folder: Path) -> Result:
    nodes = [f"n{one + 1}" for one in range(options.nodes)]
    clients = [f"c{one}" for one in range(PROCESSES)]
    with ExitStack() as stack:
        wires = None
        if links.possible():
            wires = stack.enter_context(Links([*nodes, *MEMBERS, *clients]))
        else:
            say("no cuts, since they need root and Linux")
        home = wires.home if wires is not None else lambda _: HERE
        etcd = EtcdMembers(folder / "etcd", [home(name) for name in MEMBERS])
        stack.enter_context(etcd)
        cluster = LocalCluster(
            options.nodes,
            folder / "nodes",
            HEARTBEAT,
            homes=[home(name) for name in nodes],
            options=["--misses", str(MISSES), "--coordinator", etcd.url],
        )
        stack.enter_context(cluster)
        start_all(cluster)
        say("all are up")
        plan = planned(options, cluster.url, folder)
        striking = Striking(cluster, etcd, wires, Random(options.seed))
        broken: list[str] = []
        begin = time.monotonic()
        with Crowd(plan, PROCESSES, [home(name) for name in clients]) as crowd:
            with counted(etcd.clients) as asked:
                striking.run(options.seconds, options.away, options.rest)
            load, ended = time.monotonic() - begin, now()
            wait_up(cluster, broken)
            broken += [*crowd.finish(FINISH_SECONDS), *striking.wrong]
        _, wrong = drain(plan, FINISH_SECONDS)
        broken += [wrong] if wrong else []
    waits = waits_of(folder)
    if options.plot is not None:
        draw(waits, striking.blows, options.plot)
    well = untouched(waits, striking.blows)
    judgement = judge(folder, load, ended)
    return Result(
        seconds=round(load, 1),
        struck=striking.struck,
        longest_put=longest(waits, "put"),
        longest_get=longest(waits, "get"),
        longest_put_well=longest(well, "put"),
        longest_get_well=longest(well, "get"),
        asked=asked.mean,
        asked_most=asked.busiest,
        judgement=judgement,
        broken=[*broken, *judgement.broken],
    )


def planned(options: argparse.Namespace, url: str, folder: Path) -> Plan:
    return Plan(
        url=url,
        place=str(folder),
        replicas=3,
        priorities=options.priorities,
        inline_max=1 << 20,
        clients=options.clients,
        items=20,
        size=100,
        bound=20_000,
        lease=5.0,
        timeout=5.0,
        forget=0.0,
        seed=options.seed,
    )


def show(result: Result) -> None:
    judged = result.judgement
    print(f"{result.seconds:g} s, done: {result.struck}")
    print(f"longest put {result.longest_put:.2f} s, longest get {result.longest_get:.2f} s")
    print(f"while well: put {result.longest_put_well:.2f} s, get {result.longest_get_well:.2f} s")
    print(f"requests to etcd: {result.asked:g} a second, {result.asked_most:g} at most")
    print(f"put {judged.put}, got {judged.got}, lost {judged.lost}, twice {judged.doubled}")
    print(f"after an acknowledgement {judged.revived}, never put {judged.unexpected}")
    print(f"no put for {judged.longest_put_stall:g} s, no get for {judged.longest_get_stall:g} s")
    for line in (*judged.verdicts, *(f"broken: {one}" for one in result.broken)):
        print(line)


if __name__ == "__main__":
    raise SystemExit(framed(parsed(), "storm-", run, show))
