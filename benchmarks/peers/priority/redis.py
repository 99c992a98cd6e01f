"""Redis: a sorted set by priority and number, with leases that Lua scripts keep.

A script runs as a whole, so no item is ever in two places or in none. An item's name is its score:
its priority, and a number that grows. `put` adds names and bodies; `get` first brings back what was
leased for too long, then moves the first names to a second sorted set, whose scores are the ends of
their leases; `ack` removes names and bodies. The acknowledgement of what was taken before rides on
the pipeline of the next get, as Snowmelt's does, so that the log is flushed once for both. With
replicas, `WAIT` ends each pipeline: then all of them have it.
"""

import time
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias

import redis.asyncio
from benchmarks.peers import cores
from benchmarks.peers.comparison import Peer
from benchmarks.peers.fifo.clients import QueuePeer
from benchmarks.peers.priority.urgency import urgencies
from benchmarks.peers.servers.redis import PROMISES, Place, Redis

LEASE_MS: Final = 30_000
WAIT_MS: Final = 10_000
PUT: Final = """
local last = redis.call('INCRBY', KEYS[4], #ARGV / 2)
local first = last - #ARGV / 2
for at = 1, #ARGV, 2 do
  first = first + 1
  local name = string.format('%d', ARGV[at] * 2^40 + first)
  redis.call('ZADD', KEYS[1], name, name)
  redis.call('HSET', KEYS[3], name, ARGV[at + 1])
end
return last
"""
GET: Final = """
local late = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[2], 'LIMIT', 0, 1000)
for _, name in ipairs(late) do
  redis.call('ZREM', KEYS[2], name)
  redis.call('ZADD', KEYS[1], name, name)
end
local found = redis.call('ZPOPMIN', KEYS[1], ARGV[1])
local items = {}
for at = 1, #found, 2 do
  redis.call('ZADD', KEYS[2], ARGV[3], found[at])
  items[#items + 1] = found[at]
  items[#items + 1] = redis.call('HGET', KEYS[3], found[at])
end
return items
"""
ACK: Final = """
local held = 0
for _, name in ipairs(ARGV) do
  if redis.call('ZREM', KEYS[2], name) == 1 then
    redis.call('HDEL', KEYS[3], name)
    held = held + 1
  end
end
return held
"""


Call: TypeAlias = tuple[str, Sequence[Any]]
"""A script and its values."""


def sorted_set(name: str, replicas: int) -> Peer:
    return QueuePeer(
        name=name,
        promise=PROMISES["always"] + (f", and {replicas} replicas too" if replicas else ""),
        service=Redis("always", cores.SERVER, replicas),
        client=partial(SortedSetClient, replicas=replicas),
        tasks=partial(connect_tasks, replicas=replicas),
    )


def keys_of(queue: str) -> list[str]:
    """What waits, what is leased, the bodies, and the last number."""
    return [f"{{{queue}}}:{what}" for what in ("ready", "leased", "bodies", "last")]


def get_values(count: int) -> tuple[int, int, int]:
    now = time.time_ns() // 1_000_000
    return count, now, now + LEASE_MS


class SortedSetClient:
    """The blocking client."""

    def __init__(self, place: Place, queue: str, batch: int, replicas: int) -> None:
        del batch
        self.base = place.connect()
        self.replicas = replicas
        self.keys = keys_of(queue)
        self.next = urgencies()
        self.taken: list[bytes] = []
        self.put_script, self.get_script, self.ack_script = map(
            self.base.script_load, (PUT, GET, ACK)
        )

    def put(self, bodies: list[bytes]) -> None:
        pairs = zip(islice(self.next, len(bodies)), bodies, strict=True)
        self._say((self.put_script, [value for pair in pairs for value in pair]))

    def take(self, count: int) -> int:
        calls: list[Call] = [(self.ack_script, self.taken)] if self.taken else []
        found: Any = self._say(*calls, (self.get_script, get_values(count)))
        self.taken = found[::2]
        return len(self.taken)

    def settle(self) -> None:
        if self.taken:
            self._say((self.ack_script, self.taken))
            self.taken = []

    def close(self) -> None:
        self.base.delete(*self.keys)
        self.base.close()

    def _say(self, *calls: Call) -> object:
        """What the last of them answers."""
        if len(calls) == 1 and not self.replicas:
            ((script, values),) = calls
            return self.base.evalsha(script, len(self.keys), *self.keys, *values)
        pipeline = self.base.pipeline(transaction=False)
        for script, values in calls:
            pipeline.evalsha(script, len(self.keys), *self.keys, *values)
        if self.replicas:
            pipeline.wait(self.replicas, WAIT_MS)
        return answered(pipeline.execute(), self.replicas)


def answered(answers: list[Any], replicas: int) -> object:
    """The last one, once so many replicas have it all."""
    if replicas and answers.pop() < replicas:
        raise RuntimeError("the replicas of Redis do not follow")
    return answers[-1]


async def connect_tasks(place: Place, queue: str, tasks: int, replicas: int) -> "SortedSetTasks":
    found = SortedSetTasks(place.port, queue, tasks, replicas)
    for script in (PUT, GET, ACK):
        found.scripts[script] = await found.base.script_load(script)
    return found


class SortedSetTasks:
    """The client with `await`, which has a connection for each call that waits."""

    def __init__(self, port: int, queue: str, tasks: int, replicas: int) -> None:
        self.base: Any = redis.asyncio.Redis(host="127.0.0.1", port=port, max_connections=2 * tasks)
        self.replicas = replicas
        self.keys = keys_of(queue)
        self.taken: list[bytes | None] = [None] * tasks
        self.scripts: dict[str, str] = {}
        self.next = urgencies()

    async def put(self, body: bytes) -> None:
        await self._say((PUT, [next(self.next), body]))

    async def take(self, task: int) -> None:
        before = self.taken[task]
        calls: list[Call] = [] if before is None else [(ACK, [before])]
        found: Any = await self._say(*calls, (GET, get_values(1)))
        self.taken[task] = found[0]

    async def settle(self, task: int) -> None:
        taken, self.taken[task] = self.taken[task], None
        if taken is not None:
            await self._say((ACK, [taken]))

    async def close(self) -> None:
        await self.base.delete(*self.keys)
        await self.base.aclose()

    async def _say(self, *calls: Call) -> object:
        """What the last of them answers."""
        if len(calls) == 1 and not self.replicas:
            ((script, values),) = calls
            return await self.base.evalsha(
                self.scripts[script], len(self.keys), *self.keys, *values
            )
        async with self.base.pipeline(transaction=False) as pipeline:
            for script, values in calls:
                pipeline.evalsha(self.scripts[script], len(self.keys), *self.keys, *values)
            if self.replicas:
                pipeline.wait(self.replicas, WAIT_MS)
            return answered(await pipeline.execute(), self.replicas)
