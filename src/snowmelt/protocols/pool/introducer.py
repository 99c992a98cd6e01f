"""The node's side of a pool: it introduces the processes to each other, and carries no object.

Theory of operation
-------------------
1. For each pool one member of the newest view introduces, by rendezvous: the one for whom the hash
   of the pool's name and its own id is highest. So all nodes agree without a word, the pools are
   spread, and when a node comes or goes only its own pools move. Any other answers `Elsewhere`.
2. What it knows is soft: who spoke lately, and what each said last. It is forgotten after
   `PATIENCE` without a word, soon after the process' connection has ended, and at once when the
   process says that it is gone. A node that takes a pool over knows nothing, and says so
   (`settled`) until a patience has passed in which everybody has spoken.
3. A node that is cut off goes on with the view that it has. Nothing depends on the truth of an
   introduction. A consumer that hears of a producer that is gone finds nobody there. One that
   misses a producer takes its objects from others or waits a little longer, and an object is given
   and settled between producer and consumer alone. The worst that two introducers of one pool can
   do is to each tell half.
4. When a sweep comes much later than it was asked for, this process stood still. Its own sleep is
   nobody's silence: everybody is given the time that was lost.
5. A word comes again and again, so nothing needs to be remembered of one that was doubled or late:
   the next one sets it right.
6. A process that was sent to a node which does not answer says so, and then the next by rendezvous
   stands in. It knows only those who came this way, so it never says that it is settled, and nobody
   forgets anybody by its word. So newcomers are introduced while a view still names a dead node,
   also while nobody can decide on another.
"""

from enum import Enum
from random import Random
from typing import Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Instant, later, milliseconds, since
from snowmelt.core.names import Address, NodeId
from snowmelt.core.node import (
    Announced,
    CancelTimer,
    Effect,
    Event,
    Expired,
    Reply,
    Requested,
    SetTimer,
)
from snowmelt.core.shares import has_share
from snowmelt.core.users import fits
from snowmelt.protocols.calling import Came, Declined, Elsewhere, Gone, Payers
from snowmelt.protocols.membership import Member, View
from snowmelt.protocols.pool.dealing import point
from snowmelt.protocols.pool.introductions import (
    DescribePool,
    Introduce,
    Introduced,
    ListPools,
    Pools,
    PoolStatus,
    Request,
    Response,
)
from snowmelt.protocols.pool.roster import EVERY, Roster
from snowmelt.protocols.pool.settings import BUFFERS_MAX, pool_name

SWEEP: Final = milliseconds(500)
PROCESSES_MAX: Final = 10_000
POOLS_MAX: Final = 1_000
RATE_MAX: Final = 1e12
COUNT_MAX: Final = 1 << 62
ACCESS_LENGTH: Final = 20

Answered = Response | Declined | Elsewhere


class IntroducerTimer(Enum):
    """The machine's one timer; set while there is something to forget."""

    SWEEP = "introducer.sweep"


class Introducer:
    """One node's part in introducing the processes of all pools.

    >>> from snowmelt.core.names import OperationId
    >>> operation = OperationId(NodeId("c-1"), 1)
    >>> introducer = Introducer(NodeId("n1"), Random(0))
    >>> introducer.handle(Requested(operation, ListPools()), Instant(0))[0].message.error
    'Unavailable'
    >>> alone = View(7, 1, NodeId("n1"), (Member(NodeId("n1"), Address("::1", 1), 1, 1),))
    >>> introducer.handle(Announced(alone), Instant(0))
    []
    >>> introducer.handle(Requested(operation, ListPools()), Instant(0))[0].message
    Pools(pools=())
    """

    def __init__(self, me: NodeId, chance: Random) -> None:
        self._me = me
        self._chance = chance
        self._view: View | None = None
        self._rosters: dict[str, Roster] = {}
        self._due: Instant | None = None
        self._payers = Payers()

    def handle(self, event: Event[Request], now: Instant) -> list[Effect[Answered]]:
        effects: list[Effect[Answered]] = []
        match event:
            case Requested(operation, request):
                effects.append(Reply(operation, self._answer(operation.client, request, now)))
            case Announced(View() as view):
                self._view = view
                self._keep([one for one in self._rosters.values() if self._mine(one.name, view)])
            case Announced(Came() as fact):
                self._payers.hear(fact)
            case Announced(Gone(client) as fact):
                self._payers.hear(fact)
                for roster in self._rosters.values():
                    roster.gone(client, now)
            case Expired():
                self._sweep(now)
            case _:
                pass
        return effects + self._wake(now)

    def check(self) -> None:
        assert (self._due is not None) == bool(self._rosters), "a sweep for nothing, or none"
        assert len(self._rosters) <= POOLS_MAX
        for roster in self._rosters.values():
            assert 0 < len(roster) <= PROCESSES_MAX
            roster.check()

    # --- what is asked ----------------------------------------------------------------------------

    def _answer(self, client: NodeId, request: Request, now: Instant) -> Answered:
        view = self._view
        if view is None or not view.members:
            return Declined("Unavailable", "this node has had no view of the cluster yet")
        if isinstance(request, ListPools):
            only = request.only
            names = sorted(one for one in self._rosters if not only or fits(one, only))
            return Pools(tuple(self._rosters[name].status() for name in names))
        try:
            pool_name(request.pool)
            if isinstance(request, Introduce):
                _check(request)
        except BadOption as error:
            return Declined("BadOption", str(error))
        silent = request.silent if isinstance(request, Introduce) else ()
        member = introducer_of(request.pool, view, silent)
        if member.id != self._me:
            return Elsewhere(member.id, member.address)
        match request:
            case Introduce():
                told = self._introduce(client, request, now)
                if isinstance(told, Introduced) and not self._mine(request.pool, view):
                    # Who can reach the node that this one stands in for is not heard of here.
                    return msgspec.structs.replace(told, settled=False)
                return told
            case DescribePool(pool):
                roster = self._rosters.get(pool)
                return PoolStatus(pool, (), (), ()) if roster is None else roster.status()

    def _introduce(self, client: NodeId, word: Introduce, now: Instant) -> Answered:
        roster = self._rosters.get(word.pool)
        if word.gone:
            if roster is not None:
                roster.leave(client)
                self._keep(list(self._rosters.values()))
            return Introduced(0, settled=False, every=EVERY)
        if roster is None:
            who = self._payers.of(client) or client
            own = sum(one.maker == who for one in self._rosters.values())
            if not has_share(own, 1, POOLS_MAX - len(self._rosters)):
                text = (
                    f"this node has {len(self._rosters)} pools, of {POOLS_MAX}, and {own} of {who}"
                )
                return Declined("Full", f"{text}: use fewer names at a time")
            # Drawn, so that no version of another introducer, or of another time, is taken for ours
            roster = Roster(word.pool, self._chance.getrandbits(48) + 1, now, who)
            self._rosters[word.pool] = roster
        elif client not in roster and len(roster) >= PROCESSES_MAX:
            return Declined("Full", f"{word.pool} has {PROCESSES_MAX} processes, its limit")
        return roster.heard(client, word, now)

    def _mine(self, pool: str, view: View) -> bool:
        return bool(view.members) and introducer_of(pool, view).id == self._me

    # --- what is forgotten ------------------------------------------------------------------------

    def _sweep(self, now: Instant) -> None:
        due, self._due = self._due, None
        rosters = list(self._rosters.values())
        late = since(due, now) if due is not None else 0
        for roster in rosters:
            if late >= SWEEP:
                roster.wait_longer(since(due or now, now))
            roster.forget_silent(now)
        self._keep(rosters)

    def _keep(self, rosters: list[Roster]) -> None:
        """Keeps these, if anybody is in them, and no others."""
        self._rosters = {one.name: one for one in rosters if len(one)}

    def _wake(self, now: Instant) -> list[Effect[Answered]]:
        if self._rosters and self._due is None:
            self._due = later(now, SWEEP)
            return [SetTimer(IntroducerTimer.SWEEP, self._due)]
        if not self._rosters and self._due is not None:
            self._due = None
            return [CancelTimer(IntroducerTimer.SWEEP)]
        return []


def introducer_of(pool: str, view: View, silent: tuple[NodeId, ...] = ()) -> Member:
    """Which member of a view introduces for a pool: the same for all who have this view.

    When nodes are silent another stands in for them; when all are, none can be helped.

    >>> two = tuple(Member(NodeId(one), Address(one, 1), 1, 1) for one in ("n1", "n2"))
    >>> [introducer_of(one, View(7, 1, NodeId("n1"), two)).id for one in ("frames", "snow")]
    ['n2', 'n1']
    """
    members = [one for one in view.members if one.id not in silent] or view.members
    return max(members, key=lambda one: (point(f"{pool}/{one.id}"), one.id))


def _check(word: Introduce) -> None:
    """Raises `BadOption` for what nobody should be told, or this node should not count."""
    if word.name:
        pool_name(word.name)
    bounds = (
        ("rate", word.rate, RATE_MAX),
        ("stock", word.stock, BUFFERS_MAX),
        ("fan_out", word.fan_out, BUFFERS_MAX),
        ("taking", word.taking, RATE_MAX),
    )
    for option, value, highest in bounds:
        if not 0 <= value <= highest:  # nan is neither
            raise BadOption(option, value, f"0 to {highest:g}")
    for option, value in msgspec.structs.asdict(word.report).items():
        if option == "access":
            if len(value) > ACCESS_LENGTH:
                raise BadOption(option, value[:ACCESS_LENGTH], f"{ACCESS_LENGTH} letters at most")
        elif not 0 <= value <= COUNT_MAX:
            raise BadOption(option, value, f"0 to {COUNT_MAX}")
    if len(word.known) > PROCESSES_MAX:
        raise BadOption("known", f"{len(word.known)} producers", f"{PROCESSES_MAX} at most")
    if word.produces:
        address = word.address
        if Address.parse(str(address)) != address or not address.port:
            raise BadOption("address", str(address), "host:port where others reach this process")
