"""What befalls etcd, and whoever leads, in lives where etcd decides.

It is drawn by dice of its own, so that the rest of a life is what it is over a disk.
"""

from random import Random
from typing import Final

from snowmelt.core.instant import MILLISECOND, SECOND, Duration, Instant, later, milliseconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.etcd import ETCD
from snowmelt_world import faults

KINDS: Final = (
    *("outage", "still", "slow", "early", "skewed", "cut", "parted", "beside"),
    *("leader-crash", "leader-pause", "leader-held", "leader-parted"),
)
LEADERS: Final = 0.7
"""Of how many lives each thing that befalls the leader is part; the others of four in ten."""


def weather(
    seed: int, nodes: tuple[NodeId, ...], end: Instant
) -> tuple[faults.Fault | faults.OfLeader, ...]:
    """The weather of one life, in the order that it begins; all of it is over at `end`.

    >>> weather(1, (NodeId("n1"),), Instant(SECOND)) == weather(1, (NodeId("n1"),), Instant(SECOND))
    True
    """
    drawn: list[faults.Fault | faults.OfLeader] = []
    for kind in KINDS:
        own = Random(f"{seed}/etcd/{kind}")
        share = LEADERS if kind.startswith("leader") else 0.4
        if own.random() >= share:
            continue
        times = own.randint(1, 4)
        drawn += [_one(own, kind, Instant(own.randrange(end)), end, nodes) for _ in range(times)]
    return tuple(sorted(drawn, key=lambda fault: fault.at))


def _one(
    chance: Random, kind: str, at: Instant, end: Instant, nodes: tuple[NodeId, ...]
) -> faults.Fault | faults.OfLeader:
    length = int(MILLISECOND * 50 * 400 ** chance.random())  # 50 ms to 20 s
    until = min(later(at, Duration(length)), end)
    some = tuple(sorted(chance.sample(nodes, chance.randint(1, len(nodes)))))
    match kind:
        case "outage":
            return faults.Crash(at, until, ETCD, chance.random() < 0.5)
        case "still":
            return faults.Pause(at, until, ETCD)
        case "slow":
            return faults.SlowNode(at, until, ETCD, milliseconds(chance.randrange(5, 1_500)))
        case "early":
            return faults.ClockJump(at, ETCD, Duration(chance.randrange(MILLISECOND, 10 * SECOND)))
        case "skewed":
            return faults.ClockSkew(at, ETCD, chance.randrange(-40_000, 40_000))
        case "cut":
            one_way = chance.random() < 0.5
            links = tuple((n, ETCD) if chance.random() < 0.5 else (ETCD, n) for n in some)
            return faults.CutLinks(at, until, links, one_way)
        case "parted":
            return faults.Partition(at, until, "with etcd", (*some, ETCD), chance.random() < 0.3)
        case "beside":
            return faults.Partition(at, until, "without etcd", some)
        case "leader-held":
            long = Duration(chance.randrange(6, 20) * SECOND)
            begin = Instant(max(0, min(at, end - long)))  # in a shorter one nobody else leads
            return faults.LeaderHeld(begin, later(begin, long))
        case "leader-parted":
            early = chance.choice((0, chance.randrange(6 * SECOND)))
            return faults.LeaderParted(at, until, Duration(early))
        case "leader-crash":
            return faults.LeaderCrash(at, until)
        case _:
            return faults.LeaderPause(at, until)
