"""The root's search for one baton that somebody waits for in vain: rules 11 and 12."""

from enum import Enum

import msgspec

from snowmelt.core.instant import Duration, Instant
from snowmelt.core.names import NodeId
from snowmelt.protocols.arrow import OrderPlace
from snowmelt.protocols.baton.context import NodeContext
from snowmelt.protocols.baton.messages import BatonState, CensusReply, CensusRound, Version


class Complained(msgspec.Struct):
    place: OrderPlace
    orphan: bool
    at: Instant


class Verdict(Enum):
    OPEN = "not all have answered"
    RUNS = "somebody holds it, or it is on its way"
    RESTS = "it is idle, and may go to whoever waits"
    DOUBLED = "there are two"
    LOST = "nobody has it"


class TokenCensus:
    """All that the root keeps of one name: the answers to the last census, and who complained.

    >>> me, there = NodeId("n1"), NodeId("n2")
    >>> inquest = TokenCensus()
    >>> census = CensusRound(epoch=4, number=1)
    >>> inquest.begin(census, [me, there], Instant(0))
    >>> inquest.hear(me, CensusReply("a", census, BatonState.NOTHING, 7, Version()))
    <Verdict.OPEN: 'not all have answered'>
    >>> inquest.hear(there, CensusReply("a", census, BatonState.NOTHING, 9, Version()))
    <Verdict.LOST: 'nobody has it'>
    >>> inquest.next_fence(5), inquest.next_fence(50)
    (10, 51)
    """

    def __init__(self) -> None:
        self.census = CensusRound()
        self.begun: Instant | None = None
        """When the census began that is not over; None when none is."""
        self.lost: Instant | None = None
        """Since when nobody is known to have it."""
        self._asked: tuple[NodeId, ...] = ()
        self._answers: dict[NodeId, CensusReply] = {}
        self._complaints: dict[OrderPlace, Complained] = {}
        self._rested: int = 0

    def complain(self, place: OrderPlace, now: Instant, *, orphan: bool) -> None:
        self._complaints[place] = Complained(place, orphan, now)

    def begin(self, census: CensusRound, members: list[NodeId], now: Instant) -> None:
        self.census = census
        self.begun = now
        self._asked, self._answers = tuple(members), {}

    def hear(self, source: NodeId, told: CensusReply) -> Verdict:
        """An answer; the last one brings the verdict."""
        if told.census != self.census or self.begun is None:
            return Verdict.OPEN
        self._answers[source] = told
        if any(node not in self._answers for node in self._asked):
            return Verdict.OPEN
        self.begun = None
        here = self.having
        if not here:
            return Verdict.LOST
        self.lost = None
        if len(here) > 1:
            return Verdict.DOUBLED
        return Verdict.RESTS if here[0][1].standing is BatonState.IDLE else Verdict.RUNS

    @property
    def having(self) -> list[tuple[NodeId, CensusReply]]:
        """Who has a baton, the one with the largest fence first."""
        found = [one for one in self._answers.items() if one[1].standing is not BatonState.NOTHING]
        return sorted(found, key=lambda one: one[1].fence, reverse=True)

    def newest_value(self) -> tuple[NodeId, Version]:
        versions = ((told.version, node) for node, told in self._answers.items())
        version, node = max(versions)
        return node, version

    @property
    def asleep(self) -> bool:
        """Whether nobody uses the name, nor has for a while."""
        return all(told.asleep for told in self._answers.values())

    @property
    def ever(self) -> bool:
        """Whether anybody knows of a baton of this name at all."""
        return any(told.fence or told.version.fence for told in self._answers.values())

    def next_fence(self, floor: int) -> int:
        """For a new baton: larger than any that was told, and than this."""
        largest = max(max(told.fence, told.version.fence) for told in self._answers.values())
        return max(floor, largest) + 1

    def complaining(self, now: Instant, fresh: Duration, here: NodeContext) -> list[NodeId]:
        self._forget(now, fresh, here)
        return list(dict.fromkeys(place.node for place in self._complaints))

    def choose(
        self, now: Instant, fresh: Duration, fence: int, here: NodeContext
    ) -> OrderPlace | None:
        """Whom to give an idle or a new baton to; None when it may yet come by itself.

        An orphan at once; one with another before it only when the baton rested, with the same
        fence, through two of its complaints: then something in between was forgotten.
        """
        self._forget(now, fresh, here)
        orphans = [one for one in self._complaints.values() if one.orphan]
        others = [one for one in self._complaints.values() if not one.orphan]
        rested, self._rested = self._rested == fence, fence
        chosen = orphans or (others if rested else [])
        if not chosen:
            return None
        place = chosen[0].place
        del self._complaints[place]
        return place

    def _forget(self, now: Instant, fresh: Duration, here: NodeContext) -> None:
        self._complaints = {
            place: one
            for place, one in self._complaints.items()
            if now - one.at <= fresh and here.has(place.node)
        }
