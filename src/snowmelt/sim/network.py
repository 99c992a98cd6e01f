"""Which messages arrive, when, and how often."""

from random import Random

import msgspec

from snowmelt.core.instant import MICROSECOND, Duration, Instant
from snowmelt.core.names import NodeId
from snowmelt.sim.faults import Delay, Duplication, Loss, Partition, Reordering


class LinkStyle(msgspec.Struct, frozen=True):
    """How the links of one world behave when nothing is broken."""

    delay_min: Duration = Duration(100 * MICROSECOND)
    delay_mean: Duration = Duration(500 * MICROSECOND)  # beyond the least, exponential
    in_order: bool = True


NetworkFault = Loss | Duplication | Reordering | Delay | Partition


class Network:
    """Decides the fate of every message; carries none.

    >>> Network(LinkStyle(), Random(0)).fate(NodeId("a"), NodeId("b"), Instant(0))
    [1030303]
    """

    def __init__(self, style: LinkStyle, chance: Random) -> None:
        self._style = style
        self._chance = chance
        self._faults: list[NetworkFault] = []
        self._last: dict[tuple[NodeId, NodeId], Instant] = {}
        self.dropped = 0

    def begin(self, fault: NetworkFault) -> None:
        """An injury begins."""
        self._faults.append(fault)

    def end(self, fault: NetworkFault) -> None:
        """An injury is over."""
        if fault in self._faults:
            self._faults.remove(fault)

    def heal(self) -> None:
        """All injuries are over."""
        self._faults.clear()

    def fate(self, source: NodeId, target: NodeId, now: Instant) -> list[Instant]:
        """When a message sent now arrives: never, once, or more often."""
        in_order = self._style.in_order
        if not self._faults:  # the common case, and the fast one
            return [self._arrival(source, target, now, 0, in_order=in_order)]
        copies, extra = 1, 0
        for fault in self._faults:
            match fault:
                case Loss(rate=rate) if self._chance.random() < rate:
                    copies = 0
                case Duplication(rate=rate) if self._chance.random() < rate:
                    copies *= 2
                case Delay(extra=most):
                    extra += self._chance.randrange(most)
                case Reordering():
                    in_order = False
                case Partition() if _cut(fault, source, target, now):
                    copies = 0
                case _:
                    pass
        self.dropped += copies == 0
        return [self._arrival(source, target, now, extra, in_order=in_order) for _ in range(copies)]

    def _arrival(
        self, source: NodeId, target: NodeId, now: Instant, extra: int, *, in_order: bool
    ) -> Instant:
        style = self._style
        delay = style.delay_min + int(self._chance.expovariate(1.0 / style.delay_mean)) + extra
        at = Instant(now + delay)
        if in_order:
            link = (source, target)
            at = max(at, self._last.get(link, at))
            self._last[link] = at
        return at


def _cut(fault: Partition, source: NodeId, target: NodeId, now: Instant) -> bool:
    inwards = target in fault.side and source not in fault.side
    outwards = source in fault.side and target not in fault.side
    if not (inwards or (outwards and not fault.one_way)):
        return False
    return not fault.period or (now - fault.at) // fault.period % 2 == 0
