"""A queue with order or limits by key, under all faults: what was put and got is judged.

Some put items of a few keys, take some, and acknowledge them or give them back, at once or for
later. When the load is over one of them takes the rest. What they saw is a history, of which the
checks of `check/by_key.py` say whether it may be. With it each item comes in the end. Then it puts
more, and takes those without other limits than fairness: by the weights that the queue was made
with, whatever happened since, and by one that is altered.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar, Final

import msgspec

from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.leases.steps import LeaseOptions, LeaseUpdate
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core.batch import Batch
from snowmelt.core.errors import NoSuchQueue
from snowmelt.core.instant import SECOND, Duration, Instant, seconds
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.api.statuses import QueueStatus
from snowmelt_world.check.by_key import (
    check_at_once,
    check_fair,
    check_in_order_by_key,
    check_per_second,
)
from snowmelt_world.check.history import Ended, History, Kind, Operation, Value
from snowmelt_world.check.verdict import Invalid, Verdict
from snowmelt_world.families.fifo_actors import Phase, Stage
from snowmelt_world.families.programs import FAILURES, pause
from snowmelt_world.families.queue import HURTS, QueueLife
from snowmelt_world.families.queue_deleted import BYTES, SECONDS, SHORT, User
from snowmelt_world.faults import ClockJump, ClockSkew
from snowmelt_world.judge.deleted import DeletedLedger
from snowmelt_world.world import Broken, World

EVEN: Final = {
    "in_order_by_key": False, "at_once_by_key": 0, "at_once": 0, "per_second_by_key": 0,
    "per_second": 0, "lease": 600,
}  # fmt: skip
"""So nothing but fairness says what comes next, and no lease ends."""
LOST_AFTER: Final = 8
"""So often it tries in vain before it gives up the queue: the node of its one copy may be gone."""
KEYS: Final = ("", "a", "b", "c")
MILLION: Final = 1_000_000


class KeyLedger(msgspec.Struct):
    """What was seen of one queue."""

    queue: str
    settings: QueueSettings
    keeps: bool
    """Whether no disk is lost or damaged."""
    leaps: bool
    """Whether clocks of nodes leap: then none says how long a lease or a second lasts."""
    second: int = SECOND
    """How long one lasts at least, by the clock of a node that goes too fast."""
    seen: list[Operation] = []
    turns: list[Operation] = []
    """What was seen when all else was over, and each call answered."""
    weights: dict[str, int] = {}
    """By which those were given."""
    drained: bool = False
    made: bool = False

    @property
    def calls(self) -> int:
        """How many were made."""
        return len(self.seen)

    @property
    def excused(self) -> dict[str, int]:
        """None is."""
        return {}

    @property
    def slowest(self) -> Duration:
        """How long all may take to come, where so many come in a second: some at a time, or one."""
        said = self.settings
        rates = [one for one in (said.per_second_each, said.per_second_by_key) if one]
        puts = sum([len(one.values) for one in self.seen if one.kind is Kind.PUT])
        return Duration(2 * SECOND * puts // min(rates) if rates else 0)

    def verdicts(self) -> list[Verdict]:
        """What the checks say."""
        history, said = History.of(self.seen), self.settings
        found = [check_fair(History.of(self.turns), self.weights)]
        if said.in_order_by_key:
            found.append(check_in_order_by_key(history))
        if self.leaps:
            return found
        if said.at_once:
            found.append(check_at_once(history, said.at_once, by_key=False))
        if said.at_once_by_key:
            found.append(check_at_once(history, said.at_once_by_key, by_key=True))
        if said.per_second:
            found.append(self._per_second(history, said.per_second, by_key=False))
        if said.per_second_by_key:
            found.append(self._per_second(history, said.per_second_by_key, by_key=True))
        return found

    def _per_second(self, history: History, most: int, *, by_key: bool) -> Verdict:
        return check_per_second(history, most, by_key=by_key, second=self.second)

    def judge(self) -> None:
        """Raises `Broken` for what may not be."""
        if not self.keeps:
            return
        for verdict in self.verdicts():
            if isinstance(verdict, Invalid):
                raise Broken(f"{self.queue}: {verdict}", self.queue)
        put = {value for one in self.seen if one.kind is Kind.PUT for value in _sure(one)}
        came = {value for one in self.seen if one.kind is Kind.GET for value in one.values}
        if self.drained and (lost := sorted(map(str, put - came))):
            raise Broken(f"{self.queue}: {lost[0]} never came", self.queue)


def _sure(one: Operation) -> tuple[Value, ...]:
    return one.values if one.ended is Ended.SUCCEEDED else ()


class Taken(msgspec.Struct, frozen=True):
    """What one get had."""

    values: list[str] = []
    delivered: LeasedItems | None = None


class KeyUser(User):
    """Puts and takes."""

    words: ClassVar[tuple[str, ...]] = ("put", "put", "get", "get", "get", "alter")

    def __init__(self, stage: Stage, name: str, chance: Random, ledger: KeyLedger) -> None:
        unused = DeletedLedger(ledger.queue, keeps=False, knows=False)
        super().__init__(stage, name, chance, unused, ledger.settings)
        self.keys = ledger
        producer = ProducerSequence(None, names=lambda: f"c{self.name}", chance=chance)
        self.steps = FifoSteps(ledger.queue, None, producer, chance)
        """They take the queue as it is: it is altered."""
        self._puts_made = 0
        self._notes = ledger.seen
        self._turns = Random(name)  # beside the other draws, which stay as they were

    def make(self) -> None:
        """The queue, before anybody uses it."""
        self.run(self._makes())

    def _makes(self) -> Steps[None]:
        steps = FifoSteps(self.keys.queue, self.keys.settings, self.steps.producer, self.chance)
        while not self.keys.made and self.stage.phase is Phase.LOAD:
            try:
                yield from steps.create(SHORT)
                self.keys.made = True
            except FAILURES:
                yield pause(self.some(seconds(1)))

    def _act(self) -> None:
        if self.stage.phase is not Phase.LOAD or not self.keys.made:
            return
        word = self.chance.choice(self.words)
        self.run(self.does(word))

    def does(self, word: str) -> Steps[None]:
        """One of the things that it does."""
        return {"put": self._puts_some, "get": self._takes_some, "alter": self._alters}[word]()

    def _note(self, kind: Kind, values: Sequence[Value], called: Instant, **more: Any) -> None:
        row = {"returned": self.now, **more}
        self._notes.append(
            msgspec.convert(
                {
                    "process": str(self.name),
                    "kind": kind,
                    "values": values,
                    "called": called,
                    **row,
                },
                Operation,
                from_attributes=True,
            )
        )

    def _puts_some(self) -> Steps[None]:
        count = self.chance.choice((1, 1, 2, 5))
        keys = [self.chance.choice(KEYS) for _ in range(count)]
        try:
            yield from self._puts_of(keys, self.chance.choice((0.0, 0.0, 0.0, 1.0)))
        except FAILURES:
            return

    def _puts_of(self, keys: list[str], delay: float) -> Steps[None]:
        """An item of each of these."""
        first, self._puts_made = self._puts_made, self._puts_made + len(keys)
        values = [f"{self.name}/{at}" for at in range(first, self._puts_made)]
        called, told = self.now, {"keys": tuple(keys)}
        try:
            (where,) = yield from self.steps.put_many(
                [one.encode() for one in values], None, delay, SECONDS, None,
                key=[one or None for one in keys],
            )  # fmt: skip
        except FAILURES:
            self._note(Kind.PUT, values, called, returned=None, ended=Ended.UNKNOWN, **told)
            raise
        self._note(Kind.PUT, values, called, positions=tuple(where), **told)

    def _alters(self) -> Steps[None]:
        """A new term of the same leader, with other leases."""
        try:
            yield from self.steps.alter({"lease": self.chance.choice((2, 3))}, SHORT)
        except FAILURES:
            return

    def _takes_some(self) -> Steps[None]:
        try:
            yield from self.take(self.chance.choice((1, 2, 9)), 0.6)
        except FAILURES:
            return

    def take(self, most: int, acks: float) -> Steps[bool]:
        """Some items; whether there were any."""
        wait = Wait(self.chance.choice((0.0, 0.5, 3.0)))
        taken = yield from self._leases(most, wait, together=self._turns.random() < 0.3)
        if taken is None or not taken.values:
            return taken is not None
        yield pause(self.some(seconds(1)))
        if self.chance.random() >= acks:
            yield from self._ends(taken, Kind.BACK, self.chance.choice((0.0, 1.0)))
        else:
            yield from self._ends(taken, Kind.ACK)
        return True

    def _leases(self, most: int, wait: Wait, *, together: bool) -> Steps["Taken | None"]:
        called, how = self.now, LeaseOptions(together=together)
        asks = self.steps.ask_lease(most, BYTES, wait, ahead=False, before=-1, how=how)
        answer = yield from asks
        if answer is None or not answer.leased.token:
            return None
        delivered = yield from self.steps.delivered(answer.leased, answer.asked, BYTES)
        if delivered is None:
            return Taken()
        places = [place for where in delivered.positions for place in where]
        bodies = values_of(delivered)
        values = [bodies[place] for place in places]
        about = {"positions": tuple(places), "token": delivered.token, "held": delivered.ends}
        self._note(Kind.GET, values, called, **about)
        return Taken(values, delivered)

    def _ends(self, taken: "Taken", kind: Kind, due: float = 0.0) -> Steps[None]:
        """They are acknowledged, or go back."""
        delivered, called = taken.delivered, self.now
        assert delivered is not None
        word = LeaseUpdate(delivered.token, done=delivered.positions)
        if kind is Kind.BACK:
            back = delivered.positions
            word = LeaseUpdate(delivered.token, back=back, delay=seconds(due), reason="no")
        values, token = taken.values, delivered.token
        try:
            _, refused = yield from self.steps.tell(delivered, word)
        except FAILURES:
            self._note(kind, values, called, token=token, returned=None, ended=Ended.UNKNOWN)
            raise
        ended = Ended.SUCCEEDED if refused is None else Ended.FAILED
        self._note(kind, values, called, token=token, ended=ended)

    def take_turns(self) -> Steps[None]:
        """Nothing is in the queue; what comes then comes in fair turns."""
        ledger, chance = self.keys, self._turns
        self._notes, held = ledger.turns, list[Taken]()
        own = chance.choice((1, 2, 4))
        ledger.weights = {key.decode(): one for key, one in ledger.settings.weights} | {"c": own}
        options: Any = EVEN | {"weights": {"c": own}}
        try:
            yield from self.steps.alter(options, SHORT)
            yield pause(seconds(2))  # in a leader's first second a rate lets nothing go
            yield from self._puts_of([chance.choice(KEYS) for _ in range(40)], 0.0)
            while True:
                if len(held) > chance.randrange(16):
                    one = held.pop(chance.randrange(len(held)))
                    yield from self._ends(one, chance.choice((Kind.ACK, Kind.ACK, Kind.BACK)))
                    continue
                taken = yield from self._leases(chance.choice((1, 1, 3)), Wait(0.0), together=False)
                if taken is not None and taken.values:
                    held.append(taken)
                elif not held:
                    return
                else:
                    yield from self._ends(held.pop(), Kind.ACK)
        except FAILURES:
            ledger.turns.clear()

    def is_empty(self, status: QueueStatus) -> bool:
        """Whether nothing comes any more."""
        return not (status.ready or status.leased or status.delayed or status.away)

    def close(self) -> Steps[None]:
        """Takes the rest."""
        vain = 0
        while vain < LOST_AFTER:
            try:
                while (yield from self.take(9, 1.0)):
                    pass
                status = yield from self.steps.stats(SHORT)
                if self.is_empty(status):
                    self.keys.drained = True
                    if self.keys.settings.weights:
                        yield from self.take_turns()
                    return
                vain += bool(status.away)  # a partition whose only copy may be gone
            except NoSuchQueue:
                return
            except FAILURES:
                vain += 1
            yield pause(seconds(1))


def values_of(delivered: LeasedItems) -> dict[int, str]:
    """By their positions."""
    return {
        part.start + at: bytes(body).decode()
        for part in delivered.parts
        for at, body in enumerate(Batch.known(part.offsets, part.blob))
    }


class KeyUsers:
    """All of a life."""

    user: ClassVar[type[KeyUser]] = KeyUser
    ledger: ClassVar[type[KeyLedger]] = KeyLedger

    def __init__(
        self, stage: Stage, queue: str, *, keeps: bool, leaps: bool, second: int = SECOND
    ) -> None:
        self._stage = stage
        self._queue = queue
        self._keeps, self._leaps, self._second = keeps, leaps, second
        self.ledgers: list[KeyLedger] = []
        self._over = False

    def settings(self, dice: Random, nodes: int) -> QueueSettings:
        """Of the queue."""
        return QueueSettings(
            replicas=dice.randint(1, nodes),
            lease=seconds(3),
            deliveries_max=1_000,
            in_order_by_key=dice.choice((0, 1)),
            at_once_by_key=dice.choice((0, 1, 2)),
            at_once=dice.choice((0, 3, 6)),
            per_second_by_key=dice.choice((0, 0, 1, 2)),
            per_second=dice.choice((0, 0, 3)),
            fair=1,
            weights=((b"a", 2), (b"b", 3)),
        )

    def add(self, world: World, dice: Random, nodes: int, end: Instant) -> None:
        """Who puts, and who takes."""
        settings = self.settings(dice, nodes)
        ledger = self.ledger(self._queue, settings, self._keeps, self._leaps, self._second)
        self.ledgers.append(ledger)
        users: list[KeyUser] = []
        for number in range(dice.randint(2, 4)):
            name = f"{self._queue}u{number}"
            users.append(self.user(self._stage, name, Random(dice.random()), ledger))
            if not number:
                world.at(Instant(dice.randrange(end // 8 + 1)), users[0].make)
            count = dice.choice((8, 20, 40))
            users[-1].begin(sorted([Instant(dice.randrange(end)) for _ in range(count)]))

        def close() -> None:
            if any(one.busy for one in users):
                world.at(Instant(world.now + seconds(1)), close)
            else:
                users[0].run(self._closes(users[0]))

        world.at(end, close)

    def _closes(self, one: KeyUser) -> Steps[None]:
        yield from one.close()
        self._over = True

    @property
    def unsettled(self) -> str:
        """What is not over yet."""
        return "" if self._over else f"what is in {self._queue} is not taken yet"

    def judge(self) -> None:
        """Raises `Broken` for what may not be."""
        for ledger in self.ledgers:
            ledger.judge()


class KeyLife(QueueLife):
    """A life of queues with one that gives its items by keys."""

    users: ClassVar[type[KeyUsers]] = KeyUsers
    leaps: ClassVar[tuple[type, ...]] = (ClockJump,)
    """By clocks that do this nobody can say how long something lasts."""

    def populate(self, world: World) -> None:
        super().populate(world)
        faults = self._scenario.faults
        hurt = any(isinstance(one, HURTS) for one in faults)
        leaps = any(isinstance(one, self.leaps) for one in faults)
        ahead = max([one.ppm for one in faults if isinstance(one, ClockSkew)], default=0)
        second = SECOND * MILLION // (MILLION + max(0, ahead))
        self._keys = self.users(self._stage, "k0", keeps=not hurt, leaps=leaps, second=second)
        nodes = len(self._scenario.nodes)
        self._keys.add(world, self._dice("keys"), nodes, self._scenario.faults_end)

    @property
    def bound(self) -> Duration:
        """By a rate what is in that queue takes its time."""
        return Duration(super().bound + max([one.slowest for one in self._keys.ledgers]))

    def unsettled(self, world: World) -> str:
        """At rest when what is in that queue was taken, too."""
        return super().unsettled(world) or ("" if self._over else self._keys.unsettled)

    def judge(self, world: World) -> None:
        super().judge(world)
        self._keys.judge()
