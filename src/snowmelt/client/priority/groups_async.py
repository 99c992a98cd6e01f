"""A group of a priority queue: items for good, most urgent first, told until passed; with `await`.

What it is given, and why that is the same again, is said in `group_steps.py`.
"""

from snowmelt.client.connection.forking import KeepingOwn
from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import KeepingPort, run_async
from snowmelt.client.leases.leasing_async import to_the_end
from snowmelt.client.priority.group_steps import PriorityGroupSteps
from snowmelt.client.priority.notes import Given, Note, Stretch
from snowmelt.client.queue.group_steps import BEGINNING, EVERYTHING, Mark


class PriorityGroup:
    """One group's part of a priority queue. `queue.group(name)` gives it.

    What a group is given has no time-out: it is the group's until it says that it is past it, or
    until `release`. Marks count batches. One program at a time may work under a group's name.

    >>> import snowmelt.aio, tempfile
    >>> from snowmelt.client.queue.group_steps import BEGINNING
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     async with snowmelt.aio.open(folder) as cluster:
    ...         jobs = cluster.fifo("jobs", ordering="overlay")
    ...         _ = await jobs.put_many([b"fire", b"mail", b"dust"])
    ...         spark = jobs.group("spark")
    ...         first = await spark.advance(items_max=2)
    ...         (note,) = await spark.batches(BEGINNING, first.end)
    ...         for piece in await spark.read(note):
    ...             print(piece.priority, piece.blob)
    ...         second = await spark.advance(first.end)  # done with the first two
    ...         status = await jobs.stats()
    ...         print(first.end.count, second.end.count, status.leased)
    0 b'firemail'
    1 2 1
    """

    __reduce__ = stays("send the names of the queue and of the group, and take it there")

    def __init__(self, port: KeepingPort, steps: PriorityGroupSteps) -> None:
        what = f"this group of {steps.queue}"
        self._port = KeepingOwn(port, what, "take a group in this one")
        self._steps = steps

    def __repr__(self) -> str:
        return f"PriorityGroup({self.name!r})"

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
        timeout: float = TIMEOUT,
    ) -> Given:
        """Says that all up to `done` is done with, for ever, and takes the most urgent there are.

        What was given before and is not done with is told again, limits or not, and nothing is
        added. Raises `LeaseLost` and `GroupHeld` as a fifo's group does. Tasks that share it take
        turns.

        On an event loop one that is cancelled goes on behind the scenes, as far as it takes to
        leave nothing half done; what it was given is told to the next.
        """
        steps = self._steps.advance(done, items_max, bytes_max, timeout)
        return await to_the_end(self._port, steps)

    async def batches(self, start: Mark, end: Mark, *, timeout: float = TIMEOUT) -> list[Note]:
        """The batches between two marks: the same ones, whenever it is asked."""
        return await run_async(self._port, self._steps.batches(start, end, timeout))

    async def read(self, note: Note, *, timeout: float = TIMEOUT) -> list[Stretch]:
        """The items of a batch, or of a part of it; `LeaseLost` when they are not the group's."""
        return await run_async(self._port, self._steps.read(note, timeout))

    async def release(self, *, timeout: float = TIMEOUT) -> int:
        """Forgets the group; what it holds goes back to its positions. Returns how many."""
        return await to_the_end(self._port, self._steps.release(timeout))
