# Made of groups_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""A group of a queue: it takes items for good, again until it is past them; blocking."""

from collections.abc import Iterable

from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import Port, run
from snowmelt.client.queue.group_steps import BEGINNING, EVERYTHING, GroupRange, GroupSteps, Mark
from snowmelt.protocols.queue.api.calls import Located


class Group:
    """One group's part of a queue. `queue.group(name)` gives it.

    What a group is given has no time-out: it is the group's until it says that it is past it, or
    until `release`. Two groups of a queue share its items; each item goes to one of them.

    >>> import snowmelt, tempfile
    >>> from snowmelt.client.leases.delivered import part_bodies
    >>> from snowmelt.client.queue.group_steps import BEGINNING
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with snowmelt.open(folder) as cluster:
    ...         orders = cluster.fifo("orders")
    ...         _ = orders.put_many([b"one", b"two", b"three"])
    ...         loaders = orders.group("loaders")
    ...         first = loaders.advance(items_max=2)
    ...         located = loaders.locate(BEGINNING, first.end)
    ...         reading = orders.read(located.spans)
    ...         print([body for part in reading.parts for body in part_bodies(part)])
    ...         second = loaders.advance(first.end)  # done with the first two
    ...         again = loaders.advance(second.end)
    ...         print(first.end.count, second.end.count, again.end == second.end)
    [b'one', b'two']
    2 3 True
    """

    __reduce__ = stays("send the names of the queue and of the group, and take it there")

    def __init__(self, port: Port, steps: GroupSteps) -> None:
        self._port = port
        self._steps = steps

    def __repr__(self) -> str:
        return f"Group({self.name!r})"

    @property
    def name(self) -> str:
        """The name that the group's readers share."""
        return self._steps.name

    def advance(
        self,
        done: Mark = BEGINNING,
        *,
        items_max: int = EVERYTHING,
        bytes_max: int = EVERYTHING,
        below: Iterable[int] = (),
        timeout: float = TIMEOUT,
    ) -> GroupRange:
        """Says that all up to `done` is done with, for ever, and asks what comes next.

        `below` are `stats().bounds`, to be given only what was there then, by priority.
        What was given before and is not done is given again, limits or not. Raises `LeaseLost`
        when the group was released or begun anew by another, and `GroupHeld` when the group is
        done with more than `done`, or without a mark when it has begun to read.
        """
        steps = self._steps.advance(done, items_max, bytes_max, tuple(below), timeout)
        return run(self._port, steps)

    def locate(self, start: Mark, end: Mark, *, timeout: float = TIMEOUT) -> Located:
        """Where the items between two marks lie: the same ones, whenever it is asked."""
        return run(self._port, self._steps.locate(start, end, timeout))

    def release(self, *, timeout: float = TIMEOUT) -> int:
        """Forgets the group; what it holds goes back to its positions. Returns how many."""
        return run(self._port, self._steps.release(timeout))
