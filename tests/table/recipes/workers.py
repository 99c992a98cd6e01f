"""Of workers: one over a fifo, whose handler ends it when it has done what was put."""

import asyncio
import threading
import time

from table.account import expect, text_of
from table.recipes import Act, recipe


def working(own):
    """A worker, what it handled, and whether that is something."""
    bodies = own.fill()
    handled = []

    def handle(item):
        own.came(item)
        own.account.tell("doing", item.body)
        handled.append(bytes(item.body))
        if own.row.call == "Worker.run":
            worker.stop()

    async def handle_async(item):
        handle(item)

    handler = handle_async if own.face.__name__.endswith("aio") else handle
    worker = own.face.Worker(own.queue, handler, grace=1)

    def worked():
        if not handled and text_of(bodies[-1]) in own.account.all("doing"):
            bodies.extend(own.fill())  # another worker took what was there
        return bool(handled)

    return worker, handled, worked


@recipe("Worker.run")
def run(own):
    worker, handled, _ = working(own)
    yield Act(worker.run)
    expect(handled, "it has worked")
    own.account.tell("done", *handled)


@recipe("Worker.stop")
def stop(own):
    worker, handled, worked = working(own)
    if hasattr(worker, "__aenter__"):
        task = asyncio.ensure_future(worker.run())
        yield until_async(lambda: worked() or task.done())
        yield Act(worker.stop)
        yield asyncio.wait_for(task, 5)
    else:
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        until(worked)
        try:
            yield Act(worker.stop)
        finally:
            worker.stop()
        thread.join(5)
        expect(not thread.is_alive(), "a worker that is stopped ends")
    own.account.tell("done", *handled)


@recipe("Worker.with")
def within(own):
    worker, handled, worked = working(own)

    def work():
        with worker:
            until(worked)

    async def work_async():
        async with worker:
            await until_async(worked)  # what went wrong is raised when it is left

    yield Act(work_async if hasattr(worker, "__aenter__") else work)
    expect(handled, "it has worked")
    own.account.tell("done", *handled)


async def until_async(so, seconds=5.0):
    end = time.monotonic() + seconds
    while not so() and time.monotonic() < end:
        await asyncio.sleep(0.005)


def until(so, seconds=12.0):
    end = time.monotonic() + seconds
    while not so() and time.monotonic() < end:
        time.sleep(0.005)
    expect(so(), "it did not come to pass in time")
