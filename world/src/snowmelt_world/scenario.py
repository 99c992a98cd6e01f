"""What is drawn for one life before it begins."""

from random import Random
from typing import Final

import msgspec
from msgspec.structs import replace

from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.names import NodeId
from snowmelt_world.draws import draw
from snowmelt_world.faults import HARDER, KINDS, CutLinks, Fault, OfLeader
from snowmelt_world.network import LinkStyle
from snowmelt_world.planted import Bug
from snowmelt_world.themes import ANY, theme_of
from snowmelt_world.weather import weather

NODES: Final = {
    "parted": (1, 6),
    "pool": (4, 9),
    "queue": (1, 7),
}
"""How many nodes a family's lives have, at least and at most; where nothing is said, 3 to 7."""

_DISKS: Final = ("failing-disk", "filling-disk", "slow-disk")
_TOKENS: Final = (
    *("cut-links", "split", "one-door", "client-pause", "long-pause", "older-disk", "lost-disk"),
    *(*_DISKS, "quick-restarts", "rolling-restart", "restart-in-cut", "suspend"),
)
JUDGED_HARDER: Final = {
    "parted": (
        "cut-links",
        "split",
        "long-pause",
        "lost-disk",
        *_DISKS,
        "quick-restarts",
        "rolling-restart",
    ),
    "queue": tuple(kind for kind in HARDER if kind not in ("restart-in-cut", "suspend")),
    "baton": _TOKENS,
    "multicast": _TOKENS,
    "pool": (
        "rumour",
        "cut-links",
        "split",
        "long-pause",
        *_DISKS,
        "quick-restarts",
        "rolling-restart",
    ),
}
"""Which of the harder kinds of faults a family's lives meet; `simulation.md` says why."""

SPARED: Final = {"parted": ("torn-record", "flipped-bit")}
"""Which of the others they do not meet: what may take items."""

DISK: Final = "disk"
ETCD_DECIDES: Final = "etcd"
COORDINATORS: Final = (DISK, ETCD_DECIDES)
OVER_ETCD: Final = ("membership", "parted", "pool", "queue", "baton", "multicast")
"""The families that live where etcd decides."""

CALM: Final = 0.3
LONG: Final = 0.1
"""What share of the lives of those is calm, and lasts for minutes."""

CLIENTS: Final = {
    "queue": (
        *(f"{kind}{number}" for kind in "pk" for number in range(1, 5)),
        *(f"{kind}{number}" for kind in "ght" for number in range(1, 4)),
        "steward",
    ),
}
"""The names that clients of a family's lives may have; a life need not have them all."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """Everything drawn for one life. Printing it, and the code, is printing the life."""

    protocol: str
    seed: int
    nodes: tuple[NodeId, ...]
    faults_end: Instant
    style: LinkStyle
    faults: tuple[Fault, ...]
    bug: Bug | None = None
    theme: str = ANY
    coordinator: str = DISK
    weather: tuple[Fault | OfLeader, ...] = ()
    """What befalls etcd and whoever leads, where etcd decides."""


def drawn(
    protocol: str,
    seed: int,
    kinds: tuple[str, ...],
    bug: Bug | None = None,
    theme: str | None = None,
    coordinator: str = DISK,
) -> Scenario:
    """Draws a life's options from its seed; its theme too, unless one is given."""
    chance = Random(f"{seed}/{protocol}/scenario")
    fewest, most = NODES.get(protocol, (3, 7))
    name, about, only = theme_of(protocol, seed, theme)
    count = chance.randrange(fewest, most + 1)
    count = min(max(count, about.least_nodes), about.most_nodes)
    nodes = tuple(NodeId(f"n{number}") for number in range(1, count + 1))
    end = Instant(chance.randrange(seconds(20), seconds(90)))
    harder = protocol == "queue"
    if harder:
        end = _longer(Random(f"{seed}/{protocol}/length"), end)
    style = LinkStyle(
        delay_min=Duration(chance.randrange(20_000, 5_000_000)),
        delay_mean=Duration(int(10 ** chance.uniform(4.5, 7.5))),
        in_order=chance.random() < 0.7,
    )
    allowed = [kind for kind in kinds if kind in kinds_of(protocol)]
    clients = tuple(NodeId(name) for name in CLIENTS.get(protocol, ()))
    faults = draw(chance, allowed, nodes, end, clients, CALM if harder else 0.0, only)
    etcd = coordinator == ETCD_DECIDES
    if protocol not in ("queue", "parted") or etcd:
        faults = tuple(_passing(fault) for fault in faults)
    return Scenario(
        protocol=protocol,
        seed=seed,
        nodes=nodes,
        faults_end=end,
        style=style,
        faults=faults,
        bug=bug,
        theme=name,
        coordinator=coordinator,
        weather=weather(seed, nodes, end) if etcd and kinds else (),
    )


def kinds_of(protocol: str) -> tuple[str, ...]:
    """The kinds of faults that the lives of a family meet.

    >>> "failing-disk" in kinds_of("queue"), "failing-disk" in kinds_of("echo")
    (True, False)
    """
    harder = JUDGED_HARDER.get(protocol, ())
    if protocol in OVER_ETCD:  # those whose nodes are members
        harder = (*harder, "rumour")
    spared = SPARED.get(protocol, ())
    some = [kind for kind in KINDS if kind not in HARDER or kind in harder]
    return tuple([kind for kind in some if kind not in spared])


def _longer(chance: Random, end: Instant) -> Instant:
    if chance.random() >= LONG:
        return end
    return later(end, Duration(chance.randrange(seconds(60), seconds(150))))


def _passing(fault: Fault) -> Fault:
    """No family but those of queues promises to come to rest with links that stay cut."""
    return replace(fault, stays=False) if isinstance(fault, CutLinks) else fault
