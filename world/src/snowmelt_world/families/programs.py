"""Processes of a simulated world that use one queue through the shipped steps, of whatever family.

What they do is a script, written as steps over those that ship: a script asks for what a person
asks for, and makes up nothing of what goes over the wire. The ledger hears both sides. What was
asked and answered goes to it as it is sent and heard, whatever the steps make of it; what the
person is told is held against that:

1. An acknowledgement that a person is told is done was taken by a node.
2. A put that a person is told is in the queue is where a node said it is; and one that a person is
   told is definitely not in the queue never comes out of it, however often it was attempted.
3. A lease that a person is told to hold lasts no longer than nodes said, counted from when they
   were asked.
4. What came under a lease is handed out or went back, and nothing of it both.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.client.connection.steps import Query, Sleep, Steps
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.core.errors import Full, SnowmeltError
from snowmelt.core.instant import SECOND, Duration, Instant, later
from snowmelt.core.interval import Interval
from snowmelt.core.outcome import Outcome
from snowmelt.protocols.calling import Ask
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt_world.check.history import Ended
from snowmelt_world.families.fifo_actors import Actor, Phase, Stage
from snowmelt_world.families.shipped import Done, Interrupted, Run, answer_of, patience_of
from snowmelt_world.judge.book import Book
from snowmelt_world.judge.values import Lease, Put
from snowmelt_world.network import LinkStyle

INTERRUPTS: Final = 0.04
"""How many calls of a person are interrupted, or their process killed, while there is load."""
FAILURES: Final = (SnowmeltError, Interrupted)
"""What a call of a person ends with, if not with its answer."""


class Program(Actor):
    """One process; when it dies, another begins in its place."""

    ledger: Book
    held: Mapping[int, Lease]
    """The leases it was told of, by their tokens."""
    steps: Any
    """The queue, as it knows it."""

    def __init__(self, stage: Stage, name: str, chance: Random) -> None:
        super().__init__(stage, name, chance)
        self._acked: dict[int, dict[int, None]] = {}
        """What nodes said is done, by tokens."""
        self._runs: list[Run] = []
        self.steps = self.opened()

    @property
    def queue(self) -> str:
        return self.ledger.queue

    # --- its process ------------------------------------------------------------------------------

    @abstractmethod
    def opened(self) -> Any:
        """The queue, as who begins knows it."""

    def run(self, steps: Steps[Any], done: Done | None = None) -> Run:
        def over(told: Any) -> None:
            self._runs.remove(run)
            assert not isinstance(told, Exception), f"{self.name} ended with {told!r}"
            if done is not None:
                done(told)

        run = Run(self, steps, over)
        self._runs.append(run)
        run.go(None)
        return run

    @property
    def loads(self) -> bool:
        return self.stage.phase is Phase.LOAD

    def begin_at(self, times: Iterable[Instant], act: Callable[[], None]) -> None:
        for at in times:
            self.stage.world.at(max(at, self.now), act)

    @property
    def busy(self) -> bool:
        return bool(self._runs)

    def interrupts(self) -> None:
        """At times the first script is interrupted in what it does next."""
        if self._runs and self.chance.random() < INTERRUPTS:
            run = self._runs[0]
            self.after(self.some(self.ledger.terms.lease), lambda: self.interrupted(run))

    def interrupted(self, run: Run) -> None:
        """It is, if it waits; then what it waited for comes all the same, and nobody takes it."""
        run.interrupt()

    def die(self) -> None:
        """Its process is gone; what it knew is forgotten."""
        for run in self._runs:
            run.end()
        self._runs.clear()
        self.steps = self.opened()

    def fall(self) -> None:
        """Its process is the node's, and is gone: no call of it is answered any more."""
        self.die()
        self.stage.world.stop(self.name)
        self.stage.world.start(self.name)
        self.forsake("its process is gone")

    def after(self, wait: Duration, act: Callable[[], None]) -> None:
        """Later; when it stands still, once it goes on."""

        def due() -> None:
            goes_on = self.stage.world.slots[self.name].paused_until
            if goes_on > self.now:
                self.stage.world.at(goes_on, due)
            else:
                act()

        self.stage.world.at(later(self.now, wait), due)

    # --- what goes over the wire ------------------------------------------------------------------

    def query(self, step: Query, told: Done) -> None:
        """Makes a call of steps, and has the ledger hear what comes of it."""
        body, called = step.body, self.now
        self.asks(body)

        def then(outcome: Outcome[Any], at: Instant) -> None:
            self.hears(body, called, outcome, at)
            told(answer_of(outcome))

        self.send(Ask(body, patience_of(step), step.target, step.weight), then)

    def asks(self, body: Any) -> None:
        """A call is about to be made."""

    @abstractmethod
    def hears(self, body: Any, called: Instant, outcome: Outcome[Any], at: Instant) -> None:
        """A call has an outcome."""

    def takes(self, token: int, done: Iterable[int]) -> None:
        """A node says that it knows these to be done."""
        self._acked.setdefault(token, {}).update(dict.fromkeys(done))

    # --- what a person is told --------------------------------------------------------------------

    @abstractmethod
    def got(self, delivered: LeasedItems) -> None:
        """Items came."""

    def handed(self, delivered: LeasedItems, came: Iterable[int]) -> None:
        """Of what came, a loop keeps some from the others (4); of a lease that is over, nothing."""
        held = self.held[delivered.token]
        out, back, over = set(places(delivered.positions)), held.named, self.now >= held.lasts
        for where in came:
            if (where in out) == (where in back) and (where in out or not over):
                text = "handed out, and went back" if where in out else "kept from who asked"
                self.ledger.wrong(f"{self.name}: position {where} is {text}", self.name)

    def believes(self, delivered: LeasedItems) -> bool:
        """Whether it takes a lease for its own now (3)."""
        mine = not delivered.lost and self.now < delivered.ends
        longer = delivered.ends - self.held[delivered.token].lasts
        if mine and longer > 0:
            text = f"{self.name} takes lease {delivered.token} to hold for {longer} ns longer than"
            self.ledger.wrong(f"{text} it was told", self.name)
        return mine

    def told_refused(self, put: Put, error: BaseException, *, asked: bool = True) -> None:
        """It is told that nothing of it is in the queue, or ever will be (2).

        What was not even asked may be refused for what went before it.
        """
        why = str(error)
        if put.ended is Ended.SUCCEEDED:
            text = f"{put.values[0]} is in the queue, and was said to be refused: {why}"
            self.ledger.wrong(text, self.name)
        if asked and isinstance(error, Full) and self.ledger.had_room(put, self.now):
            self.ledger.wrong(f"{put.values[0]} is refused, and there was room: {why}", self.name)
        self.ledger.refused(put, why, self.now)

    def acked(self, token: int) -> dict[int, None]:
        """What of a lease nodes said is done."""
        return self._acked.get(token, {})

    def told_done(self, delivered: LeasedItems, done: Iterable[Interval]) -> None:
        """It is told that these are acknowledged (1)."""
        taken = self.acked(delivered.token)
        for where in places(done):
            if where not in taken:
                text = f"{self.name} is told that position {where} is done, and no node said so"
                self.ledger.wrong(text, self.name)


def in_reach(settings: QueueSettings, style: LinkStyle, messages: int) -> QueueSettings:
    """A lease lasts for as long as it mostly takes to read an item and to say so.

    It is told, its item is asked for and comes, and its end goes by way of a node that is not the
    master: six messages. Who never has the time for them never empties a queue.
    """
    least = messages * (style.delay_min + style.delay_mean)
    return msgspec.structs.replace(settings, lease=Duration(max(settings.lease, least)))


def places(intervals: Iterable[Interval]) -> tuple[int, ...]:
    return tuple(where for one in intervals for where in one)


def pause(time: Duration) -> Sleep:
    return Sleep(time / SECOND)
