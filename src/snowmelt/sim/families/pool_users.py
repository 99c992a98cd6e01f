"""The programs of a simulated pool: what a process' own code asks of its part, life by life.

A maker waits for room or does not, and puts one object or many. A taker gets some, and does what
people do: says that all or a part is done, waits for that to be confirmed or does not, gives back,
works for long, or forgets what it has. When the faults are over everybody takes until nobody has
anything left; what was forgotten is remembered then.
"""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.names import OperationId
from snowmelt.core.node import Requested
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.pool import calls
from snowmelt.protocols.pool.settings import AccessKind
from snowmelt.sim.families.pool_ledger import Handed, Ledger, Part
from snowmelt.sim.families.pool_load import Load
from snowmelt.sim.world import Broken, World

PATIENCE: Final = seconds(4)
"""The longest that a put waits for room, a get for objects, an end for its confirmation."""
WORK: Final = seconds(6)
LOOK_EVERY: Final = seconds(1)
PACE: Final = seconds(2)
PAUSE: Final = milliseconds(300)
IDLE: Final = seconds(4)
"""So long nobody waits beside a producer that has objects: a wait, and until it is introduced."""
LATE: Final = seconds(2)
"""So much later than it must an answer may come in calm times."""
UNLIMITED: Final = 1 << 40

Then = Callable[[Any, Instant], None]


class Stage(msgspec.Struct):
    """What all programs share."""

    world: World
    ledger: Ledger
    left: Callable[[Part], None]
    """What is done with a process whose program has left in order."""
    calm: bool = False
    """Whether nothing ever goes wrong in this life."""
    pace: Duration = PACE
    """The longest between two puts of a maker."""
    load: Load = Load()
    draining: bool = False
    over: bool = False
    """Whether nobody has anything left."""


class Process:
    """Whoever has a part in the pool, and asks it; it ends with its process."""

    def __init__(self, stage: Stage, part: Part, chance: Random) -> None:
        self.stage = stage
        self.part = part
        self.chance = chance
        self._numbers = 0
        self._open: dict[int, Then] = {}

    @property
    def waiting(self) -> str:
        """What it waits for, in words; nothing when for nothing."""
        for number in self._open:
            return f"{self.part.node} still waits for call {number} of its life {self.part.name}"
        return "" if not self.leaving else f"{self.part.node} still leaves"

    @property
    def leaving(self) -> bool:
        """Whether it has begun to leave."""
        return self.part.leaves_at is not None

    @property
    def _now(self) -> Instant:
        return self.stage.world.now

    def ask(self, call: calls.Local, then: Then) -> int:
        """Calls its own part; `then` is done with the answer."""
        self._numbers += 1
        self._open[self._numbers] = then
        node = self.part.node
        operation = OperationId(node, self._numbers)
        self.stage.world.give(node, Requested(operation, call))
        return self._numbers

    def answered(self, operation: OperationId, body: Any, at: Instant) -> None:
        """Its part has answered."""
        then = self._open.pop(operation.number, None)
        if then is None:
            raise Broken(f"{operation} was answered twice, or for nothing", self.part.node)
        then(body, at)

    def withdraw(self) -> None:
        """Does not want what it waits for any longer."""
        if self._open and not self.leaving:
            number = self.chance.choice(list(self._open))
            operation = OperationId(self.part.node, 0)
            self.stage.world.give(self.part.node, Requested(operation, calls.Withdraw(number)))

    def leave(self) -> None:
        """Goes in order."""
        if self.leaving:
            return
        self.part.leaves_at = self._now

        def told(body: Any, _: Instant) -> None:
            self.part.left = body.left
            self.stage.left(self.part)

        several = self.stage.load.leaving
        most = several[0] if len(several) == 1 else self.chance.choice(several)
        self.ask(calls.Stop(self._some(most)), told)

    def _after(self, wait: Duration, act: Callable[[], None]) -> None:
        def due() -> None:
            if self.part.ended_at is None:
                act()

        self.stage.world.at(later(self._now, wait), due)

    def _later(self, act: Callable[[], None]) -> None:
        self._after(self._some(PAUSE if self.stage.draining else PACE), act)

    def _some(self, most: int) -> Duration:
        return Duration(self.chance.randrange(1, most))


class Program(Process):
    """One process' code: it makes objects, takes objects, or both."""

    def __init__(
        self, stage: Stage, part: Part, chance: Random, *, makes: bool, takers: int
    ) -> None:
        super().__init__(stage, part, chance)
        self.empty_looks = 0
        """How often in a row its part has said that it has nothing."""
        self.forgotten: list[Handed] = []
        self._makes = makes
        self._takers = takers
        self._made = 0
        self._gets: dict[int, Instant] = {}
        self._full_since: Instant | None = None
        self._given = 0

    def begin(self) -> None:
        """Its process runs."""
        if self.stage.draining:
            self._takers = 0
            self.drain()
            return
        if self._makes:
            self._later(self._make)
        for _ in range(self._takers):
            self._later(self.get)
        if self.stage.calm:
            self._look()

    def drain(self) -> None:
        """Everybody takes; what was forgotten is remembered."""
        if self.leaving:
            return
        self.empty_looks = 0  # what was put since it looked last was not seen
        forgotten, self.forgotten = self.forgotten, []
        for handed in forgotten:
            self._ack(handed, tuple(handed.values), PATIENCE, nothing)
        if not self._takers:
            self.get()
        if not self.stage.calm:
            self._look()

    # --- making -----------------------------------------------------------------------------------

    def _make(self) -> None:
        if self.leaving or self.stage.draining:
            return
        if self.chance.random() < 0.3:
            self.ask(calls.AwaitRoom(self._some(PATIENCE)), self._told_of_room)
        else:
            self._put(self.chance.choice((1, 1, 1, 2, 5, 12)))

    def _told_of_room(self, body: Any, _: Instant) -> None:
        if isinstance(body, calls.HasRoom):
            self._put(1)
        else:
            self._later(self._make)

    def _put(self, count: int) -> None:
        numbers = range(self._made, self._made + count)
        self._made += count
        padding = self.chance.choice(self.stage.load.padding)
        values = tuple(f"{self.part.name}/{number}" + "." * padding for number in numbers)
        batch = Batch.of(value.encode() for value in values)
        put = calls.Put(bytes(batch.offsets), bytes(batch.blob), self._some(PATIENCE))
        self.stage.ledger.putting(self.part, values)
        self.ask(put, partial(self._put_told, values))

    def _put_told(self, values: tuple[str, ...], body: Any, _: Instant) -> None:
        match body:
            case calls.Kept():
                self.stage.ledger.kept(self.part, values, body, self._now)
            case Declined("TooLarge" | "Closed"):
                self.stage.ledger.refused(values)
        self._after(self._some(self.stage.pace), self._make)

    # --- taking -----------------------------------------------------------------------------------

    def get(self) -> None:
        """Gets, again and again."""
        if self.leaving or self.stage.over:
            return
        chance = self.chance
        most = chance.choice((1, 1, 3, 10, 100))
        size = chance.choice((1, 100, UNLIMITED, UNLIMITED))
        patience = self._some(3 * PATIENCE if self.stage.calm else PATIENCE)
        number = self.ask(calls.Get(most, size, patience), partial(self._got, self._now))
        self._gets[number] = self._now
        if self.stage.draining:
            self._after(Duration(patience + patience // 10 + LATE), partial(self._judge, number))

    def _judge(self, number: int) -> None:
        if number in self._open:
            raise Broken(f"call {number} waits longer than it should", self.part.node)

    def _got(self, called: Instant, body: Any, at: Instant) -> None:
        if not isinstance(body, calls.Got):
            self._later(self.get)
            return
        handed = self.stage.ledger.got(self.part, body, called, at)
        again = partial(self._later, self.get)
        if not body.token:
            self.stage.ledger.done(tuple(handed.values.values()))
            again()
        elif not self.leaving:
            self._work(handed, again)

    def _work(self, handed: Handed, then: Callable[[], None]) -> None:
        chance, numbers = self.chance, tuple(handed.values)
        kinds = ("all", "part", "untold", "back", "long", "forget")
        weights = (80, 5, 5, 10, 0, 0) if self.stage.draining else (40, 15, 10, 10, 13, 12)
        match chance.choices(kinds, weights)[0]:
            case "all":
                self._ack(handed, numbers, self._some(PATIENCE), then)
            case "part":
                cut = chance.randrange(len(numbers) + 1)
                rest = partial(self._ack, handed, numbers[cut:], self._some(PATIENCE), then)
                self._ack(handed, numbers[:cut], self._some(PATIENCE), rest)
            case "untold":
                self._ack(handed, numbers, Duration(0), then)
            case "back":
                self._give_back(handed, numbers, then)
            case "long":
                end = partial(self._ack, handed, numbers, self._some(PATIENCE), then)
                self._after(self._some(WORK), end)
            case _:
                self.forgotten.append(handed)
                then()

    def _ack(
        self, handed: Handed, numbers: Sequence[int], patience: Duration, then: Callable[[], None]
    ) -> None:
        ledger = self.stage.ledger
        values = tuple(handed.values[number] for number in numbers)
        if not values or self.leaving:  # it has given all back
            then()
            return

        def told(body: Any, at: Instant) -> None:
            if isinstance(body, calls.Acked) and patience:
                ledger.confirmed(handed, values, at)
            then()

        ledger.done(values)
        self.ask(calls.Ack(handed.got.token, self._intervals(handed, numbers), patience), told)

    def _give_back(self, handed: Handed, numbers: Sequence[int], then: Callable[[], None]) -> None:
        self.stage.ledger.gave_back(handed, tuple(handed.values[number] for number in numbers))
        intervals = self._intervals(handed, numbers)
        self.ask(calls.Nack(handed.got.token, intervals), lambda _, __: then())

    def _intervals(self, handed: Handed, numbers: Sequence[int]) -> tuple[Interval, ...]:
        """Nothing for all of them, as people do."""
        if len(numbers) == len(handed.values) and self.chance.random() < 0.7:
            return ()
        return tuple(IntervalSet(Interval(one, one + 1) for one in numbers))

    # --- looking ----------------------------------------------------------------------------------

    def _look(self) -> None:
        if self.leaving or self.stage.over:
            return

        def told(body: Any, at: Instant) -> None:
            assert isinstance(body, calls.PeerStatistics)
            self.stage.ledger.described(self.part, body)
            empty = not (body.stock or body.on_loan)
            self.empty_looks = self.empty_looks + 1 if empty else 0
            if not body.stock or body.given != self._given:
                self._full_since = at if body.stock else None
            self._given = body.given
            self._after(LOOK_EVERY, self._look)

        self.ask(calls.Describe(), told)

    def has_long_had(self, at: Instant) -> bool:
        """Whether it has had objects for long, and given none away."""
        return self._full_since is not None and later(self._full_since, IDLE) < at

    def waits_long(self, at: Instant) -> bool:
        """Whether one of its gets waits for long, and any producer is as good as another to it.

        It is not idle while something large is on its way to it, nor where it waits in line for
        ever (`wait` is 0); when calm, it has one get.
        """
        settings = self.part.settings
        choosy = settings.fan_out or settings.access.kind is AccessKind.WEIGHTED
        begun = min(
            (self._gets[number] for number in self._open if number in self._gets), default=at
        )
        sent = self.part.sent_large
        since = later(sent, self.stage.load.slow) if sent >= begun else begun
        return bool(settings.wait) and not choosy and later(since, IDLE) < at

    def look_once(self) -> None:
        """Asks how its part is, in the middle of things."""
        self.ask(calls.Describe(), lambda body, _: self.stage.ledger.described(self.part, body))


def nothing() -> None:
    """What follows when nothing does."""
