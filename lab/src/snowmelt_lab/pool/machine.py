"""The pool's own machines in a calm world, where nothing is lost and nobody fails.

A producer's program is the paper's: it waits until there is room (`AwaitRoom`), makes an object,
which takes its time, and puts it. A consumer's asks (`PoolGet`), uses what it got, which takes its
time, and asks again. What machines say to each other is on its way for a time with an exponential
distribution, so one message may overtake another. Everything else takes no time.
"""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from random import Random
from time import perf_counter
from typing import Any, Final

from snowmelt.core.batch import Batch
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.node import (
    Announce,
    CancelTimer,
    Event,
    Expired,
    Note,
    Received,
    Reply,
    Send,
    SetTimer,
    Started,
)
from snowmelt.protocols.pool.calls import (
    AwaitRoom,
    Got,
    HasRoom,
    PeerStatistics,
    PoolGet,
    PoolPut,
    PoolReceipt,
)
from snowmelt_lab.pool.cast import NEWS_EVERY, Process, cast
from snowmelt_lab.pool.measures import TICK, Measured, Tally
from snowmelt_lab.pool.options import PoolOptions, Times

FOR_EVER: Final = Duration(1 << 62)
BODY: Final = Batch.of([b"an object"])
SLICES: Final = 100
"""An experiment is run in so many parts, to show how far it has come."""

Carry = Callable[[Process, Any], None]
Draw = Callable[[float], float]


class World:
    """A pool that runs until so many objects are consumed.

    >>> world = World(PoolOptions(producers=4, consumers=4))
    >>> world.consume(100)
    >>> len(world.tally.waits)
    100
    """

    def __init__(self, options: PoolOptions, *, checked: bool = False) -> None:
        """With `checked`, a machine's invariants are asserted after each of its steps."""
        self._chance = Random(f"{options.seed}/world")
        self._transit = options.transit * TICK
        self._produces = spent(options.times, self._chance)
        self._consumes = spent(options.consume_times, self._chance)
        self._checked = checked
        self._cast = cast(options)
        everybody = [*self._cast.producers, *self._cast.consumers, *self._cast.brokers]
        self._by_name = {one.name: one for one in everybody}
        self._heap: list[tuple[Instant, int, Process, Event[Any]]] = []
        self._order = 0
        self.now = Instant(0)
        self.tally = self._tally(0)
        self._carry: dict[type, Carry] = {
            Send: self._send,
            Reply: self._reply,
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            Announce: _nothing,
            Note: _nothing,
        }
        self._answered: dict[type, Carry] = {
            HasRoom: self._make,
            PoolReceipt: self._kept,
            Got: self._use,
            PeerStatistics: _nothing,
        }
        self._news_at = self.now
        self.pace(options.rates)
        for one in self._cast.consumers:
            one.mean = TICK / options.consume_rate
        self._begin(everybody)

    # --- from outside -----------------------------------------------------------------------------

    def pace(self, rates: list[float]) -> None:
        """From now on each producer makes so many objects a tick."""
        for one, rate in zip(self._cast.producers, rates, strict=True):
            one.mean = TICK / rate

    def consume(self, objects: int) -> None:
        waits = self.tally.waits
        target = len(waits) + objects
        heap, probe, takes, checked = self._heap, self._cast.probe, self._cast.takes, self._checked
        while len(waits) < target:
            if heap[0][0] >= self._news_at:
                self._tell_news()
            at, _, process, event = heappop(heap)
            self.now = at
            if isinstance(event, Expired) and not self._is_due(process, event):
                continue
            effects = process.handle(event, at)
            if isinstance(event, Received):
                kind = type(event.message)
                if kind is probe:
                    self._probed(effects, probe)
                if kind is takes:
                    self._taken(process, effects, kind)
            for effect in effects:
                self._carry[type(effect)](process, effect)
            if checked:
                process.check()

    def measure_anew(self) -> None:
        self.tally = self._tally(self.tally.producers_held_up)

    def measured(self, seconds: float = 0.0) -> Measured:
        if self._cast.takes is not None:
            for one in self._cast.producers:
                self.tally.had(one.name, one.stock, self.now)
        return self.tally.measured(self.now, self._cast.settling, seconds)

    def _tally(self, held_up: int) -> Tally:
        return Tally(self.now, held_up, len(self._cast.producers), len(self._cast.consumers))

    # --- programs ---------------------------------------------------------------------------------

    def _begin(self, everybody: list[Process]) -> None:
        for one in everybody:
            self._at(self.now, one, Started())
        for consumer, fact in self._cast.news(self.now):
            self._at(self.now, consumer, fact)
        self._news_at = later(self.now, NEWS_EVERY)
        for one in self._cast.producers:
            self._await_room(one, None)
        for one in self._cast.consumers:
            self._get(one, self.now)

    def _await_room(self, process: Process, _: Any) -> None:
        process.asked_at = self.now
        self.tally.held_up(1, self.now)
        self._at(self.now, process, process.call(AwaitRoom(FOR_EVER)))

    def _make(self, process: Process, _: Any) -> None:
        self.tally.held_up(-1, self.now)
        put = PoolPut(bytes(BODY.offsets), bytes(BODY.blob), FOR_EVER)
        done = Instant(self.now + round(self._produces(process.mean)))
        self._at(done, process, process.call(put))

    def _kept(self, process: Process, kept: PoolReceipt) -> None:
        if self._cast.takes is not None:
            self._stocked(process, 1)
        self._await_room(process, kept)

    def _get(self, process: Process, at: Instant) -> None:
        process.asked_at = at
        self._at(at, process, process.call(PoolGet(1, 1 << 40, FOR_EVER)))

    def _use(self, process: Process, got: Got) -> None:
        tally = self.tally
        tally.waits.append(self.now - process.asked_at)
        tally.hops += got.hops
        uses = round(self._consumes(process.mean))
        tally.used += uses
        self._get(process, Instant(self.now + uses))

    def _taken(self, process: Process, effects: list[Any], kind: type) -> None:
        if not any(type(one) is Send and type(one.message) is kind for one in effects):
            self._stocked(process, -1)

    def _stocked(self, process: Process, change: int) -> None:
        self.tally.had(process.name, process.stock, self.now)
        process.stock += change

    # --- what machines ask for --------------------------------------------------------------------

    def _at(self, at: Instant, process: Process, event: Event[Any]) -> None:
        self._order += 1
        heappush(self._heap, (at, self._order, process, event))

    def _send(self, process: Process, effect: Send[Any]) -> None:
        message = effect.message
        self.tally.sent[type(message)] += 1
        way = self._chance.expovariate(1.0) * self._transit
        at = Instant(self.now + round(way))
        self._at(at, self._by_name[effect.target], Received(process.name, message))

    def _reply(self, process: Process, effect: Reply[Any]) -> None:
        self._answered[type(effect.message)](process, effect.message)

    def _set_timer(self, process: Process, effect: SetTimer) -> None:
        process.due[effect.timer] = effect.at
        if process.queued.get(effect.timer, FOR_EVER) > effect.at:
            self._look(process, effect.timer)

    def _cancel_timer(self, process: Process, effect: CancelTimer) -> None:
        process.due.pop(effect.timer, None)

    def _look(self, process: Process, timer: Any) -> None:
        """Looks after a timer when it is due. One that is put off is queued once for all that."""
        at = max(process.due[timer], self.now)
        process.queued[timer] = at
        self._at(at, process, Expired(timer))

    def _is_due(self, process: Process, event: Expired) -> bool:
        timer = event.timer
        if process.queued.get(timer) == self.now:
            del process.queued[timer]
        at = process.due.get(timer)
        if at is None:
            return False
        if at > self.now:
            if timer not in process.queued:
                self._look(process, timer)
            return False
        del process.due[timer]
        return True

    def _probed(self, effects: list[Any], probe: type) -> None:
        """What became of a request: nothing is said when it waits in line."""
        tally = self.tally
        tally.probes += 1
        sent = [type(one.message) for one in effects if type(one) is Send]
        if not sent:
            tally.lined += 1
            tally.empty += 1
        elif sent[0] is probe:
            tally.empty += 1

    def _tell_news(self) -> None:
        self.now = self._news_at
        for consumer, fact in self._cast.news(self.now):
            self._at(self.now, consumer, fact)
        self._news_at = later(self._news_at, NEWS_EVERY)


def spent(times: Times, chance: Random) -> Draw:
    """How long work takes whose mean is given.

    >>> spent(Times.CONSTANT, Random(1))(100.0)
    100.0
    """
    match times:
        case Times.EXPONENTIAL:
            return lambda mean: chance.expovariate(1.0) * mean
        case Times.UNIFORM:
            return lambda mean: chance.uniform(2 / 3, 4 / 3) * mean
        case Times.CONSTANT:
            return lambda mean: mean


def _nothing(process: Process, _: Any) -> None:
    del process


def run(
    options: PoolOptions,
    shown: Callable[[range], Iterable[int]] = iter,
    *,
    checked: bool = False,
) -> Measured:
    """Runs an experiment; `shown` may tell how far it has come.

    Objects of the warm-up are not measured. It does not end early: `half_width` is the kernel's.

    >>> run(PoolOptions(producers=4, consumers=4, objects=100), checked=True).objects
    100
    """
    if options.process:
        raise BadOption("--process", options.process, "0 with --engine machine")
    begin = perf_counter()
    world = World(options, checked=checked)
    world.consume(options.warm_up)
    world.measure_anew()
    for part in shown(range(SLICES)):
        upto = options.objects * (part + 1) // SLICES
        world.consume(upto - len(world.tally.waits))
    return world.measured(perf_counter() - begin)
