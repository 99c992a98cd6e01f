"""Runs of one worker over several queues, together: each has threads, or tasks, of its own.

So a queue that is slow, empty or away delays none of the others. When one run ends by an error, all
end warmly, and that error is raised.
"""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Protocol

from snowmelt.client.worker.shift import Shift
from snowmelt.client.worker.shift_async import Shift as AsyncShift


class Runnable(Protocol):
    """A run in this process or in others."""

    def work(self) -> None:
        """Until it ends."""

    def stop(self, *, hard: bool = False) -> None:
        """It is to end, warmly or at once; from anywhere."""


class LocalRunnable(Runnable, Protocol):
    """A run in this process."""

    def wait_for_cluster(self) -> None:
        """The cluster was there: should it be away, it is waited for."""


class Shifts:
    """In threads."""

    def __init__(self, shifts: Sequence[Shift]) -> None:
        self._shifts = shifts
        self._ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def stop(self, *, hard: bool = False) -> None:
        """All are to end, warmly or at once; from anywhere."""
        for one in self._shifts:
            one.stop(hard=hard)

    def wait_for_cluster(self) -> None:
        """The cluster was there."""
        for one in self._shifts:
            one.wait_for_cluster()

    def work(self) -> None:
        """Works until all have ended; raises what ended the first that ended by an error."""
        failure: BaseException | None = None
        try:
            for one in self._shifts:
                threading.Thread(target=self._run, args=(one,), daemon=True).start()
            for _ in self._shifts:
                error = self._ended.get()
                if error is not None:
                    failure = failure or error
                    self.stop()
        finally:
            self.stop()
        if failure is not None:
            raise failure

    def _run(self, shift: Shift) -> None:
        try:
            shift.work()
        except BaseException as error:
            self._ended.put(error)
        else:
            self._ended.put(None)


class AsyncShifts:
    """In tasks of one event loop."""

    def __init__(self, shifts: Sequence[AsyncShift]) -> None:
        self._shifts = shifts

    def stop(self, *, hard: bool = False) -> None:
        """All are to end, warmly or at once."""
        for one in self._shifts:
            one.stop(hard=hard)

    async def work(self) -> None:
        """Works until all have ended; raises what ended the first that ended by an error."""
        runs = [asyncio.create_task(one.work()) for one in self._shifts]
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
