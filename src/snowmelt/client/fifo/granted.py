"""Which node a user of a queue asks, as steps: opening names its leader, which is taken for true.

The cluster grants where to put and where to get (`Opened`). The grant is taken for true until
something speaks against it: an error, or an answer that took so long that somebody must have been
asked again. Then the next call asks for it anew.

An old master that lives speaks against nothing: it says who took its place, at each call. So after
so many calls of a master it is asked whether there is another by now. A look that is not answered
soon changes nothing: the grant that is there does, also while nobody leads.
"""

from collections.abc import Callable
from operator import attrgetter
from random import Random
from typing import Any, ClassVar, Final, Self, cast

import msgspec

from snowmelt.client.coalescing.joint_puts import PutRequest
from snowmelt.client.connection.steps import Query, Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.leases.fetching import CHANCE
from snowmelt.client.leases.steps import (
    CallRetries,
    LeaseSteps,
    ask_anybody,
)
from snowmelt.client.parted.looks import about, of_one_partition
from snowmelt.client.parted.parts import PartitionedQueue
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.client.queue.ranks import Ranks
from snowmelt.core.errors import (
    DiskFull,
    LeaseLost,
    NoSuchQueue,
    OutcomeUnknown,
    QueueDeleted,
    QueueExists,
    QueueMoved,
    SnowmeltError,
    Unavailable,
    Unreachable,
)
from snowmelt.core.instant import Duration, Instant
from snowmelt.core.names import NodeId, contact
from snowmelt.protocols.calling import FIRST_WAIT
from snowmelt.protocols.queue.api.calls import (
    Get,
    Open,
    Opened,
    Put,
    Settle,
)
from snowmelt.protocols.queue.api.labels import keys_in
from snowmelt.protocols.queue.api.partition_names import known_name, part_of
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.runtime.clock import steady_now

_CALLS: Final = 256
"""So many calls go to a master before it is asked whether there is another."""

_LOOK: Final = 0.4
"""So many seconds that is waited for: nobody else is asked in this time."""


class QueueNodes(msgspec.Struct, frozen=True):
    """Which nodes to ask, as calls name them."""

    master: NodeId
    store: NodeId
    door: NodeId
    other: NodeId
    """Any node, drawn by chance."""
    inline: int
    """What has more bytes is put at the door."""


master_of: Final[Callable[[QueueNodes], NodeId]] = attrgetter("master")
store_of: Final[Callable[[QueueNodes], NodeId]] = attrgetter("store")
other_of: Final[Callable[[QueueNodes], NodeId]] = attrgetter("other")


class GrantedSteps(LeaseSteps):
    """One queue as one user knows it: its name, its grant, its producer."""

    several: ClassVar[bool] = False
    """Whether it may have several priorities."""
    ranks: Ranks | None = None
    """What these are, where that is known and not what a position says."""

    def __init__(
        self,
        name: str,
        settings: QueueSettings | None,
        producer: ProducerSequence,
        chance: Random = CHANCE,
    ) -> None:
        super().__init__(known_name(name))
        self.is_part = part_of(name) is not None
        """Whether it is a partition, which nobody makes by its own name."""
        self._settings = settings
        self.producer = producer
        self.chance = chance
        """Draws which of several nodes to read from first."""
        self._grant: QueueNodes | None = None
        self._calls = 0
        """Of a master, under this grant."""
        self._lease = Duration(0)
        """How long leases last; each lease that can be extended says it anew."""
        self.since = 0
        """With which term it was made, once it was opened; from then on it is taken as it is, for
        it may be altered, and no other of its name is."""
        self.over = False
        """Whether it was deleted since."""
        self.whole: GrantedSteps | None = None
        """Of which queue it is a partition."""
        self.parts: PartitionedQueue | None = None
        """Its partitions, once it is known that there are several."""
        self.away_parts: tuple[int, ...] = ()
        """The partitions without a node here when items were got last."""

    # --- asking -----------------------------------------------------------------------------------

    def _ask(
        self,
        body: Any,
        wait: Wait,
        where: Callable[[QueueNodes], NodeId],
        weight: int = 0,
        *,
        make: bool = True,
        eager: bool = False,
    ) -> Steps[tuple[Any, Instant]]:
        """Asks where the grant says, asking for that first if need be, until the time is over.

        Returns the answer, and when that was asked for which it answers. What did not happen since
        nobody was there for it, and what is open, is asked again: that is how a master's death
        looks until another has its place. Asking again is harmless, as each call names what it is
        about: a put its number, a word about items their lease.
        """
        going = CallRetries(wait)
        while True:
            try:
                grant = self._grant  # another thread may hear meanwhile that it is over
                if grant is None:
                    grant = self._grant = yield from self._open(wait, make)
                    body = _in_time(body, wait, self.since)
                elif where is master_of and self._is_old():
                    grant = yield from self._looked_up(grant, wait)
                    body = _in_time(body, wait, self.since)
                began = steady_now()
                whom = where(grant)
                if weight > grant.inline and where is store_of:
                    whom = grant.door
                answer = yield Query(body, wait.left, whom, weight)
            except (DiskFull, OutcomeUnknown, Unavailable, Unreachable) as error:
                self._grant = None
                yield going.after(error, eager=eager)
            except NoSuchQueue as error:
                raise self._ended(error, body) from None
            else:
                if steady_now() - began > FIRST_WAIT:  # somebody was silent, perhaps
                    self._grant = None
                return answer, began

    def _open(self, wait: Wait, make: bool) -> Steps[QueueNodes]:
        return self._opened(self._settings, wait, make)

    def _begin(self, wait: Wait, make: bool = True, eager: bool = False) -> Steps[None]:
        """Opens it, to learn whether it has several partitions."""
        going = CallRetries(wait)
        while self._grant is None:
            try:
                self._grant = yield from self._open(wait, make)
            except (DiskFull, OutcomeUnknown, Unavailable, Unreachable) as error:
                yield going.after(error, eager=eager)

    def _look(self, wait: Wait) -> Steps[None]:
        """What is there, whatever it was made with; raises `NoSuchQueue`, or `QueueExists`."""
        going = CallRetries(wait)
        while True:
            try:
                grant = yield from self._opened(None, wait, make=False)
            except (DiskFull, OutcomeUnknown, Unavailable, Unreachable) as error:
                yield going.after(error)
            else:
                self._grant = grant if self._settings is None else None
                return

    def create(self, timeout: float) -> Steps[None]:
        """It is there from now on, as it should be; or raises `QueueExists`."""
        wait = Wait(timeout)
        going = CallRetries(wait)
        while True:
            try:
                self._grant = yield from self._made(wait)
            except (DiskFull, OutcomeUnknown, Unavailable, Unreachable) as error:
                yield going.after(error)
            else:
                return

    def _made(self, wait: Wait) -> Steps[QueueNodes]:
        return self._opened(self._settings, wait, make=True)

    def _opened(self, asked: QueueSettings | None, wait: Wait, make: bool) -> Steps[QueueNodes]:
        ask, since = Open(self.name, asked, make and not self.is_part), self.since
        if since:  # no other is to be made in its place
            ask = Open(self.name, make=False)
        try:
            opened: Opened = yield Query(ask, wait.left)
        except NoSuchQueue as error:
            if self.since != since:  # another thread or task had it made meanwhile
                return (yield from self._opened(asked, wait, make))
            raise self._ended(error, ask) from None
        self._is_same(opened)
        if self.whole is not None and not self.since:  # it may be a partition of another
            yield from self.whole.is_there(wait)
        if self._settings is None or asked is not None:  # it is as it should be
            self.since = opened.since
        settings = opened.settings
        self.check_kind(settings)
        self.missing, self._lease, self._calls = False, settings.lease, 0
        self.deliveries_max = settings.deliveries_max
        if self.several:
            self._ranks_are(Ranks.of(self.name, settings))
        if settings.partitions > 1 and not self.is_part:
            self._has_parts(settings)
        return _granted(opened)

    def is_there(self, wait: Wait) -> Steps[None]:
        """It is the queue that was there; raises `QueueDeleted` where there is none, or another."""
        try:
            self._is_same((yield Query(Open(self.name, make=False), wait.left)))
        except NoSuchQueue as error:
            raise self._ended(error, None) from None

    def _is_same(self, opened: Opened) -> None:
        """It is the queue that was there; raises `QueueDeleted` for another of its name."""
        if self.since not in (0, opened.since):
            raise self._ended(NoSuchQueue(), opened)

    def _ended(self, error: NoSuchQueue, asked: Any) -> SnowmeltError:
        return self.ended(error, of_lease=type(asked) is Settle)

    def ended(self, error: NoSuchQueue, *, of_lease: bool = False) -> SnowmeltError:
        """There is no such queue: it was deleted, if it was there before."""
        self._grant, self.missing = None, not self.since
        if not self.since:
            return error
        self.over = True
        moved = isinstance(error, QueueMoved)
        text = f"queue {self.name!r} was deleted since it was taken here; take it again to go on"
        text = str(error) if moved else text
        return LeaseLost(text) if of_lease else (QueueMoved if moved else QueueDeleted)(text)

    def check_kind(self, settings: QueueSettings) -> None:
        """A queue with priorities is taken for no fifo; raises `QueueExists`."""
        if settings.priorities != 1 and not self.several:
            raise QueueExists(
                f"queue {self.name} is there with priorities={settings.kind}, and no fifo: take it "
                "by cluster.priority"
            )

    def _ranks_are(self, ranks: Ranks) -> None:
        """It was opened, and has these."""

    def _has_parts(self, settings: QueueSettings) -> None:
        """It was opened, and has several partitions."""

    def _is_old(self) -> bool:
        """Whether it is time to ask who is master, at one call of so many."""
        self._calls += 1
        return self._calls % _CALLS == 0

    def _looked_up(self, grant: QueueNodes, wait: Wait) -> Steps[QueueNodes]:
        """The same grant, or a new one where another is master by now."""
        try:
            opened: Opened = yield Query(Open(self.name, make=False), min(_LOOK, wait.left))
            self._is_same(opened)
        except NoSuchQueue as error:
            raise self._ended(error, None) from None
        except SnowmeltError:
            return grant
        self.deliveries_max = opened.settings.deliveries_max
        new = _granted(opened)
        if new.master == grant.master:
            return grant
        self._grant = new
        return new

    def ask_store(self, body: Any, timeout: float, weight: int) -> Steps[Any]:
        """Asks the node that was granted for putting; the queue is made if it isn't there."""
        wait = Wait(timeout)
        if self._grant is None:
            yield from self._begin(wait)
        if self.parts is not None:
            raise of_one_partition(self.parts, body)
        return (yield from self._ask(body, wait, store_of, weight))[0]

    def homes_of(
        self, puts: list[PutRequest], wait: Wait
    ) -> Steps[list[tuple[Self, list[PutRequest]]]]:
        """Into which partitions these are put: where their keys live, else into one of them."""
        if self._grant is None and self.parts is None:
            yield from self._begin(wait)
        if self.parts is None:
            return [(self, puts)]
        other = self.chance.choice(range(len(self.parts.all)))
        homes: dict[int, list[PutRequest]] = {}
        for one in puts:
            (key,) = keys_in(one.headers) or (None,)
            homes.setdefault(other if key is None else self.parts.home(key), []).append(one)
        return [(cast("Self", self.parts.all[at]), some) for at, some in homes.items()]

    def ask_door(self, body: Any, wait: Wait, weight: int) -> Steps[tuple[Any, Instant]]:
        """Asks any node, which asks all partitions; the answer, and when it was asked for it."""
        return (yield from self._ask(body, wait, other_of, weight, make=False))

    def ask_about(self, body: Any, timeout: float, weight: int = 0) -> Steps[Any]:
        """Asks the master, through any node where settings come first: this makes no queue."""
        wait = Wait(timeout)
        if self._grant is None and self.parts is None:
            yield from self._look(wait)
        if self.parts is not None:
            return (yield from self.parts.about(about(self.parts, body, wait)))
        if self._grant is None and not self.since:
            return (yield from ask_anybody(body, wait, weight))
        return (yield from self._ask(body, wait, master_of, weight, make=False))[0]


def _granted(opened: Opened) -> QueueNodes:
    master, store = contact(opened.master.address), contact(opened.store.address)
    door = store if opened.door is None else contact(opened.door.address)
    other = master if opened.other is None else contact(opened.other.address)
    return QueueNodes(master, store, door, other, opened.settings.inline_max)


def _in_time(body: Any, wait: Wait, since: int) -> Any:
    """The same call, with the patience that is left, and for the queue that was found."""
    if type(body) not in (Get, Put):
        return body
    patience = Duration(0) if type(body) is Put and body.hold else wait.patience
    return msgspec.structs.replace(body, patience=patience, since=since)
