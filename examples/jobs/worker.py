"""A worker's process: `python -m jobs.worker URL NAME KIND`, of one of three kinds.

A *loop* takes jobs one by one from `consume`; a *single* gets one at a time in a `with`; *tasks*
are four at once on an event loop. Each takes the most urgent job there is, works, tells what it
did, and says that the job is done. What goes wrong is given back, and comes to whoever is free,
ahead of newer jobs of its priority. A worker that is killed has said nothing: its jobs come to
others when its leases end.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable

import snowmelt
import snowmelt.aio

TASKS = 4


class NoLuckError(Exception):
    """This job does not work out this time."""


PASSING = (
    NoLuckError,
    snowmelt.Empty,
    snowmelt.LeaseLost,
    snowmelt.OutcomeUnknown,
    snowmelt.Unavailable,
    snowmelt.Unreachable,
)
"""What a worker goes on after: the job comes again, to this one or to another."""


class Order:
    """What is to be done, by a worker of this name."""

    def __init__(self, body: bytes, failures: int, name: str) -> None:
        self.failures = failures
        self._told = json.loads(body)
        self._name = name

    def check(self) -> float:
        """How long it takes; raises when it does not work out."""
        told = self._told
        if self.failures < told["fails"]:
            raise NoLuckError(f"try {self.failures + 1} of {told['kind']} {told['number']}")
        seconds: float = told["seconds"]
        return seconds

    def done(self) -> bytes:
        """What is told of it."""
        waited = time.time() - self._told["made"] - self._told["seconds"]
        told = {"number": self._told["number"], "failures": self.failures, "waited": waited}
        return json.dumps({**told, "worker": self._name}).encode()


def loop(url: str, name: str, over: threading.Event) -> None:
    """A loop, which is told of its failures by hand."""
    with snowmelt.connect(url) as cluster:
        jobs, results = cluster.priority("jobs"), cluster.fifo("done")
        print("ready", flush=True)
        while not over.is_set():
            try:
                for job in jobs.consume(prefetch=1, timeout=0.2):
                    order = Order(job.body, job.failures, name)
                    try:
                        time.sleep(order.check())
                    except NoLuckError as error:
                        job.nack(reason=str(error))
                        continue
                    results.put(order.done())
                    job.ack()
                    if over.is_set():
                        break
            except PASSING:
                continue


def single(url: str, name: str, over: threading.Event) -> None:
    """One at a time; the `with` acknowledges, or gives back what failed."""
    with snowmelt.connect(url) as cluster:
        jobs, results = cluster.priority("jobs"), cluster.fifo("done")
        print("ready", flush=True)
        while not over.is_set():
            try:
                with jobs.get(timeout=0.2) as job:
                    order = Order(job.body, job.failures, name)
                    time.sleep(order.check())
                    results.put(order.done())
            except PASSING:
                continue


def tasks(url: str, name: str, over: threading.Event) -> None:
    """Some tasks on one event loop, which all wait at once."""

    async def work(jobs: snowmelt.aio.PriorityQueue, results: snowmelt.aio.Fifo) -> None:
        while not over.is_set():
            try:
                async with await jobs.get(timeout=0.2) as job:
                    order = Order(job.body, job.failures, name)
                    await asyncio.sleep(order.check())
                    await results.put(order.done())
            except PASSING:
                continue

    async def main() -> None:
        async with snowmelt.aio.connect(url) as cluster:
            jobs, results = cluster.priority("jobs"), cluster.fifo("done")
            print("ready", flush=True)
            await asyncio.gather(*(work(jobs, results) for _ in range(TASKS)))

    asyncio.run(main())


KINDS: dict[str, Callable[[str, str, threading.Event], None]] = {
    "loop": loop,
    "single": single,
    "tasks": tasks,
}


def _main(url: str, name: str, kind: str) -> None:
    over = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    KINDS[kind](url, name, over)


if __name__ == "__main__":
    _main(*sys.argv[1:4])
