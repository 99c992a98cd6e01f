"""One process of clients: `python -m benchmarks.chaos.client PLAN FIRST STOP`.

Clients FIRST to STOP run on one event loop; even ones produce, odd ones consume. They work until a
line comes on standard input, finish what they have begun, and end. When standard input ends
without a line, whoever started them is gone, and they end at once.
"""

import asyncio
import os
import sys
from random import Random
from typing import Any

import msgspec
from benchmarks.chaos.plan import Plan, id_of
from benchmarks.chaos.recording import Recorder, now

import snowmelt.aio
from snowmelt.core.errors import Empty, LeaseLost, SnowmeltError
from snowmelt.core.interval import Interval
from snowmelt_world.check import Ended, Kind

PAUSE = 0.1
LAST_TRIES = 6


class Producer:
    """Puts batch after batch, each until it knows that it is in the queue."""

    def __init__(self, plan: Plan, number: int, recorder: Recorder, over: asyncio.Event) -> None:
        self._plan = plan
        self._number = number
        self._name = f"producer-{number}"
        self._recorder = recorder
        self._over = over

    async def run(self) -> None:
        plan = self._plan
        async with snowmelt.aio.connect(plan.url) as cluster:
            queue = plan.queue(cluster, self._name)
            sequence = 0
            while not self._over.is_set():
                await self._put(queue, sequence)
                sequence += 1

    async def _put(self, queue: Any, sequence: int) -> None:
        """Until it is in the queue; when the load is over, a few times more."""
        recorder, timeout, left = self._recorder, self._plan.timeout, LAST_TRIES
        ids, bodies = self._plan.bodies(self._number, sequence)
        rows, called = self._plan.rows(ids, bodies), now()
        while left:
            try:
                where = await queue.put_many(rows, timeout=timeout, sequence=sequence)
            except SnowmeltError as error:
                recorder.attempts[f"put {type(error).__name__}"] += 1
                left -= self._over.is_set()
                await asyncio.sleep(PAUSE)
                continue
            recorder.attempts["put"] += 1
            self._told(ids, called, where)
            return
        for run, _ in self._plan.runs(ids):
            rank = self._plan.priority(run[0])
            recorder.ended(self._name, Kind.PUT, run, called, Ended.UNKNOWN, priority=rank)

    def _told(self, ids: list[int], called: int, where: tuple[Interval, ...]) -> None:
        """They are in the queue, there; or it is no longer remembered where."""
        recorder = self._recorder
        for run, start in self._plan.runs(ids, where):
            rank = self._plan.priority(run[0])
            recorder.ended(self._name, Kind.PUT, run, called, position=start, priority=rank)
            for place, id_ in enumerate(run, start=start or 0):
                if start is not None:
                    recorder.places.saw(id_, place)


class Consumer:
    """Gets and acknowledges; forgets a lease now and then."""

    def __init__(self, plan: Plan, number: int, recorder: Recorder, over: asyncio.Event) -> None:
        self._plan = plan
        self._name = f"consumer-{number}"
        self._recorder = recorder
        self._over = over
        self._chance = Random(f"{plan.seed}/{number}")
        self._held: snowmelt.aio.Items | None = None
        self._ids: list[int] = []

    async def run(self) -> None:
        async with snowmelt.aio.connect(self._plan.url) as cluster:
            queue = self._plan.queue(cluster)
            while not self._over.is_set():
                await self._get(queue)
            await self._acknowledge()

    async def _get(self, queue: Any) -> None:
        recorder, held, ids = self._recorder, self._held, self._ids
        most = self._chance.choice((1, self._plan.items, 10 * self._plan.items))
        called = now()
        try:
            items = await queue.get_many(most, timeout=self._plan.timeout, ack=held)
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
        ids = []
        for item in items:
            ids.append(id_of(item.body))
            place = self._plan.stands(ids[-1], item.position)
            recorder.places.got(ids[-1], place, item.failures)
        recorder.ended(self._name, Kind.GET, ids, called)
        if self._chance.random() < self._plan.forget:
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


def listen(over: asyncio.Event) -> None:
    """A line on standard input ends the load; its end ends this process."""
    loop = asyncio.get_running_loop()

    def heard() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            os._exit(1)
        over.set()

    loop.add_reader(sys.stdin.fileno(), heard)


async def run(plan: Plan, numbers: range) -> None:
    over = asyncio.Event()
    listen(over)
    with Recorder(plan.folder, str(numbers.start)) as recorder:
        async with asyncio.TaskGroup() as group:
            for number in numbers:
                role = Consumer if number % 2 else Producer
                group.create_task(role(plan, number, recorder, over).run())


if __name__ == "__main__":
    asyncio.run(
        run(msgspec.json.decode(sys.argv[1], type=Plan), range(int(sys.argv[2]), int(sys.argv[3])))
    )
