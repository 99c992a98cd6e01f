"""What is drawn for one life before it begins."""

from random import Random
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, seconds
from snowmelt.core.names import NodeId
from snowmelt.sim.faults import Fault, draw
from snowmelt.sim.network import LinkStyle
from snowmelt.sim.planted import Bug

NODES: Final = {"fifo": (1, 5), "pool": (4, 9)}
"""How many nodes a family's lives have, at least and at most; where nothing is said, 3 to 7."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """Everything drawn for one life. Printing it, and the code, is printing the life."""

    protocol: str
    seed: int
    nodes: tuple[NodeId, ...]
    faults_end: Instant
    style: LinkStyle
    faults: tuple[Fault, ...]
    bug: Bug | None = None


def drawn(protocol: str, seed: int, kinds: tuple[str, ...], bug: Bug | None = None) -> Scenario:
    """Draws a life's options from its seed."""
    chance = Random(f"{seed}/{protocol}/scenario")
    fewest, most = NODES.get(protocol, (3, 7))
    count = chance.randrange(fewest, most + 1)
    nodes = tuple(NodeId(f"n{number}") for number in range(1, count + 1))
    end = Instant(chance.randrange(seconds(20), seconds(90)))
    style = LinkStyle(
        delay_min=Duration(chance.randrange(20_000, 5_000_000)),
        delay_mean=Duration(int(10 ** chance.uniform(4.5, 7.5))),
        in_order=chance.random() < 0.7,
    )
    faults = draw(chance, kinds, nodes, end)
    return Scenario(
        protocol=protocol,
        seed=seed,
        nodes=nodes,
        faults_end=end,
        style=style,
        faults=faults,
        bug=bug,
    )
