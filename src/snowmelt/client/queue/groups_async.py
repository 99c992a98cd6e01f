"""A group of a queue, with `await`; `groups.py` tells more of each call."""

from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.steps import AsyncPort, run_async
from snowmelt.client.queue.group_steps import BEGINNING, EVERYTHING, Advance, GroupSteps, Mark
from snowmelt.protocols.fifo.calls import Located


class Group:
    """One group's part of a queue. `queue.group(name)` gives it."""

    def __init__(self, port: AsyncPort, steps: GroupSteps) -> None:
        self._port = port
        self._steps = steps

    def __repr__(self) -> str:
        return f"Group({self.name!r})"

    @property
    def name(self) -> str:
        """The group's name."""
        return self._steps.name

    async def advance(
        self,
        done: Mark = BEGINNING,
        *,
        items_max: int = EVERYTHING,
        bytes_max: int = EVERYTHING,
        below: int = 0,
        timeout: float = TIMEOUT,
    ) -> Advance:
        """Says that all up to `done` is done with, for ever, and asks what comes next."""
        steps = self._steps.advance(done, items_max, bytes_max, below, timeout)
        return await run_async(self._port, steps)

    async def locate(self, start: Mark, end: Mark, *, timeout: float = TIMEOUT) -> Located:
        """Where the items between two marks lie: the same ones, whenever it is asked."""
        return await run_async(self._port, self._steps.locate(start, end, timeout))

    async def release(self, *, timeout: float = TIMEOUT) -> int:
        """Forgets the group; what it holds goes back to its positions. Returns how many."""
        return await run_async(self._port, self._steps.release(timeout))
