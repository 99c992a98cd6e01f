"""arq: a coroutine, enqueued; `arq`."""

import asyncio
import time
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings
from benchmarks.peers.programs.counting import BROKER, asked, done, say

SETTINGS = RedisSettings.from_dsn(BROKER)


async def nothing(context: Any) -> None:
    """The job."""
    del context
    done()


class WorkerSettings:
    """Ten at once, which is its default."""

    functions = (nothing,)
    redis_settings = SETTINGS


async def put() -> None:
    pool = await create_pool(SETTINGS)
    begin, worked = time.perf_counter(), time.process_time()
    for _ in range(asked()):
        await pool.enqueue_job("nothing")
    say(time.perf_counter() - begin, time.process_time() - worked)
    await pool.aclose()


def main() -> None:
    """Enqueues them."""
    asyncio.run(put())
