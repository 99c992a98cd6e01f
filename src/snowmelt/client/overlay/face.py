# Made of face_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""A queue on the overlay, as a program holds it; blocking."""

from collections.abc import Iterable, Mapping
from typing import Any

from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.steps import Port, run
from snowmelt.client.leases.delivered import Delivered
from snowmelt.client.leases.steps import Seen, checked_count
from snowmelt.client.leases.taking import Taking
from snowmelt.client.overlay.steps import OverlayStatus, OverlaySteps
from snowmelt.client.queue.codecs import PLAIN, Codec
from snowmelt.client.queue.ranks import RANK_HIGHEST, checked_share
from snowmelt.client.together.joint_puts import Puts
from snowmelt.client.together.threads import TogetherThreads
from snowmelt.core.batch import Batch
from snowmelt.core.errors import BadOption
from snowmelt.core.interval import Interval, Position


class OverlayQueue(Taking[OverlaySteps]):
    """A queue that no node orders alone: `ordering="overlay"` of `cluster.fifo` or `.priority`.

    A fifo has one priority, 0. What was given back comes ahead of later ones. There are no groups,
    no staging, no named producers and no `pause`.

    >>> import snowmelt, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with snowmelt.open(folder) as cluster:
    ...         jobs = cluster.priority("jobs", ordering="overlay", priorities=3)
    ...         _ = jobs.put_many([(2, b"dust"), (0, b"fire"), (2, b"sweep")])
    ...         for item in jobs.consume(timeout=0):
    ...             print(item.priority, item.body)
    ...             item.ack()
    0 b'fire'
    2 b'dust'
    2 b'sweep'
    """

    def __init__(self, port: Port, steps: OverlaySteps, codec: Codec = PLAIN) -> None:
        super().__init__(port, steps, codec)
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

        After `delay` seconds it may be delivered. Of any priorities positions count together.
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
    ) -> tuple[Interval, ...]:
        """Puts bodies of one priority, or pairs of a priority and a body; returns where they are.

        That is one interval or more for each priority of each call, the least first. Positions tell
        which is first of two, and not how many are before.

        Up to 8 MiB and 32,768 items are one call, and in the queue together or not at all. More are
        several calls, each with its own `timeout`; when one fails, those before it are in the queue
        (a note of the exception says how many).
        """
        rows = self._codec.pairs(items, priority)
        puts = self._steps.put_many(rows, priority, headers, delay, timeout)
        return run(self._port, puts)

    def _leased(
        self, before: Delivered | None, items_max: int, bytes_max: int, timeout: float
    ) -> Delivered:
        """What was put here before is there before: it may be more urgent."""
        self._puts.send(timeout)
        return super()._leased(before, items_max, bytes_max, timeout)

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

    def stats(self, *, timeout: float = TIMEOUT) -> OverlayStatus:
        """How the queue is: how many items wait, by priority, are leased, delayed, dead."""
        return run(self._port, self._steps.stats(timeout))

    def alter(self, *, timeout: float = TIMEOUT, **options: Any) -> None:
        """Refused: the settings of a queue on the overlay are as they were when it was made."""
        del timeout
        allowed = (
            'those of a queue without ordering="overlay": make one of another name, and put there '
            "what you get here"
        )
        raise BadOption("settings to alter", ", ".join(options) or "none", allowed)

    def redrive(self, *, timeout: float = TIMEOUT) -> int:
        """Brings dead items back to their positions; returns how many."""
        return run(self._port, self._steps.redrive(timeout))
