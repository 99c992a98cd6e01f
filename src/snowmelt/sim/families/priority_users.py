"""Those who put into the priority queues of a simulated world and get from them.

A producer asks again under the same number until it is told; and at times once more, as if it had
not been heard. A consumer leases, and does what people do: acknowledges all or a part, gives back,
asks for more time, comes late, or is never heard of again.
"""

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any, Final, Protocol

import msgspec

from snowmelt.check.history import Ended
from snowmelt.core.instant import Duration, Instant, milliseconds, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.outcome import Failed, Outcome, Succeeded
from snowmelt.protocols.calling import Ask
from snowmelt.protocols.priority import calls
from snowmelt.sim.families.fifo_actors import PATIENCE, PAUSE, Actor, Phase, Stage, Then
from snowmelt.sim.families.membership import address
from snowmelt.sim.families.priority_ledger import (
    Asked,
    Got,
    Ledger,
    Selection,
    Stand,
    receipts_of,
)
from snowmelt.sim.families.priority_load import Load, priority_of

DELAY: Final = seconds(4)
EMPTY: Final = 4
REASON: Final = "it failed"
MANY: Final = 100
"""With so many deliveries nothing dies."""
WEIGHT: Final = 16 << 20
LIGHT: Final = 90
"""What a get can carry: more than there is, or a few elements."""


class At(msgspec.Struct, frozen=True):
    """A node that is asked first."""

    address: Address


class User(Actor):
    """Somebody with one queue, which is opened first."""

    def __init__(self, stage: Stage, name: str, chance: Random, ledger: Ledger, load: Load) -> None:
        super().__init__(stage, name, chance)
        self.ledger = ledger
        self.load = load
        self.via = calls.Via(NodeId(""), 0)

    @property
    def queue(self) -> str:
        """Which queue."""
        return self.ledger.queue

    def open(self, then: Then) -> None:
        """Until it is open."""

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.Opened() as opened):
                    if opened.settings != self.ledger.settings:
                        self.ledger.wrong(f"it has {opened.settings}", self.name)
                    self.via = opened.via
                    then(outcome, at)
                case _:
                    self.after(PAUSE, partial(self.open, then))

        self.ask(calls.Open(self.queue, self.ledger.settings), told)

    def call(self, body: Any, then: Then, patience: Duration = PATIENCE) -> int:
        """Calls the node of `via`, mostly; its number."""
        called = self.now

        def told(outcome: Outcome[Any], at: Instant) -> None:
            self.ledger.calls.append((called, at))
            then(outcome, at)

        far = self.chance.random() < 0.1
        self.ask(body, told, patience, None if far else At(address(self.via.node)))
        return self.last_number

    def call_again(self, number: int, body: Any, then: Then, patience: Duration) -> None:
        """The same once more, under its number."""
        self._open[number] = body, then
        operation = OperationId(self.name, number)
        self.stage.world.request(self.name, operation, Ask(body, patience))

    def asked_once(self, number: int) -> bool:
        """Whether no node can have heard it twice."""
        return self.times_sent(number) <= 1 and not self.stage.duplicates


class Unfinished(Protocol):
    """Whoever may put still."""

    unfinished: dict[int, None]
    ledger: Ledger


class Timed(User):
    """Begins something at times drawn before, while there is load."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        chance: Random,
        ledger: Ledger,
        load: Load,
        times: list[Instant],
    ) -> None:
        super().__init__(stage, name, chance, ledger, load)
        self._times = times
        self._count = 0
        self.unfinished: dict[int, None] = {}

    def begin(self) -> None:
        """Opens, and works from then on."""

        def opened(outcome: Outcome[Any], _: Instant) -> None:
            del outcome
            for at in self._times:
                self.stage.world.at(max(at, self.now), self._begin)

        self.open(opened)

    def work(self, number: int) -> None:
        """What is begun."""
        raise NotImplementedError

    def _begin(self) -> None:
        if self.stage.phase is Phase.LOAD:
            self._count += 1
            self.unfinished[self._count] = None
            self.work(self._count)


class Producer(Timed):
    """Puts."""

    delays = True

    def work(self, number: int) -> None:
        """Through the door that it has, or through another."""
        if self.chance.random() < 0.3:
            self.open(partial(self._put, number))
        else:
            self._put(number)

    def _put(self, count: int, *_: Any) -> None:
        chance, settings = self.chance, self.ledger.settings
        most = min(self.load.items, settings.items_max or self.load.items)
        size = chance.choice((1, 1, 2, chance.randint(1, most)))
        size = min(size, most)
        values = [f"{self.name}/{count}/{index}" for index in range(size)]
        parts: list[tuple[int, tuple[str, ...]]] = []
        while values:
            some = chance.randint(1, len(values))
            parts.append((priority_of(chance, settings), tuple(values[:some])))
            values = values[some:]
        headers = b""
        if chance.random() < 0.3:
            headers = msgspec.msgpack.encode({"from": f"{self.name}/{count // 3}"})
        delayed = chance.random() < 0.12 and self.delays
        delay = self.some(DELAY) if delayed else Duration(0)
        put = Asked(
            self.name, tuple(parts), headers, delay, self.now, keyed=self.ledger.settings.keyed
        )
        self.ledger.asked(put)
        patience = self.some(self.load.patience) if chance.random() < 0.5 else Duration(0)
        call = put.call(calls.Put(self.queue, self.via, (), patience=patience))
        number = self.call(call, lambda *_: None, Duration(PATIENCE + patience))
        self._open[number] = call, partial(self._told, put, call, number, count)

    def _told(
        self,
        put: Asked,
        call: calls.Put,
        number: int,
        count: int,
        outcome: Outcome[Any],
        at: Instant,
    ) -> None:
        self.ledger.calls.append((put.called, at))
        told = partial(self._told, put, call, number, count)
        match outcome:
            case Succeeded(calls.PutDone() as done):
                self.ledger.done(put, done, at)
                again = self.chance.random() < self.load.again
                if again and self.stage.phase is Phase.LOAD:
                    self.call_again(number, call, told, PATIENCE)
                    return
            case Failed(reason) if put.ended is not Ended.SUCCEEDED:
                definite = not reason.startswith(("Unavailable", "DiskFull"))
                if definite or self.asked_once(number):
                    self.ledger.refused(put, reason, at)
                elif not reason.startswith("Unavailable: queue") or self.stage.phase is Phase.LOAD:
                    self.after(self.some(seconds(1)), partial(self._again, number, call, told))
                    return
            case Failed():
                pass
            case _:
                if self.stage.phase is Phase.LOAD or self.chance.random() < 0.5:
                    self.after(self.some(seconds(1)), partial(self._again, number, call, told))
                    return
        self.unfinished.pop(count, None)

    def _again(self, number: int, call: calls.Put, told: Then) -> None:
        self.call_again(number, call, told, PATIENCE)


class Consumer(User):
    """Leases, works, and says what became of it."""

    delays = True

    def begin(self) -> None:
        """Opens, and gets from then on."""
        self.open(lambda *_: self._get())

    def _get(self, settle: calls.Settle | None = None, then: Then | None = None) -> None:
        phase = self.stage.phase
        if settle is None and phase is Phase.REST:
            self.after(PAUSE, self._get)
            return
        if self.ledger.drained is not None and settle is None:
            return
        chance = self.chance
        if settle is None and chance.random() < 0.1:
            self.open(lambda *_: self._ask_for(None, None))
            return
        self._ask_for(settle, then)

    def _ask_for(self, settle: calls.Settle | None, then: Then | None) -> None:
        chance, called = self.chance, self.now
        patience = self.some(self.load.patience) if chance.random() < 0.7 else Duration(0)
        most = chance.choice((1, 1, 2, 5, 20))
        light = self.load.light and self.last_number % 3 == 0
        get = calls.Get(self.queue, self.via, most, patience, settle, LIGHT if light else WEIGHT)

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.Leased() as leased):
                    if then is not None:
                        then(Succeeded(calls.Settled(leased.lost)), at)
                    got = self.ledger.leased(self.name, called, most, leased, at)
                    if got is None:
                        self.after(PAUSE, self._get)
                    else:
                        got.over = max(got.over, most - len(got.values) if light else 0)
                        self._decide(got)
                case _:
                    self.ledger.lose(self.name, called, at, outcome, light)
                    if then is not None:
                        then(outcome, at)
                    self.after(PAUSE, self._get)

        self.call(get, told, Duration(PATIENCE + patience))

    # --- what becomes of it -----------------------------------------------------------------------

    def _decide(self, got: Got) -> None:
        chance, lease = self.chance, self.ledger.settings.lease
        if self.stage.phase is not Phase.LOAD:
            self._end(got, share=1.0)
            return
        way = chance.random()
        if way < 0.08:  # it dies, and another begins in its place
            self.after(self.some(lease), self._get)
        elif way < 0.16:
            self._renew(got)
        elif way < 0.16 + self.load.late:  # it takes too long, perhaps
            self.after(self.some(Duration(2 * lease)), partial(self._end, got, share=1.0))
        else:
            share = 1.0 if way < 0.7 else chance.choice((0.0, 0.3, 0.6))
            self.after(self.some(self.load.work), partial(self._end, got, share=share))

    def _renew(self, got: Got) -> None:
        called = self.now
        receipt = got.receipt(list(range(len(got.values))))

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.Settled(lost)):
                    if lost:
                        self.ledger.refused_lease(got, at, called)
                    else:
                        self.ledger.renewed(got, called)
            self.after(self.some(self.ledger.settings.lease), partial(self._end, got, share=1.0))

        self.call(calls.Settle(self.queue, renew=(receipt,)), told)

    def _end(self, got: Got, *, share: float) -> None:
        """Acknowledges this share of it, and gives back the rest, or leaves it."""
        chance, load = self.chance, self.stage.phase is Phase.LOAD
        everything = list(range(len(got.values)))
        if chance.random() < 0.3:
            chance.shuffle(everything)
        cut = round(share * len(everything))
        done, rest = sorted(everything[:cut]), sorted(everything[cut:])
        if load and chance.random() < 0.2:
            rest = rest[: len(rest) // 2]
        failed = load and chance.random() < 0.6
        delayed = load and chance.random() < 0.3 and self.delays
        settle = calls.Settle(
            self.queue,
            done=(got.receipt(done),) if done else (),
            back=(got.receipt(rest),) if rest else (),
            delay=self.some(seconds(3)) if delayed else Duration(0),
            reason=REASON if failed else "",
        )
        told = partial(self._settled, got, done, rest, self.now, delayed=delayed)
        if chance.random() < 0.5 and self.stage.phase is not Phase.REST:
            self._get(settle, told)
            return

        def alone(outcome: Outcome[Any], at: Instant) -> None:
            told(outcome, at)
            self._get()

        self.call(settle, alone)

    def _settled(
        self,
        got: Got,
        done: list[int],
        rest: list[int],
        called: Instant,
        outcome: Outcome[Any],
        at: Instant,
        *,
        delayed: bool,
    ) -> None:
        number = self.last_number
        match outcome:
            case Succeeded(calls.Settled(lost)):
                refused = receipts_of(lost, got)
                if any(index in refused for index in done) and self.asked_once(number):
                    self.ledger.refused_lease(got, at, called)
                known = [index for index in done if index not in refused]
                self.ledger.acked(got, known, called, at, Ended.SUCCEEDED)
                unknown = [index for index in done if index in refused]
                self.ledger.acked(got, unknown, called, at, Ended.UNKNOWN)
                self.ledger.given_back(got, rest, called, at, Ended.SUCCEEDED)
                dies = self.ledger.settings.deliveries_max < MANY
                if not (delayed or dies) and self.asked_once(number):
                    free = [got.values[index] for index in rest if index not in refused]
                    self.ledger.freed.extend([(value, got, at) for value in free])
            case Failed(reason) if self.asked_once(number) and "Unavailable" not in reason:
                self.ledger.wrong(f"{self.name} may not settle: {reason}", self.name)
            case _:
                self.ledger.acked(got, done, called, at, Ended.UNKNOWN)
                self.ledger.given_back(got, rest, called, at, Ended.UNKNOWN)
        got.settled = True


class Looker(User):
    """Looks at one queue, and brings back or purges what it may."""

    def begin(self, times: list[Instant]) -> None:
        """Opens, and looks in at these times."""

        def opened(outcome: Outcome[Any], _: Instant) -> None:
            del outcome
            for at in times:
                self.stage.world.at(max(at, self.now), self._look)

        self.open(opened)

    def _look(self) -> None:
        load = self.stage.phase is Phase.LOAD
        ways = ["peek", "peek dead", "statistics"]
        ways += ["select", "select"] if self.ledger.settings.keyed else []
        if load:
            ways += ["redrive"] + (["purge"] if self.load.purges else [])
        match self.chance.choice(ways):
            case "peek":
                self._peek(dead=False)
            case "peek dead":
                self._peek(dead=True)
            case "redrive":
                self.redrive()
            case "select":
                self._select()
            case "purge":
                self._purge(dead=self.chance.random() < 0.3)
            case _:
                self._count()

    def _count(self) -> None:
        called = self.now

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.Status() as status):
                    self.ledger.stands.append(Stand(self.name, called, at, _total(status)))

        self.call(calls.Statistics(self.queue), told)

    def _select(self) -> None:
        called, chance = self.now, self.chance
        rank = chance.choice((0, 1, 1, 2, 5, 20))
        share = None if rank else chance.choice((0.0, 0.3, 0.5, 1.0))

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.Peeked(pieces)):
                    ledger = self.ledger
                    ledger.looked(self.name, called, pieces, at, dead=False)
                    shown = [value for piece in pieces for value, _ in ledger.shown(piece, at)]
                    one = Selection(self.name, called, at, rank, share, *shown)
                    ledger.selections.append(one)

        self.call(calls.Select(self.queue, rank, share), told)

    def _peek(self, *, dead: bool) -> None:
        called = self.now

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.Peeked(pieces)):
                    self.ledger.looked(self.name, called, pieces, at, dead=dead)

        self.call(calls.Peek(self.queue, self.chance.choice((1, 5, 50)), dead), told)

    def redrive(self) -> None:
        """The dead come back, as if they had never failed."""
        self.ledger.redriving(self.now)
        self.call(calls.Redrive(self.queue, self.via), _heard)

    def _purge(self, *, dead: bool) -> None:
        called, index = self.now, len(self.ledger.purged)
        self.ledger.purged.append((called, None, None))

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.Counted(count)) if self.asked_once(number):
                    self.ledger.purged[index] = called, at, count
                case Failed() if self.asked_once(number):
                    self.ledger.purged[index] = called, at, 0
                case _:
                    pass

        number = self.call(calls.Purge(self.queue, self.via, dead), told)


class Steward(Looker):
    """When the load is over, sees to it that the queue is drained."""

    producers: Sequence["Unfinished"] = ()
    _empty = 0
    """How often in a row nothing was there: what is on its way to a consumer is not counted."""

    def rest(self) -> None:
        """The load is over."""
        self.stage.phase = Phase.DRAIN
        self.open(lambda *_: self._watch())

    def _watch(self) -> None:
        called = self.now

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.Status() as status):
                    self._saw(status, called, at)
            if self.ledger.drained is None:
                self.after(milliseconds(700), self._watch)

        self.call(calls.Statistics(self.queue), told, seconds(5))

    def _saw(self, status: calls.Status, called: Instant, at: Instant) -> None:
        left = _total(status) - status.dead - status.staged
        self.ledger.stands.append(Stand(self.name, called, at, _total(status)))
        putting = any(one.unfinished for one in self.producers if one.ledger is self.ledger)
        away = not self.ledger.excuses.whole(called)  # with what waits for it
        self._empty = 0 if status.dead or left or putting or away else self._empty + 1
        if status.dead:
            self.redrive()
        elif self._empty == EMPTY:
            self.ledger.drained = called


def _total(status: calls.Status) -> int:
    ready = sum(some.count for some in status.ready)
    return ready + status.leased + status.held + status.dead + status.staged


def _heard(outcome: Outcome[Any], at: Instant) -> None:
    """An answer that says nothing to be judged."""
    del outcome, at
