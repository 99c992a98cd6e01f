"""A process of clients: each works until the load is over, and finishes what it has begun."""

import asyncio
from random import Random
from threading import Thread
from typing import Any, Final

import snowmelt.aio
from snowmelt.core.errors import Empty, LeaseLost, SnowmeltError
from snowmelt.core.interval import Interval
from snowmelt_world.check import Ended, Kind
from snowmelt_world.storms.journals import now
from snowmelt_world.storms.queues.load import QueueLoad, id_of
from snowmelt_world.storms.queues.recording import Recorder
from snowmelt_world.storms.words import StdinWords

PAUSE: Final = 0.1
LAST_TRIES: Final = 6


class QueueProducer:
    """Puts batch after batch, each until it knows that it is in the queue."""

    def __init__(
        self, load: QueueLoad, number: int, recorder: Recorder, over: asyncio.Event
    ) -> None:
        self._load = load
        self._number = number
        self._name = f"producer-{number}"
        self._recorder = recorder
        self._over = over

    async def run(self) -> None:
        load = self._load
        async with snowmelt.aio.connect(load.setting.url) as cluster:
            queue = load.queue(cluster, self._name)
            sequence = 0
            while not self._over.is_set():
                await self._put(queue, sequence)
                sequence += 1

    async def _put(self, queue: Any, sequence: int) -> None:
        """Until it is in the queue; when the load is over, a few times more."""
        recorder, timeout, left = self._recorder, self._load.settings.timeout, LAST_TRIES
        ids, bodies = self._load.bodies(self._number, sequence)
        rows, called = self._load.rows(ids, bodies), now()
        while left:
            try:
                where = await queue.put_many(rows, timeout=timeout, sequence=sequence)
            except SnowmeltError as error:
                recorder.attempts[f"put {type(error).__name__}"] += 1
                left -= self._over.is_set()
                await asyncio.sleep(PAUSE)
                continue
            recorder.attempts["put"] += 1
            self._recorded(ids, called, where)
            return
        for run, _ in self._load.runs(ids):
            rank = self._load.priority(run[0])
            recorder.ended(self._name, Kind.PUT, run, called, Ended.UNKNOWN, priority=rank)

    def _recorded(self, ids: list[int], called: int, where: tuple[Interval, ...]) -> None:
        """They are in the queue, there; or where is no longer known."""
        recorder = self._recorder
        for run, start in self._load.runs(ids, where):
            rank = self._load.priority(run[0])
            recorder.ended(self._name, Kind.PUT, run, called, position=start, priority=rank)
            for place, id_ in enumerate(run, start=start or 0):
                if start is not None:
                    recorder.places.saw(id_, place)


class QueueConsumer:
    """Gets and acknowledges; forgets a lease now and then."""

    def __init__(
        self, load: QueueLoad, number: int, recorder: Recorder, over: asyncio.Event
    ) -> None:
        self._load = load
        self._name = f"consumer-{number}"
        self._recorder = recorder
        self._over = over
        self._chance = Random(f"{load.setting.seed}/{number}")
        self._held: snowmelt.aio.Items | None = None
        self._ids: list[int] = []

    async def run(self) -> None:
        async with snowmelt.aio.connect(self._load.setting.url) as cluster:
            queue = self._load.queue(cluster)
            while not self._over.is_set():
                await self._get(queue)
            await self._acknowledge()

    async def _get(self, queue: Any) -> None:
        recorder, held, ids = self._recorder, self._held, self._ids
        most = self._chance.choice((1, self._load.settings.items, 10 * self._load.settings.items))
        called = now()
        try:
            items = await queue.get_many(most, timeout=self._load.settings.timeout, ack=held)
        except Empty:
            recorder.attempts["get Empty"] += 1
            recorder.ended(self._name, Kind.GET, [], called)
            self._acknowledged(called)
            return
        except SnowmeltError as error:
            recorder.attempts[f"get {type(error).__name__}"] += 1
            recorder.ended(self._name, Kind.GET, [], called, Ended.UNKNOWN)
            if held is not None:
                recorder.ended(self._name, Kind.ACK, ids, called, Ended.UNKNOWN)
                await self._acknowledge()
            await asyncio.sleep(PAUSE)
            return
        recorder.attempts["get"] += 1
        self._acknowledged(called)
        recorder.places.leased(items.token)
        ids = []
        for item in items:
            ids.append(id_of(item.body))
            place = self._load.stands(ids[-1], item.position)
            recorder.places.got(ids[-1], place, item.failures)
        recorder.ended(self._name, Kind.GET, ids, called)
        if self._chance.random() < self._load.settings.forget:
            recorder.attempts["lease forgotten"] += 1
        else:
            self._held, self._ids = items, ids

    def _acknowledged(self, called: int) -> None:
        """The acknowledgement that went along with a get was taken, or was refused."""
        held, ids, self._held, self._ids = self._held, self._ids, None, []
        if held is None:
            return
        if held.lost:
            self._recorder.attempts["ack LeaseLost"] += 1
            self._recorder.ended(self._name, Kind.ACK, ids, called, Ended.UNKNOWN)
        else:
            self._recorder.ended(self._name, Kind.ACK, ids, called)

    async def _acknowledge(self) -> None:
        """Says again what may not have been heard."""
        held, ids, self._held, self._ids = self._held, self._ids, None, []
        if held is None:
            return
        called = now()
        try:
            await held.ack()
        except LeaseLost:
            self._recorder.attempts["ack LeaseLost"] += 1
        except SnowmeltError as error:
            self._recorder.attempts[f"ack {type(error).__name__}"] += 1
        else:
            self._recorder.attempts["ack"] += 1
            self._recorder.ended(self._name, Kind.ACK, ids, called)
            return
        self._recorder.ended(self._name, Kind.ACK, ids, called, Ended.UNKNOWN)


async def work(load: QueueLoad, name: str, numbers: range, words: StdinWords) -> None:
    """These clients on one event loop; even ones produce, odd ones consume."""
    over = asyncio.Event()
    loop = asyncio.get_running_loop()

    def listen() -> None:
        words.stop.wait()
        loop.call_soon_threadsafe(over.set)

    Thread(target=listen, daemon=True).start()
    with Recorder(load.setting.folder, name) as recorder:
        async with asyncio.TaskGroup() as group:
            for number in numbers:
                role = QueueConsumer if number % 2 else QueueProducer
                group.create_task(role(load, number, recorder, over).run())
