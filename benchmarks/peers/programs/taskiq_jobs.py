"""Taskiq: a task, kiqed into a stream of Redis; `taskiq worker`."""

import asyncio
import time

from benchmarks.peers.programs.counting import BROKER, asked, done, say
from taskiq_redis import RedisStreamBroker

broker = RedisStreamBroker(BROKER)


@broker.task("nothing")
async def nothing() -> None:
    """The job."""
    done()


async def put() -> None:
    await broker.startup()
    begin, worked = time.perf_counter(), time.process_time()
    for _ in range(asked()):
        await nothing.kiq()
    say(time.perf_counter() - begin, time.process_time() - worked)
    await broker.shutdown()


def main() -> None:
    """Enqueues them."""
    asyncio.run(put())
