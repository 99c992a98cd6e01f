"""The batons of one node by name: those in use, and a line for each that nobody uses (rule 15)."""

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from itertools import chain
from typing import Any, Final

from msgspec.structs import replace

from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Reply, Send
from snowmelt.core.shares import SharesHeld
from snowmelt.core.users import Patterns, fits
from snowmelt.protocols.arrow import OrderPlace
from snowmelt.protocols.baton.arrows import Arrows
from snowmelt.protocols.baton.baton import LocalBaton, concerns
from snowmelt.protocols.baton.calls import KEEPS_AT_ONCE, BatonStatus, RenewedMany, RenewMany
from snowmelt.protocols.baton.context import NodeContext
from snowmelt.protocols.baton.ended_holds import UNKNOWN
from snowmelt.protocols.baton.messages import (
    BatonState,
    CensusReply,
    CensusRound,
    Fold,
    Quiet,
    Version,
)
from snowmelt.protocols.baton.relay import Effects, Relay
from snowmelt.protocols.baton.retired_names import NameRecord, RetiredNames
from snowmelt.protocols.baton.token import Token
from snowmelt.protocols.calling import Declined, Elsewhere

DROWSY_AT_ONCE: Final = 50
"""So many names are looked at on one beat, or the root would hear of all of them at a time."""
STALE_MAX: Final = 64
"""So many names more than twice those that concern it are kept of one client."""


class Names:
    def __init__(self, here: NodeContext, ways: Arrows) -> None:
        self.folds: Final = RetiredNames()
        self._here = here
        self._ways = ways
        self._used: dict[str, LocalBaton] = {}
        self.shares = SharesHeld[str]()
        self._brought: dict[str, str] = {}
        """Who brought each of them into use here, by asking for it: of those that clients did."""
        self.stirred: set[str] = set()
        """Those that were busy after what happened to them last."""
        self._drowsy: deque[str] = deque()
        """Names that are looked at next."""
        self._looked = Instant(0)

    def __len__(self) -> int:
        """How many are in use."""
        return len(self._used)

    def __iter__(self) -> Iterator[LocalBaton]:
        return iter(list(self._used.values()))

    def stir(self, baton: LocalBaton) -> None:
        """Something happened to it: if it is busy now, the next beat looks at it."""
        if baton.busy:
            self.stirred.add(baton.name)

    def take_stirred(self) -> list[LocalBaton]:
        """Those that the beat is to look at, in the order in which they came into use."""
        stirred, self.stirred = self.stirred, set()
        return [baton for name, baton in self._used.items() if name in stirred]

    def get(self, name: str) -> LocalBaton | None:
        return self._used.get(name)

    def use(self, name: str, now: Instant) -> LocalBaton:
        """A baton that is in use from now on. Its token rests where the arrows point by rule 2."""
        baton = self._used.get(name)
        if baton is None:
            line = self.folds.take(name) or NameRecord()
            baton = self._used[name] = LocalBaton(name, self._here, self._ways, line)
            if line.made:
                baton.relay.token = _token(line, self._ways.end(name, now))
        return baton

    def bring(self, name: str, who: str, now: Instant) -> LocalBaton:
        """One that a client asks for, and that was not in use."""
        self.shares.add(who)
        self._brought[name] = who
        return self.use(name, now)

    def maker(self, name: str) -> str:
        """Who brought it into use here; nobody where no client did."""
        return self._brought.get(name, "")

    def glimpse(self, name: str) -> LocalBaton:
        """What is known of a name that is not in use, and stays so."""
        line, me = self.folds.get(name), self._here.me
        baton = LocalBaton(name, self._here, self._ways, line)
        if line.made:
            place = OrderPlace(me, OperationId(me, line.fence), filler=True)
            baton.relay.token = _token(line, place)
        return baton

    def rests(self, name: str) -> bool:
        """Whether nobody here uses it, and its token is idle, at the place where all arrows end."""
        baton = self._used.get(name)
        token = None if baton is None else baton.relay.token
        if baton is None or token is None or _in_use(baton):
            return False
        return self._ways.leads_to(name, token.place)

    def tell(self, source: NodeId, name: str, census: CensusRound, now: Instant) -> Effects:
        """Rule 11: what is here. To be asked is no use, but leaves a line: so the rule holds."""
        baton, line = self._used.get(name), self.folds.get(name)
        if baton is not None or line.made:
            baton = self.use(name, now)
            return baton.relay.tell(source, census, asleep=self._asleep(name, now))
        self.folds.put(name, replace(line, census=max(line.census, census)))
        nothing, asleep = BatonState.NOTHING, self._ways.asleep(name, now)
        return [Send(source, CensusReply(name, census, nothing, line.fence, line.version, asleep))]

    def page(self, after: str, most: int, only: Patterns) -> tuple[str, ...]:
        known = (name for name in chain(self._used, self.folds) if name > after)
        if only:
            known = (name for name in known if fits(name, only))
        return tuple(nsmallest(most, known))

    def looks(self, after: str, most: int, only: Patterns) -> tuple[BatonStatus, ...]:
        """How those are that are here, or that clients wait for here."""
        there = [
            name
            for name, one in self._used.items()
            if name > after
            and (one.relay.token is not None or len(one.wants))
            and (not only or fits(name, only))
        ]
        return tuple([self._used[name].status() for name in nsmallest(most, there)])

    def drowsy(self, now: Instant) -> list[Quiet]:
        """Some that nobody uses here; each comes as often as one that is used falls asleep."""
        if not self._drowsy and now - self._looked >= self._here.settings.awake:
            self._looked = now
            self._drowsy.extend(dict.fromkeys((*self._ways.names(), *self._used)))
        some = [self._drowsy.popleft() for _ in range(min(DROWSY_AT_ONCE, len(self._drowsy)))]
        return [Quiet(name, self._fence(name)) for name in some if self._asleep(name, now)]

    def fold(self, word: Fold, now: Instant) -> bool:
        """Whether a name is a line from now on: nobody uses it here, and the root has its token.

        An arrow that points elsewhere than to the root is somebody's who uses it, or wrong: then
        its edges are watched again.
        """
        name, baton = word.name, self._used.get(word.name)
        if not self._ways.forgettable(name):
            self._ways.wake(name, now)
            return False
        if baton is not None:
            if _in_use(baton) or baton.relay.fence > word.fence:
                return False
            del self._used[name]
            if name in self._brought:
                self.shares.remove(self._brought.pop(name))
            self.folds.put(name, self._line(baton.relay))
        self._ways.fold(name)
        return True

    def _fence(self, name: str) -> int:
        baton = self._used.get(name)
        return self.folds.get(name).fence if baton is None else baton.relay.fence

    def _asleep(self, name: str, now: Instant) -> bool:
        baton = self._used.get(name)
        return self._ways.asleep(name, now) and (baton is None or not _in_use(baton))

    def _line(self, relay: Relay) -> NameRecord:
        """All that is to be kept. Elsewhere than at the root a token would be void."""
        token = relay.token
        if token is None or self._here.me != self._here.root:
            return NameRecord(relay.fence, relay.census)
        version = token.version if token.value else Version()
        return NameRecord(token.fence, relay.census, token.made, version, token.value)


def _in_use(baton: LocalBaton) -> bool:
    """Whether anybody waits for it here, or holds it."""
    token = baton.relay.token
    return baton.busy or (token is not None and token.standing is BatonState.HELD)


def _token(line: NameRecord, place: OrderPlace) -> Token:
    return Token(line.fence, line.made, place, line.value, line.version)


class Involved:
    """The names that each client has asked for since it came; those it is done with fall out."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._of: dict[NodeId, dict[str, None]] = {}
        self._most: dict[NodeId, int] = {}
        """Above so many it is looked which of them still concern the client."""

    def add(self, client: NodeId, names: Iterable[str]) -> None:
        """It asks for these, or keeps them. O(names), on average."""
        own = self._of.setdefault(client, {})
        own.update(dict.fromkeys(names))
        if len(own) > self._most.get(client, STALE_MAX):
            self._of[client] = own = {one.name: None for one in self._concerned(client)}
            self._most[client] = 2 * len(own) + STALE_MAX

    def take(self, client: NodeId) -> list[LocalBaton]:
        """All its connections have ended: what that concerns. O(its names)."""
        concerned = self._concerned(client)
        self._of.pop(client, None)
        self._most.pop(client, None)
        return concerned

    def _concerned(self, client: NodeId) -> list[LocalBaton]:
        batons = map(self._names.get, self._of.get(client, ()))
        return [one for one in batons if one is not None and concerns(one, client)]


def keep_many(
    operation: OperationId, call: RenewMany, here: NodeContext, names: Names, now: Instant
) -> tuple[Reply[Any], list[str]]:
    """Renews those that are held here still, each as if it were alone; the answer, and which."""
    where, holdings = call.where, call.holdings
    if len(holdings) > KEEPS_AT_ONCE:
        text = f"{len(holdings)} holds are too many for one call; at most {KEEPS_AT_ONCE}"
        return Reply(operation, Declined("TooLarge", text)), []
    if where.node != here.me:
        if here.life_of(where.node) == where.life:
            return Reply(operation, Elsewhere(where.node, where.address)), []
        text = f"node {where.node}, where these were held, is gone"
        return Reply(operation, Declined("BatonLost", text)), []
    lost: list[tuple[int, str]] = []
    kept: list[str] = []
    for at, holding in enumerate(holdings):
        baton = names.get(holding.name)
        if baton is None:
            lost.append((at, UNKNOWN.format(here.me)))
        elif not baton.keep(operation, holding, now):
            lost.append((at, baton.endings.why(holding.ticket)))
        else:
            kept.append(holding.name)
    return Reply(operation, RenewedMany(here.settings.lease, tuple(lost))), kept
