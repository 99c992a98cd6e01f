"""What the lives of a pool are about, by theme (`sim.themes`)."""

from collections.abc import Sequence
from random import Random
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.settings import Access, AccessKind, Delivery, PoolSettings

LEASE_MAX: Final = seconds(5)
LEAVING: Final = seconds(20)
LARGE: Final = 60
"""An answer with so many bytes comes in pieces."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    links: bool = False
    """Whether processes have to dial each other, and know only the producers' addresses."""
    dial: Duration = milliseconds(50)
    """The longest that a dial takes."""
    failing: float = 0.0
    """How many dials fail."""
    apart: float = 0.0
    """How many pairs of processes can't reach each other for a while."""
    deliveries: tuple[Delivery, ...] = ()
    """Of these each process has one; drawn for the life when empty."""
    slow: Duration = seconds(2)
    """The longest that a large answer takes."""
    padding: tuple[int, ...] = (0, 0, 3, 80)
    lingers: bool = False
    """Whether a process that has left goes on for a while, as one does that still has to send."""
    restless: float | None = None
    leavers: float | None = None
    """As in `PoolLife`; None for what is drawn there."""
    together: bool = False
    """Whether those who end do so at about the same times, as when a program is stopped."""
    leaving: tuple[Duration, ...] = (LEAVING,)
    """The longest that one may take to leave, one of these."""
    for_ever: float = 0.0
    """How many processes have requests that wait in line for ever."""
    lease: Duration = LEASE_MAX
    """The longest lease, but one."""
    losses: float = 0.15
    """How many large answers end in the middle, with their link."""
    stops: bool = False
    """Whether many processes stand still at once, and nothing else goes wrong."""


def load_of(chance: Random, theme: str) -> Load:
    """Draws how a life with this theme is."""
    match theme:
        case "links":
            return Load(
                links=True,
                lingers=chance.random() < 0.5,
                dial=milliseconds(chance.choice((5, 50, 500, 3_000))),
                failing=chance.choice((0.0, 0.0, 0.1, 0.4)),
                apart=chance.choice((0.0, 0.2, 0.5)),
                for_ever=0.1,
            )
        case "once":
            return Load(
                links=chance.random() < 0.7,
                dial=milliseconds(chance.choice((5, 50, 500))),
                deliveries=(Delivery.AT_MOST_ONCE,),
                restless=chance.choice((0.0, 0.0, 0.4)),
            )
        case "large":
            return Load(
                links=chance.random() < 0.4,
                slow=seconds(chance.choice((3, 6, 12))),
                padding=(80, 80, 200),
                losses=chance.choice((0.0, 0.1)),
            )
        case "leaving":
            return Load(
                lingers=True,
                links=chance.random() < 0.3,
                restless=0.9,
                leavers=1.0,
                slow=seconds(chance.choice((2, 4, 6))),
                padding=chance.choice(((0, 3), (0, 80), (80, 80))),
                losses=chance.choice((0.0, 0.1)),
                together=chance.random() < 0.6,
                leaving=(milliseconds(300), seconds(2), LEAVING, LEAVING),
            )
        case "standing still":
            return Load(stops=True, padding=(0, 3))
        case _:
            return Load()


def settings_of(
    chance: Random,
    peer: NodeId,
    peers: Sequence[NodeId],
    deliveries: Sequence[Delivery],
    *,
    for_ever: bool,
) -> PoolSettings:
    """Draws what one process chooses; one that spills has no choice of deliveries."""
    kind = chance.choice(tuple(AccessKind))
    if kind is AccessKind.WEIGHTED and peer == peers[0]:
        kind = AccessKind.UNIFORM  # one at least may find whatever there is
    weights = {str(one): chance.choice((0.5, 1.0, 3.0)) for one in peers}
    if len(weights) > 2 and chance.random() < 0.5:
        weights.pop(chance.choice(peers))
    access = Access(kind, weights if kind is AccessKind.WEIGHTED else {}, chance.random() < 0.2)
    uniform = kind is not AccessKind.WEIGHTED and peer != peers[0]
    buffers, bytes_max = chance.randint(1, 8), chance.choice((1 << 30, 1 << 30, 200))
    max_hops = chance.randint(1, 4)
    wait = Duration(chance.randrange(milliseconds(300), seconds(2)))
    return PoolSettings(
        buffers=buffers,
        bytes_max=bytes_max,
        max_hops=max_hops,
        wait=Duration(0) if for_ever else wait,
        lease=Duration(chance.randrange(seconds(1), LEASE_MAX)),
        grace=Duration(chance.randrange(milliseconds(100), seconds(2))),
        delivery=chance.choice(deliveries) if deliveries else Delivery.AT_LEAST_ONCE,
        access=access,
        fan_out=chance.choice((0, 0, 1, 2)) if uniform else 0,
        spill=not deliveries,
    ).checked()
