# Made of groups_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""A group of a priority queue: items for good, most urgent first, told until passed; blocking.

What it is given, and why that is the same again, is said in `group_steps.py`.
"""

from snowmelt.client.connection.forking import Own
from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import Port, run
from snowmelt.client.leases.leasing import to_the_end
from snowmelt.client.priority.group_steps import PriorityGroupSteps
from snowmelt.client.priority.notes import Given, Note, Stretch
from snowmelt.client.queue.group_steps import BEGINNING, EVERYTHING, Mark


class PriorityGroup:
    """One group's part of a priority queue. `queue.group(name)` gives it.

    What a group is given has no time-out: it is the group's until it says that it is past it, or
    until `release`. Marks count batches. One program at a time may work under a group's name.

    >>> import snowmelt, tempfile
    >>> from snowmelt.client.queue.group_steps import BEGINNING
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with snowmelt.open(folder) as cluster:
    ...         jobs = cluster.fifo("jobs", ordering="overlay")
    ...         _ = jobs.put_many([b"fire", b"mail", b"dust"])
    ...         spark = jobs.group("spark")
    ...         first = spark.advance(items_max=2)
    ...         (note,) = spark.batches(BEGINNING, first.end)
    ...         for piece in spark.read(note):
    ...             print(piece.priority, piece.blob)
    ...         second = spark.advance(first.end)  # done with the first two
    ...         status = jobs.stats()
    ...         print(first.end.count, second.end.count, status.leased)
    0 b'firemail'
    1 2 1
    """

    __reduce__ = stays("send the names of the queue and of the group, and take it there")

    def __init__(self, port: Port, steps: PriorityGroupSteps) -> None:
        what = f"this group of {steps.queue}"
        self._port = Own(port, what, "take a group in this one")
        self._steps = steps

    def __repr__(self) -> str:
        return f"PriorityGroup({self.name!r})"

    @property
    def name(self) -> str:
        """The group's name."""
        return self._steps.name

    def advance(
        self,
        done: Mark = BEGINNING,
        *,
        items_max: int = EVERYTHING,
        bytes_max: int = EVERYTHING,
        timeout: float = TIMEOUT,
    ) -> Given:
        """Says that all up to `done` is done with, for ever, and takes the most urgent there are.

        What was given before and is not done with is told again, limits or not, and nothing is
        added. Raises `LeaseLost` and `GroupHeld` as a fifo's group does. Threads that share it take
        turns.
        """
        steps = self._steps.advance(done, items_max, bytes_max, timeout)
        return to_the_end(self._port, steps)

    def batches(self, start: Mark, end: Mark, *, timeout: float = TIMEOUT) -> list[Note]:
        """The batches between two marks: the same ones, whenever it is asked."""
        return run(self._port, self._steps.batches(start, end, timeout))

    def read(self, note: Note, *, timeout: float = TIMEOUT) -> list[Stretch]:
        """The items of a batch, or of a part of it; `LeaseLost` when they are not the group's."""
        return run(self._port, self._steps.read(note, timeout))

    def release(self, *, timeout: float = TIMEOUT) -> int:
        """Forgets the group; what it holds goes back to its positions. Returns how many."""
        return to_the_end(self._port, self._steps.release(timeout))
