"""A process of clients: `python -m benchmarks.priority_chaos_parts.client PLAN NUMBER LIFE`.

Of its clients every other one puts, every other one gets; the first half of them block, each in a
thread of its own, the others share an event loop. Each writes down what it does, before and after.
They work until they are told to stop, and settle what they hold.
"""

import asyncio
import sys
from random import Random
from threading import Event, Thread
from typing import Final

import msgspec
from benchmarks.chaos.journals import Journal
from benchmarks.pool_chaos_parts.process import Words
from benchmarks.priority_chaos_parts.faces import Awaiting, Blocking, Face, Held, Told, finished
from benchmarks.priority_chaos_parts.journal import Note, What
from benchmarks.priority_chaos_parts.plan import QUEUE, Plan, Plant, first_id, id_of

import snowmelt
import snowmelt.aio
from snowmelt.client.overlay import face as overlay
from snowmelt.client.overlay import face_async as overlay_async
from snowmelt.client.overlay.options import overlay_settings
from snowmelt.core.errors import Empty, LeaseLost, SnowmeltError
from snowmelt.protocols.priority.batches import Shares
from snowmelt.protocols.priority.calls import Leased, PutDone

PAUSE: Final = 0.1
"""After a call that failed."""
PLANTED: Final = range(3, 8)
"""At which of the occasions a fault is planted."""


class Producer:
    """Puts batch after batch, each with ids of its own and each only once."""

    def __init__(self, plan: Plan, face: Face, note: Note, chance: Random, first: int) -> None:
        self._plan = plan
        self._face = face
        self._note = note
        self._chance = chance
        self._next = first
        self._occasions = 0

    async def run(self, over: Event) -> None:
        while not over.is_set():
            await self._put()
            await self._face.rest(self._chance.expovariate(1 / self._plan.pause))

    async def _put(self) -> None:
        plan, told = self._plan, self._face.told
        ids = range(self._next, self._next + plan.many(self._chance))
        self._next = ids.stop
        pairs = [(plan.priority(self._chance), plan.body(id_)) for id_ in ids]
        pairs.sort(key=lambda pair: pair[0])  # as they go, each priority by itself
        inside = tuple([id_of(body) for _, body in pairs])
        urgent = tuple([plan.key(priority) for priority, _ in pairs])
        self._note(What.PUTTING, ids=inside, priorities=urgent)
        told.forget()
        try:
            await self._face.put_many(pairs, plan.timeout)
        except SnowmeltError as error:
            self._note(What.REFUSED if error.definite else What.PERHAPS, ids=inside)
            await self._face.rest(PAUSE)
            return
        assert told.put_done is not None
        positions = positions_of(told.put_done.shares)
        if self._planted():
            positions = (0,) * len(positions)
        self._note(What.PUT, ids=inside, positions=positions, orders=orders_of(plan, told.put_done))

    def _planted(self) -> bool:
        self._occasions += self._plan.plant is Plant.MISPLACED
        return self._occasions in PLANTED


class Consumer:
    """Gets and acknowledges; gives some back, and forgets a lease now and then."""

    def __init__(self, plan: Plan, face: Face, note: Note, chance: Random) -> None:
        self._plan = plan
        self._face = face
        self._note = note
        self._chance = chance
        self._occasions = 0

    async def run(self, over: Event) -> None:
        while not over.is_set():
            await self.take(self._plan.many(self._chance), self._plan.timeout)
            await self._face.rest(self._chance.expovariate(1 / self._plan.pause))

    async def take(self, most: int, timeout: float, *, whole: bool = False) -> int:
        """Gets some and says what comes of them, `whole`: that they are done; how many came."""
        told = self._face.told
        told.forget()
        self._note(What.GETTING, most=most)
        try:
            items = await self._face.get_many(most, timeout)
        except Empty:
            self._note(What.NOTHING, orders=got_orders(self._plan, told.leased, 1))
            return 0
        except SnowmeltError as error:
            self._note(What.UNHEARD, most=0 if error.definite else most)
            await self._face.rest(PAUSE)
            return -1
        hidden = self._planted(Plant.LOST)
        ids = self._got(items, hidden)
        drawn = self._chance.random()
        if whole or drawn >= self._plan.forget + 2 * self._plan.nack:
            await self._settle(items, "ack", () if hidden else ids)
        elif drawn >= self._plan.forget:
            word = "nack" if drawn < self._plan.forget + self._plan.nack else "release"
            await self._settle(items, word, ids)
        return len(ids)

    def _got(self, items: Held, hidden: bool) -> tuple[int, ...]:
        leased = self._face.told.leased
        assert leased is not None
        plan = self._plan
        each = [(one.body, plan.key(one.priority), one.position, one.failures) for one in items]
        bodies, priorities, positions, failures = (
            tuple(column) for column in zip(*each, strict=True)
        )
        ids = tuple([id_of(body) for body in bodies])
        if not hidden:
            self._note(
                What.GOT,
                ids=ids,
                priorities=priorities,
                positions=positions,
                orders=got_orders(plan, leased, len(ids)),
                failures=failures,
                token=items.token,
                most=leased.lease,
            )
        return ids

    async def _settle(self, items: Held, word: str, ids: tuple[int, ...]) -> None:
        told = word == "ack" or self._planted(Plant.DOUBLED)
        self._note(What.ACKING if told else What.BACKING, ids=ids, token=items.token)
        try:
            await self._face.settle(items, word)
        except LeaseLost:
            self._note(What.LATE, ids=ids, token=items.token)
        except SnowmeltError:
            self._note(What.UNSETTLED, ids=ids, token=items.token)
        else:
            self._note(What.SETTLED, ids=ids, token=items.token)

    def _planted(self, plant: Plant) -> bool:
        if self._plan.plant is not plant:
            return False
        self._occasions += 1
        return self._occasions in PLANTED


def positions_of(shares: Shares) -> tuple[int, ...]:
    """Of each element of a put, in the order in which it was put."""
    return tuple([at for share in shares for interval in share.intervals for at in interval])


def orders_of(plan: Plan, done: PutDone) -> tuple[int, ...]:
    """Of each element; none when they can't be told apart."""
    if plan.keyed:  # a phase for each share
        rows = zip(done.orders, done.shares, strict=True) if done.orders else ()
        return tuple([order for order, share in rows for _ in range(share.total)])
    sizes = [interval.size for share in done.shares for interval in share.intervals]
    if len(done.orders) == 1:
        return tuple(range(done.orders[0], done.orders[0] + sum(sizes)))
    if len(sizes) != len(done.orders):
        return ()
    pairs = zip(done.orders, sizes, strict=True)
    return tuple([order for first, size in pairs for order in range(first, first + size)])


def got_orders(plan: Plan, leased: Leased | None, count: int) -> tuple[int, ...]:
    """Of each element of a get; none when it is told again, and nobody knows its phase any more."""
    if leased is None or not leased.order:
        return ()
    return tuple([leased.order + at * (not plan.keyed) for at in range(count)])


class Clients:
    """All of one process."""

    def __init__(self, plan: Plan, number: int, life: int, journal: Journal, over: Event) -> None:
        self._plan = plan
        self._numbers = range(number * plan.clients, (number + 1) * plan.clients)
        self._life = life
        self._journal = journal
        self._over = over

    def run(self) -> None:
        half = self._plan.clients // 2
        threads = [Thread(target=self._block, args=(one,)) for one in self._numbers[:half]]
        for thread in threads:
            thread.start()
        asyncio.run(self._await(self._numbers[half:]))
        for thread in threads:
            thread.join()

    def _block(self, number: int) -> None:
        with snowmelt.connect(self._plan.url) as cluster:
            told = told_of(self._plan)
            queue = overlay.OverlayQueue(cluster._queues, told)  # noqa: SLF001
            finished(self._client(number, Blocking(queue, told)).run(self._over))

    async def _await(self, numbers: range) -> None:
        async with snowmelt.aio.connect(self._plan.url) as cluster, asyncio.TaskGroup() as group:
            for number in numbers:
                told = told_of(self._plan)
                queue = overlay_async.OverlayQueue(cluster._queues, told)  # noqa: SLF001
                client = self._client(number, Awaiting(queue, told))
                group.create_task(client.run(self._over))

    def _client(self, number: int, face: Face) -> Producer | Consumer:
        who = f"client-{number}-{self._life}"
        note, chance = Note(self._journal, who), Random(f"{self._plan.seed}/{who}")
        note(What.STARTED)
        if number % 2:
            return Consumer(self._plan, face, note, chance)
        return Producer(self._plan, face, note, chance, first_id(number, self._life))


def told_of(plan: Plan) -> Told:
    """The steps of a client of this run."""
    return Told(QUEUE, overlay_settings(QUEUE, plan.options, fifo=False))


def main() -> None:
    text, number, life = sys.argv[1:]
    plan = msgspec.json.decode(text, type=Plan)
    if number != "0":
        plan = msgspec.structs.replace(plan, plant=Plant.NONE)
    words = Words()
    with Journal(plan.folder / f"clients-{number}-{life}.jsonl") as journal:
        Clients(plan, int(number), int(life), journal, words.stop).run()


if __name__ == "__main__":
    main()
