"""Runs of one worker over several queues, together: each has threads, or tasks, of its own.

So a queue that is slow, empty or away delays none of the others. When one run ends by an error, all
end warmly, and that error is raised.
"""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeAlias, TypeVar

from snowmelt.client.worker.loop import WorkerLoop
from snowmelt.client.worker.loop_async import WorkerLoop as AsyncWorkerLoop
from snowmelt.client.worker.signals import next_word

L = TypeVar("L", bound=WorkerLoop | AsyncWorkerLoop)


class Loops(Generic[L]):
    """What threads and tasks have in common: the loops of one worker, which end together."""

    def __init__(self, loops: Sequence[L]) -> None:
        self._loops = loops

    def stop(self, *, hard: bool = False) -> None:
        """All are to end, warmly or at once; from anywhere."""
        for one in self._loops:
            one.stop(hard=hard)


class ThreadLoops(Loops[WorkerLoop]):
    """The loops of a worker, each driven by a thread."""

    def wait_for_cluster(self) -> None:
        """From now on a cluster that is away is waited for."""
        for one in self._loops:
            one.wait_for_cluster()

    def work(self) -> None:
        """Works until all have ended; raises what ended the first that ended by an error."""
        failure: BaseException | None = None
        ended = SimpleQueue[BaseException | None]()
        try:
            for one in self._loops:
                threading.Thread(target=_run, args=(one, ended), daemon=True).start()
            for _ in self._loops:
                error = next_word(ended)
                if error is not None:
                    failure = failure or error
                    self.stop()
        finally:
            self.stop()
        if failure is not None:
            raise failure


LocalLoops: TypeAlias = WorkerLoop | ThreadLoops
"""A run in this process."""


def _run(one: WorkerLoop, ended: SimpleQueue[BaseException | None]) -> None:
    try:
        one.work()
    except BaseException as error:
        ended.put(error)
    else:
        ended.put(None)


class TaskLoops(Loops[AsyncWorkerLoop]):
    """In tasks of one event loop."""

    async def work(self) -> None:
        """Works until all have ended; raises what ended the first that ended by an error."""
        runs = [asyncio.create_task(one.work()) for one in self._loops]
        try:
            await asyncio.wait(runs, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            for run in runs:
                run.cancel()
            raise
        finally:
            self.stop()
            with suppress(asyncio.CancelledError):
                await asyncio.wait(runs)
        for run in runs:
            if not run.cancelled():
                run.result()
