"""Batons and topics of a folder: the machines that a node has for them, in a cluster of one."""

from random import Random
from typing import Any, Final

from snowmelt.core.instant import Duration, Instant, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Effect, Event, Reply, Requested
from snowmelt.core.record import Record
from snowmelt.protocols import baton, multicast
from snowmelt.protocols.baton.settings import BatonSettings
from snowmelt.protocols.host import Family
from snowmelt.protocols.membership import GetStatus, Status, View
from snowmelt.protocols.multicast.settings import MulticastSettings

ME: Final = NodeId("embedded")
FOR_BATONS: Final = frozenset((GetStatus, *baton.MESSAGES, *multicast.MESSAGES))
"""What is asked of them; and where they are, which they alone ask."""
SAVED: Final[Duration] = seconds(1)
"""By then a value that was given up is on the disk: two beats."""


class SingleNodeView:
    """Tells how this node sees its cluster: it is all of it."""

    def __init__(self, view: View) -> None:
        self._status = Status(ME, "current", view, {})

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        del now
        return [Reply(event.operation, self._status)] if isinstance(event, Requested) else []

    def check(self) -> None:
        """There is nothing to be wrong."""


def machines_of_batons(view: View) -> list[Family]:
    """What holds batons and topics in a view of one node."""
    return [
        Family("membership", SingleNodeView(view), (GetStatus,)),
        *baton.families(ME, BatonSettings(), Random(), alone=True),
        multicast.family(ME, MulticastSettings(), Random()),
    ]


def of_batons(
    records: tuple[Record, ...], damaged: tuple[bytes, ...]
) -> tuple[tuple[Record, ...], tuple[bytes, ...]]:
    """What of a disk is theirs, for when they begin."""
    return (
        tuple(one for one in records if one.key.startswith(b"baton/")),
        tuple(key for key in damaged if key.startswith(b"baton/")),
    )
