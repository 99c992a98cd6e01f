"""Processes that use one fifo through the steps that ship (`client.fifo.steps`); see `programs.py`.

The ledger hears what was asked of the nodes and what they said, at the moment they said it.
"""

from random import Random
from typing import Any

from msgspec.structs import replace

from snowmelt.client.fifo.steps import DAMAGED, FifoSteps
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core.instant import Duration, Instant
from snowmelt.core.names import OperationId
from snowmelt.core.node import Announced
from snowmelt.core.outcome import Failed, Outcome, Succeeded, Unknown
from snowmelt.protocols.calling import Abandoned, Ask
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.wire.greeting import CLIENT_PREFIX
from snowmelt_world.check.history import Ended
from snowmelt_world.families import programs
from snowmelt_world.families.fifo_actors import Stage, Then
from snowmelt_world.families.fifo_words import Ledger, numbers, put_of
from snowmelt_world.families.programs import places
from snowmelt_world.families.queue_ranked import steps_for
from snowmelt_world.families.shipped import Run
from snowmelt_world.judge.positions import Held, judge_damage
from snowmelt_world.judge.values import LeftGet


class Program(programs.Program):
    ledger: Ledger
    held: dict[int, Held]
    steps: FifoSteps

    def __init__(self, stage: Stage, name: str, chance: Random, ledger: Ledger) -> None:
        self.ledger = ledger
        self.master: calls.NodeAddress | None = None
        self.held = {}
        self._names = 0
        self._leaves = Random(name)
        """Which gets it leaves."""
        self._left: set[int] = set()
        """Those it has left, by their numbers."""
        super().__init__(stage, name, chance)

    # --- its process ------------------------------------------------------------------------------

    def opened(self) -> FifoSteps:
        cast = self.queue, self.asked_for, self.producer(), self.chance
        return steps_for(self.ledger.settings, *cast)

    @property
    def asked_for(self) -> QueueSettings | None:
        """With which settings it opens its queue: with none, once they were altered."""
        if self.ledger.settings.grows:
            return replace(self.ledger.settings, replicas=0)
        return None if self.ledger.agreed.is_altered else self.ledger.settings

    def producer(self) -> ProducerSequence:
        return ProducerSequence(None, names=self.new_name, chance=self.chance)

    def new_name(self) -> str:
        self._names += 1
        return f"{CLIENT_PREFIX}{self.name}-{self._names}"

    def interrupted(self, run: Run) -> None:
        """It leaves some of the gets that it waits for, as cancelled tasks do."""
        gets = [number for number, (body, _) in self._open.items() if type(body) is calls.Get]
        run.interrupt()
        if self._leaves.random() < 0.5:
            for number in gets:
                self._leave(number)

    def _leave(self, number: int) -> None:
        _, then = self._open.pop(number)
        self._left.add(number)
        get = OperationId(self.name, number)
        self.stage.world.give(self.name, Announced(Abandoned(get)))
        then(Unknown("it was left"), self.now)
        left = LeftGet(Instant(self.ledger.lost_gets[-1].called))
        self.ledger.left_gets.append(left)
        self.ask(calls.CancelGet(self.queue, number), left.ends)

    def answered(self, operation: OperationId, outcome: Outcome[Any], at: Instant) -> None:
        """Where it stands still, its machine may answer before it hears that a get was left."""
        if operation.number not in self._left:
            super().answered(operation, outcome, at)

    # --- what goes over the wire ------------------------------------------------------------------

    def send(self, ask: Ask[Any], then: Then) -> None:
        """As any actor; the ledger counts the calls of its queue."""
        called = self.now
        puts = isinstance(ask.body, calls.Put | calls.PublishStaged)

        def told(outcome: Outcome[Any], at: Instant) -> None:
            self.ledger.called.append((called, at, puts))
            then(outcome, at)

        super().send(ask, told)

    def describe(self) -> None:
        called = self.now

        def told(outcome: Outcome[Any], _: Instant) -> None:
            match outcome:
                case Succeeded(calls.QueueStatus() as status):
                    self.ledger.looks.described(numbers(status), called, self.said)

        self.ask(calls.Describe(self.queue), told)

    def asks(self, body: Any) -> None:
        match body:
            case calls.Put(hold=0):
                put = put_of(self.ledger, body)
                if not put.sent:
                    put.called, put.sent = self.now, True
                    put.due = Instant(self.now - body.due if body.due else 0)
            case calls.Get(settle=calls.Settle() as settle) | (calls.Settle() as settle):
                held = self.held[settle.token]
                self.ledger.doomed |= settle.dead and bool(settle.reason)
                self.ledger.giving_back(held, places(settle.back))
                self.ledger.acking(held, places(settle.done))
            case _:
                pass

    def hears(self, body: Any, called: Instant, outcome: Outcome[Any], at: Instant) -> None:
        match body, outcome:
            case calls.Open(), Succeeded(calls.Opened() as opened):
                self.master = opened.master
            case calls.Open(), Failed(reason) if "QueueExists" in reason:
                if not self.ledger.agreed.is_altered:
                    self.ledger.wrong(f"{self.name} is told {reason}", self.name)
                self.steps = self.opened()  # whoever reads it leaves them out
            case calls.Put(hold=0), Succeeded(calls.PutDone() as done):
                self.ledger.done(put_of(self.ledger, body), done, at)
            case calls.Get(settle=settle), Succeeded(calls.Leased() as leased):
                if settle is not None:
                    refused = leased.refused
                    said = Failed(f"LeaseLost: {refused}") if refused else outcome
                    self._settled(settle, called, said, at)
                held = self.ledger.got(self.name, called, leased, at, self.said)
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
        if isinstance(outcome, Succeeded) and (gone := places(getattr(outcome.value, "lost", ()))):
            self.ledger.lease_lost(held, at, gone)
            self.ledger.settled(held, gone, called, at, Ended.UNKNOWN)
            done = tuple([one for one in done if one not in gone])
        if isinstance(outcome, Failed) and outcome.reason.startswith("LeaseLost"):
            self.ledger.lease_lost(held, at, (*done, *places(settle.back)))
        if taken:
            self.takes(held.token, done)
        if taken and settle.reason == DAMAGED:
            judge_damage(self.ledger, held, places(settle.back))
        if taken and settle.back and not (settle.due or settle.reason):
            self.ledger.given_back(held, places(settle.back), called, at)
        if isinstance(outcome, Succeeded) and settle.extend:
            longest = self.ledger.agreed.longest_lease(called, at)
            lease = Duration(getattr(outcome.value, "lease", 0) or longest)
            self.ledger.extended(held, called, lease)
        if done or settle.back:
            ended = Ended.SUCCEEDED if taken else Ended.UNKNOWN
            self.ledger.settled(held, done, called, at, ended)

    # --- what a person is told --------------------------------------------------------------------

    def got(self, delivered: LeasedItems) -> None:
        held = self.held[delivered.token]
        for part in delivered.parts:
            self.ledger.read(part, self.now, held)
        self.handed(delivered, held.positions)
        self.believes(delivered)
