"""Names whose queues are deleted and made again, under load and all faults; what is left of them.

Some use each name by the shipped steps, through handles that they keep; they put, get, acknowledge,
and delete it. When the load is over the last queue is drained and deleted, and no disk has anything
of it in the end. What may not be seen is in `judge/deleted.py`.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from snowmelt.client.connection.steps import Query, Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.leases.steps import LeaseUpdate
from snowmelt.client.queue.deleting import delete
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core.batch import Batch
from snowmelt.core.errors import NoSuchQueue
from snowmelt.core.instant import SECOND, Instant, seconds
from snowmelt.core.outcome import Failed, Outcome, Succeeded
from snowmelt.protocols.calling import Ask
from snowmelt.protocols.queue.api import deletes
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt_world.families.fifo_actors import PATIENCE, Actor, Phase, Stage
from snowmelt_world.families.programs import FAILURES, pause
from snowmelt_world.families.shipped import Done, Run, answer_of, patience_of
from snowmelt_world.judge.deleted import DeletedLedger

SECONDS: Final = PATIENCE / SECOND
SHORT: Final = 5.0
BYTES: Final = 1 << 20
LOST_AFTER: Final = 4
"""So often who ends it all asks in vain before it gives up what is in the queue."""


class User(Actor):
    """Uses one name."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        chance: Random,
        ledger: DeletedLedger,
        settings: QueueSettings | None,
    ) -> None:
        super().__init__(stage, name, chance)
        self.ledger = ledger
        self.busy = 0
        self._settings = settings
        self._count = 0
        self._handle: FifoSteps | None = None

    def begin(self, times: list[Instant]) -> None:
        for at in times:
            self.stage.world.at(at, self._act)

    def query(self, step: Query, told: Done) -> None:
        """A call of the steps."""

        def then(outcome: Outcome[Any], _: Instant) -> None:
            told(answer_of(outcome))

        self.send(Ask(step.body, patience_of(step), step.target, step.weight), then)

    def run(self, script: Steps[Any]) -> None:
        """To its end."""
        self.busy += 1

        def over(told: Any) -> None:
            self.busy -= 1
            assert not isinstance(told, Exception), f"{self.name} ended with {told!r}"

        Run(self, script, over).go(None)

    def handle(self) -> FifoSteps:
        """The one it has; at times though its queue was deleted."""
        if self._handle is None or (self._handle.over and self.chance.random() < 0.7):
            self._count += 1
            name = f"c{self.name}-{self._count}"
            producer = ProducerSequence(None, names=lambda: name, chance=self.chance)
            self._handle = FifoSteps(self.ledger.queue, self._settings, producer, self.chance)
        return self._handle

    def _act(self) -> None:
        if self.stage.phase is not Phase.LOAD:
            return
        match self.chance.choice(("put",) * 5 + ("get",) * 4 + ("delete",)):
            case "put":
                self.run(self._puts())
            case "get":
                self.run(self._gets())
            case _:
                lost = self.chance.random() < 0.3
                self.delete(if_empty=self.chance.random() < 0.2, lost=lost)

    # --- what it does -----------------------------------------------------------------------------

    def _puts(self) -> Steps[None]:
        self._count += 1
        value, steps, called = f"{self.name}/{self._count}", self.handle(), self.now
        self.ledger.asked(value)
        body = value.encode() + b"." * self.chance.choice((0, 0, 200))
        try:
            yield from steps.put_many([body], None, 0.0, SECONDS, None)
        except FAILURES:
            return
        self.ledger.done(steps.since, called, self.now)
        self.ledger.put(value, steps.since)

    def _gets(self, most: int = 5, acks: float = 0.8) -> Steps[None]:
        steps, called = self.handle(), self.now
        wait = Wait(self.chance.choice((0.0, 0.5, 3.0)))
        try:
            answer = yield from steps.ask_lease(most, BYTES, wait, ahead=False, before=-1)
            if answer is None or not answer.leased.token:
                return
            since, leased = steps.since, answer.leased
            delivered = yield from steps.delivered(leased, answer.asked, BYTES)
            if delivered is None:
                return
            values = _values(delivered)
            self.ledger.done(since, called, self.now)
            self.ledger.got(values, since, leased.token, called)
            yield pause(self.some(seconds(1)))
            if self.chance.random() < acks:
                yield from self._ack(steps, delivered, values)
        except FAILURES:
            return

    def _ack(self, steps: FifoSteps, delivered: LeasedItems, values: list[str]) -> Steps[None]:
        called, since = self.now, steps.since
        self.ledger.acking(values)
        word = LeaseUpdate(delivered.token, done=delivered.positions)
        _, refused = yield from steps.tell(delivered, word)
        if refused is None:
            self.ledger.done(since, called, self.now)
            self.ledger.acked(values, self.now)

    def delete(self, *, if_empty: bool, lost: bool) -> None:
        """Asks for it once."""
        called = self.now
        if self.ledger.partitions > 1:
            self.run(self.deletes(if_empty=if_empty, lost=lost))
            return

        def told(outcome: Outcome[Any], at: Instant) -> None:
            if isinstance(outcome, Succeeded):
                self.ledger.deleted(called, at)

        self.ask(deletes.Delete(self.ledger.queue, if_empty, lost), told)

    def deletes(self, *, if_empty: bool, lost: bool) -> Steps[bool]:
        """One of several partitions; whether there is none any more."""
        called = self.now
        try:
            yield from delete(self.ledger.queue, if_empty, lost, SECONDS)
        except NoSuchQueue:
            return True
        except FAILURES:
            self.ledger.tried(self.now)
            return False
        self.ledger.deleted(called, self.now)
        return True


class Closer(User):
    """Brings the last queue of a name to its end."""

    gone = False

    def close(self, users: list[User]) -> Steps[None]:
        """Drains it when nobody uses it any more, and deletes it."""
        vain = 0
        while vain < LOST_AFTER:
            yield pause(seconds(1))
            if any(one.busy for one in users):
                continue
            self._handle = None
            steps = self.handle()
            try:
                status = yield from steps.stats(SHORT)
            except NoSuchQueue:
                break
            except FAILURES:
                vain += 1
                continue
            if not deletes.counted(status).items:
                self.ledger.drained(steps.since)
                break
            yield from self._gets(100, 1.0)
        while True:  # a put of before may make one more
            if self.ledger.partitions > 1:
                self.gone = yield from self.deletes(if_empty=False, lost=True)
            else:
                self.ask(deletes.Delete(self.ledger.queue, lost=True), self._ended)
            yield pause(seconds(3))

    def _ended(self, outcome: Outcome[Any], _: Instant) -> None:
        there_is_none = isinstance(outcome, Failed) and "NoSuchQueue" in outcome.reason
        self.gone = there_is_none or isinstance(outcome, Succeeded)


class Names:
    """All of a life."""

    def __init__(self, stage: Stage, ledgers: list[DeletedLedger]) -> None:
        self._stage = stage
        self.ledgers = ledgers
        self._closers: list[Closer] = []

    def add(self, ledger: DeletedLedger, dice: Random, nodes: int, end: Instant) -> None:
        """Those who use one name."""
        made = QueueSettings(replicas=dice.randint(1, nodes), lease=seconds(3))
        made = replace(made, partitions=ledger.partitions)
        users = []
        for number in range(3):
            name, settings = f"{ledger.queue}u{number}", made if number else None
            user = User(self._stage, name, Random(dice.random()), ledger, settings)
            times = [Instant(dice.randrange(end)) for _ in range(dice.choice((8, 20, 40)))]
            user.begin(sorted(times))
            users.append(user)
        closer = Closer(self._stage, f"{ledger.queue}x", Random(dice.random()), ledger, None)
        self._closers.append(closer)
        self._stage.world.at(end, lambda: closer.run(closer.close(users)))

    def unsettled(self, left: Callable[[str], Iterable[str]]) -> str:
        """What is not over yet; `left` tells which node has something of a queue."""
        for closer in self._closers:
            queue = closer.ledger.queue
            if not closer.gone:
                return f"{queue} is not deleted yet"
            for node in left(queue):
                return f"{node} still has something of {queue}, which was deleted"
        return ""


def _values(delivered: LeasedItems) -> list[str]:
    return [
        bytes(body).rstrip(b".").decode()
        for part in delivered.parts
        for body in Batch(part.offsets, part.blob)
    ]
