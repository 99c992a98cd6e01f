"""The root's search for batons that somebody waits for in vain: rules 11, 12 and 21."""

from enum import Enum
from itertools import islice
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant
from snowmelt.core.names import NodeId
from snowmelt.core.node import Send
from snowmelt.protocols.arrow import OrderPlace
from snowmelt.protocols.baton.context import NodeContext
from snowmelt.protocols.baton.messages import (
    BatonState,
    CensusQuery,
    CensusReply,
    CensusRound,
    Version,
)

AT_ONCE: Final = 200
"""So many are under way; the answers to all of them come within some milliseconds."""
LOOKED_AT: Final = 20
"""So many names are looked at on one beat: whether all is over there."""
FRESH_BEATS: Final = 12
"""A complaint is forgotten after so many beats; it comes again as long as it has a cause."""
ASK_AGAIN_BEATS: Final = 2
DOUBLINGS_MAX: Final = 2
"""So often that wait doubles while others stand in line: who is busy would never be in time."""


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
        self.again: int = 0
        """So often all were asked anew since the last verdict."""

    def complain(self, place: OrderPlace, now: Instant, *, orphan: bool) -> None:
        self._complaints[place] = Complained(place, orphan, now)

    def begin(self, census: CensusRound, members: list[NodeId], now: Instant) -> None:
        again = self.begun is not None and self.census.epoch == census.epoch
        self.again = min(self.again + 1, DOUBLINGS_MAX) if again else 0
        self.census = census
        self.begun = now
        self._asked, self._answers = tuple(members), {}

    def waits(self, epoch: int, now: Instant, patience: Duration) -> bool:
        """Whether answers to its census may yet come."""
        if self.begun is None or self.census.epoch != epoch:
            return False
        return now - self.begun < patience

    def judged(self) -> None:
        """What was answered has been made use of."""
        if self.begun is None:
            self._answers = {}

    def over(self, now: Instant, fresh: Duration, here: NodeContext) -> bool:
        """Whether nobody has complained for long, and nothing is known that counts later."""
        self._forget(now, fresh, here)
        waits = self.waits(here.epoch, now, fresh)
        return not (self._complaints or waits or self.lost is not None)

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


class TokenCensuses:
    """Those of all names (rule 21)."""

    def __init__(self, here: NodeContext) -> None:
        self._here = here
        self._of: dict[str, TokenCensus] = {}
        self._asked = 0
        """How many censuses there were, of all names: none has a number that another had."""
        self._under_way: dict[str, None] = {}
        self._line: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._of)

    def get(self, name: str) -> TokenCensus | None:
        return self._of.get(name)

    def of(self, name: str) -> TokenCensus:
        """All that is kept of a name, from now on."""
        return self._of.setdefault(name, TokenCensus())

    def forget(self, name: str) -> None:
        """No more is to be known of it."""
        self._of.pop(name, None)
        self._under_way.pop(name, None)
        self._line.pop(name, None)

    def clear(self) -> None:
        for name in list(self._of):
            self.forget(name)

    def ask(self, name: str, now: Instant) -> list[Send[CensusQuery]]:
        """Asks all members, unless they are being asked, or others are before it."""
        view, inquest = self._here.led, self.of(name)
        doublings = inquest.again if self._line else 0
        patience = Duration((ASK_AGAIN_BEATS * self._here.settings.beat) << doublings)
        if view is None or inquest.waits(view.epoch, now, patience):
            return []
        if name not in self._under_way and len(self._under_way) >= AT_ONCE:
            self._line[name] = None
            return []
        self._line.pop(name, None)
        self._under_way.pop(name, None)
        self._under_way[name] = None  # they stand in the order in which they began
        self._asked += 1
        census = CensusRound(view.epoch, self._asked)
        members = [one.id for one in view.members]
        inquest.begin(census, members, now)
        return [Send(node, CensusQuery(name, census)) for node in members]

    def ended(self, name: str, now: Instant) -> list[Send[CensusQuery]]:
        """There is a verdict, and what it led to is done: others have their turn."""
        inquest = self._of.get(name)
        if inquest is not None:
            inquest.judged()
        self._under_way.pop(name, None)
        return self._next(now)

    def beat(self, now: Instant) -> list[Send[CensusQuery]]:
        """Those that not all have answered for long hold up no others; what is over is dropped."""
        for name in [one for one in self._under_way if not self._hears(one, now)]:
            del self._under_way[name]
        beyond = max(0, len(self._of) - AT_ONCE)
        for name in list(islice(self._of, min(LOOKED_AT, beyond))):
            inquest = self._of.pop(name)
            if name in self._line or not inquest.over(now, self.fresh, self._here):
                self._of[name] = inquest
        return self._next(now)

    def _next(self, now: Instant) -> list[Send[CensusQuery]]:
        effects: list[Send[CensusQuery]] = []
        while self._line and len(self._under_way) < AT_ONCE:
            name = next(iter(self._line))
            del self._line[name]
            effects += self.ask(name, now)
        return effects

    def _hears(self, name: str, now: Instant) -> bool:
        return self._of[name].waits(self._here.epoch, now, self.fresh)

    @property
    def fresh(self) -> Duration:
        """How long a complaint counts."""
        return Duration(FRESH_BEATS * self._here.settings.beat)
