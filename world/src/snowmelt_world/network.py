"""Which messages arrive, when, and how often."""

from random import Random

import msgspec

from snowmelt.core.instant import MICROSECOND, Duration, Instant
from snowmelt.core.names import NodeId
from snowmelt_world.faults import (
    CutLinks,
    Delay,
    Duplication,
    HeldBack,
    Loss,
    OneDoor,
    Partition,
    QuickRestarts,
    Reordering,
    RestartInCut,
    Split,
)


class LinkStyle(msgspec.Struct, frozen=True):
    """How the links of one world behave when nothing is broken."""

    delay_min: Duration = Duration(100 * MICROSECOND)
    delay_mean: Duration = Duration(500 * MICROSECOND)  # beyond the least, exponential
    in_order: bool = True


Cut = Partition | CutLinks | Split | OneDoor | QuickRestarts | RestartInCut
NetworkFault = Loss | Duplication | Reordering | Delay | HeldBack | Cut


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
        self._faults.append(fault)

    def end(self, fault: NetworkFault) -> None:
        if fault in self._faults:
            self._faults.remove(fault)

    def heal(self) -> None:
        """All injuries are over but the links that stay cut."""
        self._faults = [one for one in self._faults if isinstance(one, CutLinks) and one.stays]

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
                case HeldBack() if (source, target) == (fault.source, fault.target):
                    extra = max(extra, fault.until - now)
                case Partition() if _parted(fault, source, target, now):
                    copies = 0
                case CutLinks() | Split() | OneDoor() | QuickRestarts() | RestartInCut() if _cut(
                    fault, source, target
                ):
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


def _parted(fault: Partition, source: NodeId, target: NodeId, now: Instant) -> bool:
    if not _between(fault.side, source, target, one_way=fault.one_way):
        return False
    return not fault.period or (now - fault.at) // fault.period % 2 == 0


def _cut(
    fault: CutLinks | Split | OneDoor | QuickRestarts | RestartInCut,
    source: NodeId,
    target: NodeId,
) -> bool:
    match fault:
        case RestartInCut(deaf=deaf, unheard=unheard):
            return target == deaf and source in unheard
        case CutLinks(links=links, one_way=one_way):
            return (source, target) in links or ((target, source) in links and not one_way)
        case Split(side=side, one_way=one_way):
            return _between(side, source, target, one_way=one_way)
        case OneDoor(client=client, node=node):
            return (source == client and target != node) or (target == client and source != node)
        case QuickRestarts(cut=cut):
            return _between(cut, source, target, one_way=False)


def _between(side: tuple[NodeId, ...], source: NodeId, target: NodeId, *, one_way: bool) -> bool:
    inwards = target in side and source not in side
    outwards = source in side and target not in side
    return inwards or (outwards and not one_way)
