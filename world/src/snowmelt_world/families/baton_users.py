"""Those who want the batons of a simulated world: programs over the shipped steps.

A program asks for a turn, for as long as its patience lasts, and has what it got renewed by the
shipped books (`client/baton/renewals.py`) while it works. Some are interrupted, some hold on for
ever, some stand still so that nothing is renewed, and some die. What it does with a baton, and how
it gives it up, stands in `baton_callers.py`. When the faults are over everybody wants a baton once
more, for a short time, until it has had it.

The ledger hears what goes over the wire: what is asked, saved and released, and what nodes answer.
What a program believes is held against that: for how long it holds the baton, that a save is on the
disk, that the baton has gone on, and which value it means to leave.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from random import Random
from typing import Any, Final, cast

import msgspec

from snowmelt.client.baton.renewals import LOOK, RenewalPlan
from snowmelt.client.baton.steps import AcquireRequest, BatonHold, CurrentNode
from snowmelt.client.connection.steps import Query, Sleep, Steps
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import SECOND, Duration, Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.baton import calls
from snowmelt.runtime.clock import seconds_until, steady_now
from snowmelt_world.families.baton_ledger import Ledger
from snowmelt_world.families.baton_load import Load
from snowmelt_world.families.shipped import Done, Interrupted, Program, Run, must_end_well, pause
from snowmelt_world.world import Broken, World

WANT_SECONDS: Final = 30.0
"""The longest that somebody asks before it gives up, while there are faults."""
HOG: Final = seconds(40)
DYING: Final = seconds(4)
"""The longest until somebody dies who does so while it waits."""
SHORT: Final = milliseconds(400)
"""The longest hold, and the longest pause, once the faults are over."""
LATE: Final = seconds(3)
"""The longest that an act is on its way to what the baton guards."""
FAILURES: Final = (SnowmeltError, Interrupted)
"""What a call of a person ends with, if not with its answer."""


class Way(Enum):
    """What somebody does once it holds the baton."""

    WORK = "work"
    HOG = "hog"
    """Holds on for long, or until the faults are over."""
    MUTE = "mute"
    """Stands still: nothing is renewed."""
    DIE = "die"


class Stage(msgspec.Struct):
    world: World
    ledgers: dict[str, Ledger]
    gone: Callable[["Client"], None]
    """What is done when a user's process has died."""
    load: Load
    tickets: dict[OperationId, tuple[str, int]] = {}
    """Which baton each call is about, and under which ticket."""
    draining: bool = False

    def came(self, operation: OperationId) -> None:
        name, ticket = self.tickets[operation]
        self.ledgers[name].comes(ticket, self.world.now)

    def granted(self, operation: OperationId, granted: calls.Granted) -> None:
        """A node grants what this call asks for."""
        name, ticket = self.tickets[operation]
        self.ledgers[name].grants(ticket, granted, self.world.now)


class Client(Program):
    """One who wants batons, or looks at them."""

    def __init__(self, stage: Stage, name: str, nodes: Sequence[NodeId], chance: Random) -> None:
        super().__init__(stage.world, name, nodes, chance)
        self.stage = stage

    def asked(self, operation: OperationId, body: Any) -> None:
        """Nodes are seen to hear and to grant it."""
        if isinstance(body, calls.Acquire):
            self.stage.tickets[operation] = body.name, body.ticket

    def die(self) -> None:
        super().die()
        self.stage.gone(self)


class Connection:
    """What a hold came by, where its program blocks: its books are told when it has ended."""

    def __init__(self) -> None:
        self.ended = False

    def give_back(self) -> None:
        """The hold has been renewed by another."""

    def close(self) -> None:
        """The program ends."""


class Caller(Client):
    """One process that wants a baton again and again, always the same."""

    def __init__(
        self, stage: Stage, name: str, nodes: Sequence[NodeId], chance: Random, ledger: Ledger
    ) -> None:
        super().__init__(stage, name, nodes, chance)
        self.served = False
        """Whether it had its turn after the faults."""
        self.hold: BatonHold | None = None
        self.way = Way.WORK
        self.ledger = ledger
        self._home = CurrentNode()
        self._keeping = RenewalPlan()
        self._tends = False
        self._blocks = chance.random() < 0.5
        """Whether each hold begins with a connection of its own, as in a program of threads."""
        self._connection = Connection()
        self._tickets: list[int] = []
        self._turns: Run | None = None
        self._begin()

    @property
    def busy(self) -> str:
        """What it is still about, in words; nothing when it has nothing to do."""
        if not self.served:
            return f"{self.name} has not had its turn"
        return self.waiting or (f"{self.name} has not let go" if self.hold is not None else "")

    @property
    def place(self) -> NodeId | None:
        """The node at which it holds the baton."""
        return None if self.hold is None or self.hold.over else self.hold.place

    def again(self) -> None:
        self.served = False
        self._begin()

    # --- its process ------------------------------------------------------------------------------

    def lose(self, node: NodeId) -> None:
        self.ledger.unheard(self.name, self.now)
        super().lose(node)
        if self.place == node:
            self._connection.ended = True

    def die(self) -> None:
        self._ends()
        super().die()

    def _interrupts(self) -> None:
        """At times it is interrupted in what it does next."""
        if self.chance.random() < 0.1 and not self.stage.draining and self._turns is not None:
            most = milliseconds(self.chance.choice((5, 50, 1_000, 10_000)))
            self.after(self.some(most), self._turns.interrupt)

    # --- wanting ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._turns is None:
            self._turns = self.run(self._take_turns(), self._over)

    def _over(self, told: Any) -> None:
        must_end_well(told)
        self._turns = None

    def _take_turns(self) -> Steps[None]:
        while not self.served:
            yield from self._rest()
            self._interrupts()
            if self.chance.random() < 0.03 and not self.stage.draining:
                self.after(self.some(DYING), partial(self._dies, None))
            hold = yield from self._want()
            if hold is not None:
                self._holds(hold)
                yield from self.work(hold)
                self._lets_go(hold)
            self._ends()

    def _rest(self) -> Steps[None]:
        """Wants nothing for a while, and no longer than that once the faults are over."""
        end = later(self.now, self.some(self.stage.load.pause))
        while self.now < end and not self.stage.draining:
            yield pause(min(SHORT, Duration(end - self.now)))
        yield pause(self.some(SHORT))

    def _want(self) -> Steps[BatonHold | None]:
        patience = WANT_SECONDS * (1.0 if self.stage.draining else self.chance.random())
        want = AcquireRequest(self._home, self.ledger.name, patience, self.tickets)
        try:
            return (yield from want.granted())
        except FAILURES as error:
            if isinstance(error, Interrupted):  # as the faces do, behind the scenes
                self.run(want.withdraw(), must_end_well)
            return None

    def _dies(self, hold: BatonHold | None) -> None:
        if self.hold is hold and not self.stage.draining:
            self.die()

    def _ends(self) -> None:
        self.ledger.doubts(self.name)
        for ticket in self._tickets:
            self.ledger.ends_want(ticket, self.now)
        self._tickets = []

    # --- holding ----------------------------------------------------------------------------------

    def _holds(self, hold: BatonHold) -> None:
        self.hold = hold
        self.served = self.stage.draining
        load = self.stage.load
        self.way = Way.WORK
        if not self.stage.draining:
            self.way = self.chance.choices(tuple(Way), load.ways)[0]
        self._believes(hold)
        self._act(hold)
        if self.way is Way.DIE:
            self.after(self.some(load.hold), partial(self._dies, hold))
        if self.way is not Way.MUTE:
            self._connection = Connection()
            self._keeping.add(hold, cast("Any", self._connection) if self._blocks else None)
            if not self._tends:
                self._tends = True
                self.run(self._tend(), must_end_well)

    def _lets_go(self, hold: BatonHold) -> None:
        """Whatever was broken off is said again behind the scenes."""
        self.hold = None
        if not hold.settled:
            self.run(hold.give_back(), must_end_well)

    def work(self, hold: BatonHold) -> Steps[None]:
        """What it does while it holds the baton; it gives it up in the end."""
        raise NotImplementedError

    def _tend(self) -> Steps[None]:
        """Renews by the books, as the shipped keepers do, until nothing is held."""
        while self._keeping:
            due = self._keeping.next(steady_now())
            if isinstance(due, list):
                yield from self._keeping.renew(due)
                for one in due:
                    self._believes(one.hold)
            elif due is not None:
                yield Sleep(min(seconds_until(due), LOOK / SECOND))
        self._tends = False

    def _believes(self, hold: BatonHold) -> None:
        if self.hold is not hold:
            return
        if hold.over:
            self.ledger.doubts(self.name)
        else:
            since = Instant(hold.until - hold.lease)
            self.ledger.believes(self.name, hold.fence, hold.until, since, self.now)

    def _act(self, hold: BatonHold) -> None:
        """Acts, as long as it believes that it may; what it does arrives at once, or late."""
        if self.hold is not hold or hold.over or self.now >= hold.until:
            return
        late = self.some(LATE) if self.chance.random() < 0.1 else self.some(milliseconds(20))
        self.world.at(later(self.now, late), self.ledger.acts, hold.fence)
        self.after(self.some(seconds(1)), partial(self._act, hold))

    # --- what goes over the wire ------------------------------------------------------------------

    def asked(self, operation: OperationId, body: Any) -> None:
        """What it wants and says is written down."""
        super().asked(operation, body)
        match body:
            case calls.Acquire(ticket=ticket) if ticket not in self._tickets:
                self._tickets.append(ticket)
                self.ledger.wants(self.name, ticket, self.now)
            case calls.Release(ticket=ticket, fence=0) if ticket in self._tickets:
                self.ledger.ends_want(ticket, self.now)
            case calls.SaveValue(fence=fence, value=value):
                self.ledger.says(fence, value)
            case calls.Release(fence=fence, value=value) if fence:
                self.ledger.doubts(self.name)
                self.ledger.releases(self.name, fence, value)
            case _:
                pass

    def query(self, step: Query, told: Done) -> None:
        """What it saves and gives up is so once a node says so, whatever the steps make of it."""

        def hears(answer: Any) -> None:
            if not isinstance(answer, SnowmeltError):
                self.hears(step.body)
            told(answer)

        super().query(step, hears)

    def hears(self, body: Any) -> None:
        match body:
            case calls.SaveValue(fence=fence, value=value):
                self.ledger.saved(fence, value, self.now)
            case calls.Release(fence=fence) if fence:
                self.ledger.passed(fence)
            case _:
                pass

    # --- what it is told --------------------------------------------------------------------------

    def told_saved(self, fence: int, value: bytes) -> None:
        of = self.ledger.holds[fence]
        if value not in of.said[: of.saved]:
            text = f"{self.name} is told that {value!r} is saved, and no node said so"
            raise Broken(text, self.name)

    def told_passed(self, fence: int) -> None:
        if not self.ledger.holds[fence].passed:
            text = f"{self.name} is told that it gave {self.ledger.name} up, and no node said so"
            raise Broken(text, self.name)
