"""Redis: a list, without any disk; four ways to take from it.

`redis` is how guides write it: LPUSH; BLMOVE to a list of what is in work, one for all consumers;
LREM of the object when it is done. Batches are pipelines of the same. `redis-own` is the fastest
way found with these commands: each consumer has a list of its own for what is in its work, so DEL
settles all of it, and a batch is one LPUSH of many. Its DEL travels alone, as `redis`'s LREM does,
since the consumer waits to know that it is done. `redis-script` is for batches: a script in the
server moves all of one in one step, in place of a pipeline of moves. `redis-own-unix` is
`redis-own` over a Unix socket, as Snowmelt's processes talk on one machine by themselves. And
`redis-plain` loses what its consumer dies with: LPUSH and BRPOP, or BLMPOP for batches.

Nothing bounds a list. LPUSH tells its length, so a producer that sees more than the bound waits,
and looks again every millisecond.
"""

import time
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from os import getpid
from typing import Any, Final

from benchmarks.peers.pool.cell import Cell
from benchmarks.peers.pool.clients import Body, Connect, PoolPeer
from benchmarks.peers.servers.redis import Place, Redis

LOOK_SECONDS: Final = 0.001
MOVE: Final = """
local found = redis.call('LRANGE', KEYS[1], -tonumber(ARGV[1]), -1)
if #found > 0 then
    redis.call('LTRIM', KEYS[1], 0, -#found - 1)
    redis.call('LPUSH', KEYS[2], unpack(found))
end
return found
"""


def lists(name: str, way: str, over: str = "tcp") -> PoolPeer:
    import_module("redis")  # its client, which must be here
    return PoolPeer(
        name=name,
        promise=WAYS[way].promise,
        service=Redis("never", unix=over == "unix"),
        above=way != "Plain",
        open=partial(opened, WAYS[way]),
        remove=removed,
        batches_only=way == "Script",
    )


def opened(client: Any, service: Redis, queue: str, cell: Cell) -> Connect:
    return partial(client, service.address, queue, cell.bound)


def removed(service: Redis, queue: str) -> None:
    del queue  # it has no other
    with service.address.connect() as base:
        base.flushall()


class Shared:
    """The guides' way: one list of what is in work."""

    promise = "at least once; a list in a server, LPUSH, BLMOVE, LREM"

    def __init__(self, place: Place, queue: str, bound: int) -> None:
        self.base: Any = place.connect()
        self.base.ping()
        self.queue = queue
        self.bound = bound
        self.work = f"{queue}-work"
        self.taken: list[bytes] = []

    def put(self, bodies: list[bytes]) -> None:
        if len(bodies) == 1:
            self.wait_for_room(self.base.lpush(self.queue, bodies[0]))
            return
        pipeline = self.base.pipeline(transaction=False)
        for body in bodies:
            pipeline.lpush(self.queue, body)
        self.wait_for_room(pipeline.execute()[-1])

    def wait_for_room(self, length: Any) -> None:
        while length > self.bound:
            time.sleep(LOOK_SECONDS)
            length = self.base.llen(self.queue)

    def get(self, count: int, seconds: float) -> Sequence[Body]:
        first: Any = self.base.blmove(self.queue, self.work, seconds, "RIGHT", "LEFT")
        self.taken = [] if first is None else [first]
        if self.taken and count > 1:
            pipeline = self.base.pipeline(transaction=False)
            for _ in range(count - 1):
                pipeline.lmove(self.queue, self.work, "RIGHT", "LEFT")
            self.taken += [body for body in pipeline.execute() if body is not None]
        return self.taken

    def ack(self) -> None:
        if len(self.taken) == 1:
            self.base.lrem(self.work, 1, self.taken[0])
            return
        pipeline = self.base.pipeline(transaction=False)
        for body in self.taken:
            pipeline.lrem(self.work, -1, body)  # from the end, where the oldest are
        pipeline.execute()

    def close(self) -> None:
        self.base.close()


class Own(Shared):
    """The fastest way with the same commands: a list for each consumer's work."""

    promise = "at least once; a list in a server, LPUSH, BLMOVE to a list a consumer, DEL"

    def __init__(self, place: Place, queue: str, bound: int) -> None:
        super().__init__(place, queue, bound)
        self.work = f"{queue}-work-{getpid()}"

    def put(self, bodies: list[bytes]) -> None:
        self.wait_for_room(self.base.lpush(self.queue, *bodies))

    def ack(self) -> None:
        self.base.delete(self.work)


class Script(Own):
    """The same, where one script moves a batch."""

    promise = "at least once; a list in a server, LPUSH, a script to a list a consumer, DEL"

    def __init__(self, place: Place, queue: str, bound: int) -> None:
        super().__init__(place, queue, bound)
        self.move = self.base.register_script(MOVE)

    def get(self, count: int, seconds: float) -> Sequence[Body]:
        found: Any = self.move(keys=[self.queue, self.work], args=[count])
        return found or super().get(1, seconds)  # waits there until there is something


class Plain(Own):
    """What is taken is gone."""

    promise = "at most once; a list in a server, LPUSH, BRPOP or BLMPOP"

    def get(self, count: int, seconds: float) -> Sequence[Body]:
        if count == 1:
            one: Any = self.base.brpop([self.queue], seconds)
            return [] if one is None else [one[1]]
        found: Any = self.base.blmpop(seconds, 1, self.queue, direction="RIGHT", count=count)
        return [] if found is None else found[1]

    def ack(self) -> None:
        """There is nothing to settle."""


WAYS: Final = {"Shared": Shared, "Own": Own, "Script": Script, "Plain": Plain}
