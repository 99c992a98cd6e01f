"""What is drawn for one life before it begins."""

from random import Random
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.names import NodeId
from snowmelt.sim.draws import draw
from snowmelt.sim.faults import HARDER, KINDS, Fault
from snowmelt.sim.network import LinkStyle
from snowmelt.sim.planted import Bug
from snowmelt.sim.themes import ANY, theme_of

NODES: Final = {"fifo": (1, 7), "pool": (4, 9)}
"""How many nodes a family's lives have, at least and at most; where nothing is said, 3 to 7."""

JUDGED_HARDER: Final = ("fifo",)
"""The families whose lives meet every kind of fault; docs/simulation.md says why no others."""

CALM: Final = 0.3
LONG: Final = 0.1
"""What share of the lives of those is calm, and lasts for minutes."""

CLIENTS: Final = {
    "fifo": (
        *(f"{kind}{number}" for kind in "pk" for number in range(1, 5)),
        *(f"{kind}{number}" for kind in "ght" for number in range(1, 4)),
        "steward",
    )
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


def drawn(protocol: str, seed: int, kinds: tuple[str, ...], bug: Bug | None = None) -> Scenario:
    """Draws a life's options from its seed."""
    chance = Random(f"{seed}/{protocol}/scenario")
    fewest, most = NODES.get(protocol, (3, 7))
    theme, only, least = theme_of(protocol, seed)
    count = max(least, chance.randrange(fewest, most + 1))
    nodes = tuple(NodeId(f"n{number}") for number in range(1, count + 1))
    end = Instant(chance.randrange(seconds(20), seconds(90)))
    harder = protocol in JUDGED_HARDER
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
    return Scenario(
        protocol=protocol,
        seed=seed,
        nodes=nodes,
        faults_end=end,
        style=style,
        faults=faults,
        bug=bug,
        theme=theme,
    )


def kinds_of(protocol: str) -> tuple[str, ...]:
    """The kinds of faults that the lives of a family meet.

    >>> "failing-disk" in kinds_of("fifo"), "failing-disk" in kinds_of("echo")
    (True, False)
    """
    harder = HARDER if protocol in JUDGED_HARDER else ()
    return tuple(kind for kind in KINDS if kind not in HARDER or kind in harder)


def _longer(chance: Random, end: Instant) -> Instant:
    if chance.random() >= LONG:
        return end
    return later(end, Duration(chance.randrange(seconds(60), seconds(150))))
