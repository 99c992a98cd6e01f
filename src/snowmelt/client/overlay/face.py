# Made of face_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""A fifo on the overlay, as a program holds it; blocking."""

from collections.abc import Iterable, Mapping
from typing import Any

from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.steps import Port, run
from snowmelt.client.leases.steps import Seen, checked_count
from snowmelt.client.leases.taking import Taking
from snowmelt.client.priority.group_steps import PriorityGroupSteps
from snowmelt.client.priority.groups import PriorityGroup
from snowmelt.client.priority.parts import RANK_HIGHEST, checked_share
from snowmelt.client.priority.staging import (
    HOLD,
    Holding,
    Receipt,
    check_there,
    count_of,
    not_staged,
)
from snowmelt.client.priority.steps import PriorityStatus, PrioritySteps
from snowmelt.client.queue.codecs import PLAIN, Codec
from snowmelt.client.queue.group_steps import group_name
from snowmelt.client.together.joint_puts import Puts
from snowmelt.client.together.threads import TogetherThreads
from snowmelt.core.batch import Batch
from snowmelt.core.errors import NotStaged
from snowmelt.core.interval import Position


class OverlayFifo(Taking[PrioritySteps]):
    """A fifo that no node orders alone. `cluster.fifo(name, ordering="overlay")` gives it.

    It is a queue of one priority; what was given back comes ahead of later ones.

    >>> import snowmelt, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with snowmelt.open(folder) as cluster:
    ...         log = cluster.fifo("log", ordering="overlay")
    ...         log.put_many([b"one", b"two"])
    ...         for item in log.consume(timeout=0):
    ...             print(item.body)
    ...             item.ack()
    2
    b'one'
    b'two'
    """

    def __init__(self, port: Port, steps: PrioritySteps, codec: Codec = PLAIN) -> None:
        super().__init__(port, steps, codec)
        self._holding = Holding(steps)
        self._puts = TogetherThreads(self._port, Puts(steps.put))

    def put(
        self,
        body: Any,
        *,
        priority: float = 0,
        headers: Mapping[str, str | bytes] | None = None,
        delay: float = 0.0,
        timeout: float = TIMEOUT,
    ) -> Position:
        """Puts an item; returns its position in its priority once it is safe. Raises `Full`.

        After `delay` seconds it may be delivered.
        """
        one = self._steps.one(self._codec.body(body), priority, headers, delay, timeout)
        return Position(self._puts.ask(one))

    def put_many(
        self,
        items: Iterable[Any] | Batch,
        *,
        priority: float | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        delay: float = 0.0,
        timeout: float = TIMEOUT,
    ) -> int:
        """Puts bodies of one priority, or pairs of a priority and a body; returns how many.

        Up to 8 MiB and 32,768 items are one call, and in the queue together or not at all. More are
        several calls, each with its own `timeout`; when one fails, those before it are in the queue
        (a note of the exception says how many).
        """
        rows = self._codec.pairs(items, priority)
        return run(self._port, self._steps.put_many(rows, priority, headers, delay, timeout))

    # --- staged, then published -------------------------------------------------------------------

    def stage(
        self,
        items: Iterable[Any] | Batch,
        *,
        priority: float | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        delay: float = 0.0,
        hold: float = HOLD,
        timeout: float = TIMEOUT,
    ) -> Receipt:
        """Stores items safely, and for nobody to get: `publish` brings them into the queue.

        What is not published within `hold` seconds is erased. `delay` counts from when it is.
        """
        rows = self._codec.pairs(items, priority)
        steps = self._holding.stage(rows, priority, headers, delay, hold, timeout)
        return run(self._port, steps)

    def publish(self, receipt: Receipt, *, timeout: float = TIMEOUT) -> None:
        """What was staged may be got. Said again it does nothing, whatever became of it since.

        Raises `NotStaged` when some of it was erased.
        """
        erased = self.published(receipt, timeout=timeout)
        if erased:
            raise NotStaged(not_staged(self.name, receipt, erased))

    def published(self, receipt: Receipt, *, timeout: float = TIMEOUT) -> int:
        """As `publish`; but of what was erased it is told how many, and that is final."""
        told = run(self._port, self._holding.publish(receipt, timeout))
        check_there(self.name, told, timeout)
        return count_of(told.lost)

    # --- for groups -------------------------------------------------------------------------------

    def group(self, name: str) -> PriorityGroup:
        """A group, to which items are given for good: told again until it is past them.

        This is for programs that must do everything exactly once, and for Spark.
        """
        return PriorityGroup(self._port, PriorityGroupSteps(self._steps, group_name(name)))

    # --- the queue as a whole ---------------------------------------------------------------------

    def select(self, rank: int, *, timeout: float = TIMEOUT) -> Seen | None:
        """The item of this rank among those that are ready, 1 being the next; it stays there.

        None when fewer are ready.
        """
        checked_count("rank", rank, RANK_HIGHEST)
        return run(self._port, self._steps.select(rank, None, timeout))

    def quantile(self, share: float, *, timeout: float = TIMEOUT) -> Seen | None:
        """The item behind this share of those that are ready: 0.5 is the median.

        None when none is ready.
        """
        checked_share(share)
        return run(self._port, self._steps.select(0, share, timeout))

    def stats(self, *, timeout: float = TIMEOUT) -> PriorityStatus:
        """How the queue is: how many items wait, by priority, are leased, delayed, dead."""
        return run(self._port, self._steps.stats(timeout))

    def redrive(self, *, timeout: float = TIMEOUT) -> int:
        """Brings dead items back to their positions; returns how many."""
        return run(self._port, self._steps.redrive(timeout))
