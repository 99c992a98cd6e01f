"""Those who want the batons of a simulated world, each a client machine with a will of its own.

A user asks under one ticket until it is granted or out of patience. Then it does what people do:
works on what the baton guards and keeps the baton meanwhile, holds on for ever, forgets to keep,
saves, passes a new value or the old one, or dies. It believes that it holds the baton until the
lease is over, counted from when it sent the last word that was answered, and never acts later. When
the faults are over everybody wants a baton once more, for a short time, until it has had it.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId, contact
from snowmelt.core.outcome import Failed, Outcome, Succeeded
from snowmelt.protocols.baton import calls
from snowmelt.protocols.calling import SLOWEST
from snowmelt.sim.families.baton_ledger import Ledger
from snowmelt.sim.families.baton_load import Load
from snowmelt.sim.families.shipped import Program
from snowmelt.sim.world import World

WAITING: Final = 7 * SLOWEST
"""The weight of a call that waits for `calls.POLL`: its silence means nothing for longer."""
WANT: Final = seconds(30)
"""The longest that somebody asks before it gives up, while there are faults."""
HOG: Final = seconds(40)
DYING: Final = seconds(4)
"""The longest until somebody dies who does so while it waits."""
SHORT: Final = milliseconds(400)
"""The longest hold, and the longest pause, once the faults are over."""
AGAIN: Final = milliseconds(300)
PASSES_MAX: Final = 3
LATE: Final = seconds(3)
"""The longest that an act is on its way to what the baton guards."""


class Way(Enum):
    """What somebody does once it holds the baton."""

    WORK = "work"
    HOG = "hog"
    """Holds on for long, or until the faults are over."""
    MUTE = "mute"
    """Never says that it works on."""
    DIE = "die"


class Stage(msgspec.Struct):
    """What all users share."""

    world: World
    ledgers: dict[str, Ledger]
    gone: Callable[["Client"], None]
    """What is done when a user's process has died."""
    load: Load
    tickets: dict[OperationId, tuple[str, int]] = {}
    """Which baton each call is about, and under which ticket."""
    draining: bool = False

    def came(self, operation: OperationId) -> None:
        """A node hears this call."""
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

    @property
    def place(self) -> NodeId | None:
        """The node at which it holds the baton."""
        return None

    def drain(self) -> None:
        """The faults are over."""

    def asked(self, operation: OperationId, body: Any) -> None:
        """Nodes are seen to hear and to grant it."""
        if isinstance(body, calls.Acquire):
            self.stage.tickets[operation] = body.name, body.ticket

    def die(self) -> None:
        """Its process is gone, without a word."""
        super().die()
        self.stage.gone(self)


class Held(msgspec.Struct):
    """What a user knows of the baton that it holds."""

    ticket: int
    granted: calls.Granted
    way: Way
    until: Instant
    value: bytes | None = None
    """What it last said to be the value from now on."""
    keeps: int = 0
    """How often it said that it works on."""


class User(Client):
    """One process that wants a baton again and again, always the same."""

    def __init__(
        self, stage: Stage, name: str, nodes: Sequence[NodeId], chance: Random, ledger: Ledger
    ) -> None:
        super().__init__(stage, name, nodes, chance)
        self.served = False
        """Whether it had its turn after the faults."""
        self.held: Held | None = None
        self.ledger = ledger
        self._ticket = 0
        self._idle = True
        self.rest()

    @property
    def busy(self) -> str:
        """What it is still about, in words; nothing when it has nothing to do."""
        if not self.served:
            return f"{self.name} has not had its turn"
        return self.waiting or (f"{self.name} has not let go" if self.held is not None else "")

    @property
    def place(self) -> NodeId | None:
        """The node at which it holds the baton."""
        return None if self.held is None else contact(self.held.granted.where.address)

    def rest(self) -> None:
        """Wants nothing for a while."""
        self._idle = True
        if not self.served:
            self.after(
                self.some(SHORT if self.stage.draining else self.stage.load.pause), self._want
            )

    def drain(self) -> None:
        """The faults are over: whoever only holds on lets go; all others go on as they are."""
        if self.held is not None and self.held.way is Way.HOG:
            self._finish(self.held)

    def again(self) -> None:
        """It had its turn, and wants another."""
        self.served = False
        if self._idle:
            self.rest()

    def die(self) -> None:
        """Its process is gone, without a word."""
        self.ledger.doubts(self.name)
        if self._ticket:
            self.ledger.ends_want(self._ticket, self.now)
        super().die()

    def lose(self, node: NodeId) -> None:
        """Its connection to a node has ended, and it knows: it says at once that it lives."""
        self.ledger.unheard(self.name, self.now)
        super().lose(node)
        if self.held is not None and self.held.way is not Way.MUTE:
            self._keep(self.held)

    # --- wanting ----------------------------------------------------------------------------------

    def _want(self) -> None:
        if self.served or not self._idle:
            return
        self._idle = False
        self._ticket = self.chance.getrandbits(63)
        self.ledger.wants(self.name, self._ticket, self.now)
        self._acquire(self._ticket, later(self.now, self.some(WANT)))
        if self.chance.random() < 0.04 and not self.stage.draining:
            self.after(self.some(DYING), partial(self._die_waiting, self._ticket))

    def _die_waiting(self, ticket: int) -> None:
        if self._ticket == ticket and self.held is None and not self.stage.draining:
            self.die()

    def _acquire(self, ticket: int, end: Instant) -> None:
        left = max(milliseconds(1), Duration(end - self.now))
        wait = calls.POLL if self.stage.draining else min(calls.POLL, left)
        sent = self.now

        def told(outcome: Outcome[Any], at: Instant) -> None:
            if isinstance(outcome, Succeeded) and isinstance(outcome.value, calls.Granted):
                self._hold(ticket, outcome.value, sent)
            elif isinstance(outcome, Failed) and "BatonLost" in outcome.reason:
                self.ledger.ends_want(ticket, self.now)  # it had it, and never heard of it in time
                self.rest()
            elif at >= end and not self.stage.draining:
                self._give_up(ticket)
            elif isinstance(outcome, Succeeded):
                self._acquire(ticket, end)
            else:
                self.after(AGAIN, partial(self._acquire, ticket, end))

        acquire = calls.Acquire(self.ledger.name, ticket, Duration(wait))
        self.ask(acquire, told, weight=WAITING)

    def _give_up(self, ticket: int) -> None:
        self.ledger.ends_want(ticket, self.now)
        release = calls.Release(self.ledger.name, ticket, 0, None, None)
        self.ask(release, lambda _, __: self.rest())

    # --- holding ----------------------------------------------------------------------------------

    def _hold(self, ticket: int, granted: calls.Granted, sent: Instant) -> None:
        load = self.stage.load
        way = Way.WORK if self.stage.draining else self.chance.choices(tuple(Way), load.ways)[0]
        held = self.held = Held(ticket, granted, way, later(sent, granted.lease))
        self.ledger.believes(self.name, granted.fence, held.until, sent, self.now)
        self.served = self.stage.draining
        self._act(held)
        if way is not Way.MUTE:
            self._keep(held)
        if way is Way.DIE:
            self.after(self.some(load.hold), partial(self._die_holding, held))
        else:
            kinds = (load.short, load.short, load.hold)
            most = SHORT if self.stage.draining else self.chance.choice(kinds)
            most = HOG if way is Way.HOG else most
            self.after(self.some(most), partial(self._finish, held))
            if self.chance.random() < 0.4:
                self.after(self.some(most), partial(self._save, held))

    def _die_holding(self, held: Held) -> None:
        if self.held is held and not self.stage.draining:
            self.die()
        else:
            self._finish(held)

    def _believes(self, held: Held) -> bool:
        return self.held is held and self.now < held.until

    def _keep(self, held: Held) -> None:
        """Says that it works on, again and again; the last word goes on with it."""
        held.keeps += 1
        sent, number = self.now, held.keeps
        beat = Duration(held.granted.lease // 5)

        def again() -> None:
            if self.held is held and held.keeps == number:
                self._keep(held)

        def told(outcome: Outcome[Any], at: Instant) -> None:
            if self.held is not held:
                return
            if isinstance(outcome, Succeeded):
                held.until = max(held.until, later(sent, outcome.value.lease))
                self.ledger.believes(self.name, held.granted.fence, held.until, sent, at)
                self.after(Duration(max(sent + beat - at, milliseconds(1))), again)
            elif at >= held.until or (isinstance(outcome, Failed) and "Lost" in outcome.reason):
                self._over()
            else:
                self.after(AGAIN, again)

        granted = held.granted
        keep = calls.Keep(self.ledger.name, held.ticket, granted.fence, granted.where)
        self.ask(keep, told, self.place, patience=Duration(2 * beat))

    def _act(self, held: Held) -> None:
        """Acts, as long as it believes that it may; what it does arrives at once, or late."""
        if not self._believes(held):
            return
        late = self.some(LATE) if self.chance.random() < 0.1 else self.some(milliseconds(20))
        act = partial(self.ledger.acts, held.granted.fence)
        self.stage.world.at(later(self.now, late), act)
        self.after(self.some(seconds(1)), partial(self._act, held))

    def _save(self, held: Held) -> None:
        if not self._believes(held):
            return
        granted, value = held.granted, self._next_value(held)

        def told(outcome: Outcome[Any], at: Instant) -> None:
            if isinstance(outcome, Succeeded):
                self.ledger.saved(granted.fence, value, at)

        save = calls.Save(self.ledger.name, held.ticket, granted.fence, granted.where, value)
        self.ask(save, told, self.place, patience=seconds(4))

    def _next_value(self, held: Held) -> bytes:
        count = len(self.ledger.holds[held.granted.fence].said) + 1
        held.value = f"{self.name}/{held.granted.fence}/{count}".encode()
        self.ledger.says(held.granted.fence, held.value)
        return held.value

    # --- ending it --------------------------------------------------------------------------------

    def _finish(self, held: Held) -> None:
        """Passes the baton on, if it is still its own as far as it knows."""
        if self.held is not held:
            return
        if held.value is not None or self.chance.random() < 0.8:
            self._next_value(held)
        place = self.place
        self.held = None
        self.ledger.doubts(self.name)
        self._pass_on(held, place, PASSES_MAX)

    def _pass_on(self, held: Held, place: NodeId | None, tries: int) -> None:
        def told(outcome: Outcome[Any], _: Instant) -> None:
            if isinstance(outcome, Succeeded):
                self.ledger.passed(held.granted.fence)
            elif tries > 1 and "Lost" not in outcome.reason:
                self.after(AGAIN, partial(self._pass_on, held, place, tries - 1))
                return
            self._over()

        fence, where = held.granted.fence, held.granted.where
        release = calls.Release(self.ledger.name, held.ticket, fence, where, held.value)
        self.ask(release, told, place, patience=seconds(4))

    def _over(self) -> None:
        """It holds nothing any more, by its own will or not."""
        self.held = None
        self.ledger.doubts(self.name)
        self.ledger.ends_want(self._ticket, self.now)
        self.rest()
