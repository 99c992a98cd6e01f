"""Processes of a simulated world that use one queue through the shipped steps.

What they do is a script, written as steps over those that ship (`client.fifo.steps`): a script asks
for what a person asks for, and makes up nothing of what goes over the wire. The ledger hears both
sides. What was asked and answered goes to it as it is sent and heard, whatever the steps make of
it; what the person is told is held against that:

1. An acknowledgement that a person is told is done was taken by a node.
2. A put that a person is told is in the queue is where a node said it is; and one that a person is
   told is definitely not in the queue never comes out of it, however often it was attempted.
3. A lease that a person is told to hold lasts no longer than nodes said, counted from when they
   were asked.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from snowmelt.check.history import Ended
from snowmelt.client.connection.steps import Query, Rest, Steps
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.delivered import Delivered
from snowmelt.client.queue.options import Producer
from snowmelt.core.batch import Batch
from snowmelt.core.instant import SECOND, Duration, Instant, later
from snowmelt.core.interval import Interval
from snowmelt.core.outcome import Failed, Outcome, Succeeded
from snowmelt.protocols.calling import Ask
from snowmelt.protocols.fifo import calls
from snowmelt.sim.families.fifo_actors import Stage, User
from snowmelt.sim.families.fifo_ledger import Asked, Held, Ledger
from snowmelt.sim.families.shipped import Done, Run, answer_of, patience_of
from snowmelt.wire.greeting import CLIENT_PREFIX

INTERRUPTS: Final = 0.04
"""How many calls of a person are interrupted, or their process killed, while there is load."""


class Program(User):
    """One process; when it dies, another begins in its place."""

    def __init__(self, stage: Stage, name: str, chance: Random, ledger: Ledger) -> None:
        super().__init__(stage, name, chance, ledger)
        self.held: dict[int, Held] = {}
        """The leases it was told of, by their tokens."""
        self._acked: dict[int, dict[int, None]] = {}
        """What nodes said is done, by tokens."""
        self._names = 0
        self._runs: list[Run] = []
        self.steps = self.opened()

    # --- its process ------------------------------------------------------------------------------

    def opened(self) -> FifoSteps:
        """The queue, as who begins knows it."""
        return FifoSteps(self.queue, self.ledger.settings, self.producer(), self.chance)

    def producer(self) -> Producer:
        """Who puts."""
        return Producer(None, names=self.new_name)

    def new_name(self) -> str:
        """A name that no other client has."""
        self._names += 1
        return f"{CLIENT_PREFIX}{self.name}-{self._names}"

    def run(self, steps: Steps[Any], done: Done | None = None) -> Run:
        """Takes a script to its end."""

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
    def busy(self) -> bool:
        """Whether it is at work."""
        return bool(self._runs)

    def interrupts(self) -> None:
        """At times the first script is interrupted in what it does next."""
        if self._runs and self.chance.random() < INTERRUPTS:
            self.after(self.some(self.ledger.settings.lease), self._runs[0].interrupt)

    def die(self) -> None:
        """Its process is gone; what it knew is forgotten."""
        for run in self._runs:
            run.end()
        self._runs.clear()
        self.steps = self.opened()

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
        self._asks(body)

        def then(outcome: Outcome[Any], at: Instant) -> None:
            self.hears(body, called, outcome, at)
            told(answer_of(outcome))

        self.send(Ask(body, patience_of(step), step.target, step.weight), then)

    def _asks(self, body: Any) -> None:
        match body:
            case calls.Put(hold=0):
                batch = self._batch(body)
                if not batch.sent:
                    batch.called, batch.sent = self.now, True
                    batch.due = Instant(self.now - body.due if body.due else 0)
            case calls.Get(settle=calls.Settle() as settle) | (calls.Settle() as settle):
                held = self.held[settle.token]
                self.ledger.giving_back(held, places(settle.back))
                self.ledger.acking(held, places(settle.done))
            case _:
                pass

    def hears(self, body: Any, called: Instant, outcome: Outcome[Any], at: Instant) -> None:
        """A call has an outcome."""
        match body, outcome:
            case calls.Open(), Succeeded(calls.Opened() as opened):
                self.master, self.store = opened.master, opened.store
            case calls.Put(hold=0), Succeeded(calls.PutDone() as done):
                self.ledger.put(self._batch(body), done, at)
            case calls.Get(settle=settle), Succeeded(calls.Leased() as leased):
                if settle is not None:
                    refused = leased.refused
                    said = Failed(f"LeaseLost: {refused}") if refused else outcome
                    self._settled(settle, called, said, at)
                held = self.ledger.leased(self.name, called, leased, at, self.said)
                if held is not None:
                    self.held[held.token] = held
            case calls.Get(settle=settle), _:
                self.ledger.lost_get(self.name, called)
                if settle is not None:
                    self._settled(settle, called, outcome, at)
            case calls.Settle(), _:
                self._settled(body, called, outcome, at)
            case _:
                pass

    def _settled(
        self, settle: calls.Settle, called: Instant, outcome: Outcome[Any], at: Instant
    ) -> None:
        held, done = self.held[settle.token], places(settle.done)
        taken = isinstance(outcome, Succeeded)
        if isinstance(outcome, Failed) and outcome.reason.startswith("LeaseLost"):
            self.ledger.lease_lost(held, at, (*done, *places(settle.back)))
        if taken:
            self._acked.setdefault(held.token, {}).update(dict.fromkeys(done))
        if taken and settle.extend:
            self.ledger.extended(held, called)
        if done or settle.back:
            ended = Ended.SUCCEEDED if taken else Ended.UNKNOWN
            self.ledger.settled(held, done, called, at, ended)

    def _batch(self, put: calls.Put) -> Asked:
        first = Batch(put.offsets, put.blob)[0]
        return self.ledger.by_value[bytes(first).decode()]

    # --- what a person is told --------------------------------------------------------------------

    def got(self, delivered: Delivered) -> Held:
        """Items came."""
        held = self.held[delivered.token]
        for part in delivered.parts:
            assert isinstance(part, calls.Part)
            self.ledger.seen(part, self.now, held)
        self.believes(delivered)
        return held

    def believes(self, delivered: Delivered) -> bool:
        """Whether it takes a lease for its own now (3)."""
        mine = not delivered.lost and self.now < delivered.ends
        longer = delivered.ends - self.held[delivered.token].lasts
        if mine and longer > 0:
            text = f"{self.name} takes lease {delivered.token} to hold for {longer} ns longer than"
            self.ledger.wrong(f"{text} it was told", self.name)
        return mine

    def acked(self, token: int) -> dict[int, None]:
        """What of a lease nodes said is done."""
        return self._acked.get(token, {})

    def told_done(self, delivered: Delivered, done: Iterable[Interval]) -> None:
        """It is told that these are acknowledged (1)."""
        taken = self.acked(delivered.token)
        for where in places(done):
            if where not in taken:
                text = f"{self.name} is told that position {where} is done, and no node said so"
                self.ledger.wrong(text, self.name)


def places(intervals: Iterable[Interval]) -> tuple[int, ...]:
    """All positions of some intervals."""
    return tuple(where for one in intervals for where in one)


def pause(time: Duration) -> Rest:
    """A wait of a script."""
    return Rest(time / SECOND)
