"""The programs of a simulated pool: what a process' own code asks of its part, life by life.

They use the pool as it ships, with `await` (`client/pool/face_async.py`); only what runs the part's
machine is the world's (`pool_engine.py`). A maker waits for room or does not, and puts one object
or many. A taker gets some, or loops, and does what people do: says that all or a part is done,
waits for that to be confirmed or does not, gives back, works for long, or drops what it has; some
are interrupted. When the faults are over everybody takes until nobody has anything left.

What a program is told is held against what its part was:

1. What it is told to be in the pool is; and what it is told is not never comes out of it.
2. It gets what its part got, and of that nothing twice.
3. An acknowledgement that it is told is confirmed was; and nothing is acknowledged that it has not
   done, or given back that it has.
"""

from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager
from random import Random
from types import coroutine
from typing import Any, Final, TypeAlias, cast

import msgspec

from snowmelt.client.connection.open_loops import end_loops
from snowmelt.client.connection.steps import Query, Sleep
from snowmelt.client.connection.takers import THREADS, Taker, this_thread
from snowmelt.client.pool import steps as pool_steps
from snowmelt.client.pool.face_async import Pool
from snowmelt.client.pool.objects_async import Object, ObjectLoop, Objects
from snowmelt.client.pool.open_pools import OpenPool as ShippedPart
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import SECOND, Duration, Instant, later, milliseconds, seconds
from snowmelt.protocols.pool.calls import Stop
from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_world.families.pool_engine import Asking, Engine
from snowmelt_world.families.pool_ledger import Ledger, Part
from snowmelt_world.families.pool_load import Load
from snowmelt_world.families.shipped import Done, Interrupted, Run, must_end_well, pause
from snowmelt_world.world import Broken, World

POOL: Final = "frames"
PATIENCE: Final = 4.0
"""The longest that a put waits for room, a get for objects, an end for its confirmation."""
WORK: Final = seconds(6)
LOOK_EVERY: Final = seconds(1)
PACE: Final = seconds(2)
PAUSE: Final = milliseconds(300)
SOON: Final = seconds(3)
IDLE: Final = seconds(4)
"""So long nobody waits beside a producer that has objects: a wait, and until it is introduced."""
UNLIMITED: Final = 1 << 40
FAILURES: Final = (SnowmeltError, Interrupted)
"""What a call of a person ends with, if not with its answer."""

Script: TypeAlias = Coroutine[Any, Any, None]


class Stage(msgspec.Struct):
    world: World
    ledger: Ledger
    left: Any
    """What is done with a part whose program has left in order."""
    calm: bool = False
    """Whether nothing ever goes wrong in this life."""
    pace: Duration = PACE
    """The longest between two puts of a maker."""
    load: Load = Load()
    draining: bool = False
    over: bool = False
    """Whether nobody has anything left."""


@contextmanager
def known_as(taker: Taker) -> Iterator[None]:
    """Meanwhile this one runs, as a thread by itself."""
    before, THREADS.taker = this_thread(), taker
    try:
        yield
    finally:
        THREADS.taker = before


class Task:
    """A script, and the number by which the pool knows it from others."""

    def __init__(self, script: Script, number: int) -> None:
        self._script = script
        self._taker = Taker(number)

    def send(self, value: Any) -> Any:
        with known_as(self._taker):
            return self._script.send(value)

    def throw(self, error: BaseException) -> Any:
        with known_as(self._taker):
            return self._script.throw(error)

    def close(self) -> None:
        self._script.close()


class Process:
    """Whoever has a part in the pool; it ends with its process."""

    def __init__(self, stage: Stage, part: Part, chance: Random) -> None:
        self.stage = stage
        self.part = part
        self.chance = chance
        self.engine = Engine(stage.world, stage.ledger, part)
        self._shipped = ShippedPart(POOL, cast("Any", self.engine), None, part.once)
        self._port = cast("Any", Asking(self.engine, stage.world))
        self.pool = Pool(self._shipped, port=self._port)
        self._runs: dict[int, tuple[Run, Task]] = {}
        self._tasks = 0

    @property
    def now(self) -> Instant:
        return self.stage.world.now

    @property
    def waiting(self) -> str:
        return self.engine.waiting or (f"{self.part.node} still leaves" if self.leaving else "")

    @property
    def leaving(self) -> bool:
        return self.part.leaves_at is not None

    @property
    def gone(self) -> bool:
        return self.part.ended_at is not None

    def run(self, script: Script) -> None:
        """Takes a script to its end, beside others."""
        self._tasks += 1
        number = self._tasks

        def over(told: Any) -> None:
            self._runs.pop(number, None)
            must_end_well(told)

        task = Task(script, number)
        run = Run(self, cast("Any", task), over)
        self._runs[number] = run, task
        run.go(None)

    def interrupt(self) -> None:
        """One of its scripts is interrupted in what it waits for."""
        if self._runs and not self.leaving:
            self._runs[self.chance.choice(sorted(self._runs))][0].interrupt()

    def end(self) -> None:
        self.engine.end()
        runs, self._runs = self._runs, {}
        for run, task in runs.values():
            run.end()
            task.close()

    def leave(self) -> None:
        if not self.leaving:
            self.part.leaves_at = self.now
            self.run(self._leave())

    def leave_soon(self) -> None:
        """In the middle of its next put, if that is soon."""
        self.engine.place_taken = self._leave_if
        self.after(SOON, self._leave_if)

    def _leave_if(self) -> None:
        if not self.stage.draining:
            self.leave()

    async def _leave(self) -> None:
        end_loops(self._shipped)
        several = self.stage.load.leaving
        most = several[0] if len(several) == 1 else self.chance.choice(several)
        timeout = self.some(most) / SECOND
        stop = Stop(pool_steps.patience(timeout))
        self.part.left = (await self._port.call(stop, timeout)).left
        self.stage.left(self.part)

    def query(self, step: Query, told: Done) -> None:
        """A script waits for a bell, or until its time is over."""
        step.body.wait(lambda: told(None))
        wait = max(milliseconds(1), Duration(int(step.timeout * SECOND)))  # as clocks go on
        self.after(wait, lambda: told(None))

    def after(self, wait: Duration, act: Any) -> None:
        """Later, if its process lives then."""

        def due() -> None:
            if not self.gone:
                act()

        self.stage.world.at(later(self.now, wait), due)

    def some(self, most: int) -> Duration:
        return Duration(self.chance.randrange(1, most))


class Program(Process):
    """One process' code: it makes objects, takes objects, or both."""

    def __init__(
        self, stage: Stage, part: Part, chance: Random, *, makes: bool, takers: int
    ) -> None:
        super().__init__(stage, part, chance)
        self.empty_looks = 0
        """How often in a row its part has said that it has nothing."""
        self._makes = makes
        self._takers = takers
        self._made = 0
        self._full_since: Instant | None = None
        self._given = 0

    def begin(self) -> None:
        if self.stage.draining:
            self._takers = 0
            self.drain()
            return
        if self._makes:
            self.run(self._make())
        for _ in range(self._takers):
            self.run(self._take())
        if self.stage.calm:
            self.run(self._look())

    def drain(self) -> None:
        """Everybody takes; loops that go on for ever are closed by others than who is in them."""
        if self.leaving:
            return
        self.engine.judges = True
        self.empty_looks = 0  # what was put since it looked last was not seen
        end_loops(self._shipped)
        if not self._takers:
            self.run(self._take())
        if not self.stage.calm:
            self.run(self._look())

    @property
    def _goes_on(self) -> bool:
        return not (self.leaving or self.stage.over)

    async def _rest(self) -> None:
        await rest(self.some(PAUSE if self.stage.draining else PACE))

    # --- making -----------------------------------------------------------------------------------

    async def _make(self) -> None:
        await self._rest()
        while self._goes_on and not self.stage.draining:
            count = self.chance.choice((1, 1, 1, 2, 5, 12))
            if self.chance.random() < 0.3:
                count = 1
                try:
                    await self.pool.await_room(timeout=self._patience())
                except FAILURES:
                    await self._rest()
                    continue
            await self._put(count)
            await rest(self.some(self.stage.pace))

    async def _put(self, count: int) -> None:
        numbers = range(self._made, self._made + count)
        self._made += count
        padding = self.chance.choice(self.stage.load.padding)
        values = [f"{self.part.name}/{number}" + "." * padding for number in numbers]
        bodies = [value.encode() for value in values]
        try:
            timeout = self._patience()
            singly = count == 1 or (numbers[0] % 2 and not self.stage.calm)
            if singly:  # one after another at once: for those, room is told of ahead
                for body in bodies:
                    await self.pool.put(body, timeout=timeout)
            else:
                count = await self.pool.put_many(bodies, timeout=timeout)
        except FAILURES as error:
            if isinstance(error, SnowmeltError) and error.definite and count == 1:
                self.stage.ledger.refused(tuple(values))  # rule 1
            return
        if not self.stage.ledger.keeps(values) or count != len(values):
            text = f"{self.part.name} is told that {count} of {values} are in the pool"
            raise Broken(text, self.part.node)

    def _patience(self) -> float:
        return self.chance.random() * PATIENCE

    # --- taking -----------------------------------------------------------------------------------

    async def _take(self) -> None:
        await self._rest()
        while self._goes_on:
            loops = not (self.stage.draining or self.stage.calm)
            try:
                if loops and self.chance.random() < 0.2:
                    await self._loop()
                else:
                    await self._get()
            except FAILURES:
                pass
            await self._rest()

    async def _get(self) -> None:
        chance = self.chance
        most = chance.choice((1, 1, 3, 10, 100))
        size = chance.choice((1, 100, UNLIMITED, UNLIMITED))
        timeout = self._patience() * (3 if self.stage.calm else 1)
        if most == 1 and size == UNLIMITED:
            one = await self.pool.get(timeout=timeout)
            self._sees([one])
            await self._work_on(one)
        else:
            objects = await self.pool.get_many(most, bytes_max=size, timeout=timeout)
            self._sees(list(objects))
            await self._work(objects)

    def _sees(self, objects: list[Object]) -> None:
        """Rule 2."""
        values = [value_of(one) for one in objects]
        if len(set(values)) != len(values) or not all(map(self.engine.has_got, values)):
            raise Broken(f"{self.part.name} is given {values}", self.part.node)

    async def _work(self, objects: Objects) -> None:
        way = self._way()
        if way != "part":
            await self._end(objects, list(objects), way)
            return
        several = list(objects)
        cut = self.chance.randrange(len(several) + 1)
        for one in several[:cut]:
            await self._end(one, [one], "all")
        await self._end(objects, several[cut:], "all")

    async def _work_on(self, one: Object) -> None:
        async with one:  # done when it is left, given back when that fails
            way = self._way()
            if way in ("all", "untold", "part"):
                self._finish([one])
                return
            if way == "long":
                await rest(self.some(WORK))
                self._finish([one])
                return
            if way == "forget":
                await self._end(one, [one], "all")
                return
            raise Interrupted

    def _way(self) -> str:
        kinds = ("all", "part", "untold", "back", "long", "forget")
        weights = (80, 5, 5, 10, 0, 0) if self.stage.draining else (40, 15, 10, 10, 13, 12)
        return self.chance.choices(kinds, weights)[0]

    async def _end(self, held: Object | Objects, objects: list[Object], way: str) -> None:
        if self.leaving or not objects or not held.open:
            return
        match way:
            case "back":
                await held.nack()
            case "forget":
                pass  # nobody has it any more, once this is left
            case _:
                if way == "long":
                    await rest(self.some(WORK))
                timeout = 0.0 if way == "untold" else self._patience()
                self._finish(objects)
                await held.ack(timeout=timeout)
                if timeout and not self.leaving:
                    self._believes(objects)

    def _finish(self, objects: list[Object]) -> None:
        for one in objects:
            self.engine.finishes(token_of(one), value_of(one))

    def _believes(self, objects: list[Object]) -> None:
        """Rule 3."""
        for one in objects:
            value = value_of(one)
            if not self.engine.confirmed(token_of(one), value):
                text = f"{self.part.name} is told that {value} is done, and no producer said so"
                raise Broken(text, self.part.node)

    # --- looping ----------------------------------------------------------------------------------

    async def _loop(self) -> None:
        ahead = self.chance.choice((None, None, 0, 1, 5))
        timeout = self.chance.choice((None, self._patience()))
        loop = self.pool.consume(ahead, timeout)
        if self.chance.random() < 0.3:
            self.run(self._loop_over(loop))
        await self._loop_over(loop)

    async def _loop_over(self, loop: ObjectLoop) -> None:
        one: Object | None = None
        try:
            while self._goes_on:
                if one is not None and one.open:
                    self._finish([one])  # who asks for the next has done this one
                one = await anext(loop)
                self._sees([one])
                await rest(self.some(self.chance.choice((PAUSE, PAUSE, WORK))))
                way = self.chance.random()
                if way < 0.08:
                    await one.nack()
                elif way < 0.16:
                    await self._end(one, [one], "all")
                elif way < 0.2:
                    await loop.aclose()
                elif way < 0.22:
                    return  # and drops it
        except (StopAsyncIteration, *FAILURES):
            if self.chance.random() < 0.5:
                await loop.aclose()

    # --- looking ----------------------------------------------------------------------------------

    async def _look(self) -> None:
        while self._goes_on:
            try:
                told = await self.pool.stats()
            except FAILURES:
                await rest(LOOK_EVERY)
                continue
            self.stage.ledger.described(self.part, told)
            empty = not (told.stock or told.on_loan)
            self.empty_looks = self.empty_looks + 1 if empty else 0
            if not told.stock or told.given != self._given:
                self._full_since = self.now if told.stock else None
            self._given = told.given
            await rest(LOOK_EVERY)

    def has_long_had(self, at: Instant) -> bool:
        """Whether it has had objects for long, and given none away."""
        return self._full_since is not None and later(self._full_since, IDLE) < at

    def waits_long(self, at: Instant) -> bool:
        """Whether one of its gets waits for long, and any producer is as good as another to it.

        It is not idle where it waits in line for ever (`wait` is 0).
        """
        settings = self.part.settings
        choosy = settings.fan_out or settings.access.kind is AccessKind.WEIGHTED
        since = self.waits_since(at)
        return bool(settings.wait) and not choosy and later(since, IDLE) < at

    def waits_since(self, at: Instant) -> Instant:
        """Since when it waits for a get and nothing large is on its way to it; now if it does not.

        When calm, it has one get.
        """
        begun = min(self.engine.gets.values(), default=at)
        sent = self.part.sent_large
        return later(sent, self.stage.load.slow) if sent >= begun else begun

    def look_once(self) -> None:
        """Asks how its part is, in the middle of things."""
        self.run(self._look_once())

    async def _look_once(self) -> None:
        try:
            self.stage.ledger.described(self.part, await self.pool.stats())
        except FAILURES:
            return


@coroutine
def rest(time: Duration) -> Generator[Sleep, Any, None]:
    yield pause(time)


def value_of(one: Object) -> str:
    return bytes(one.body).decode()


def token_of(one: Object) -> int:
    """Under which it came: it may come again, while this program has it still."""
    return one._loan.token  # noqa: SLF001
