"""What a cluster has, or an open folder, as a program asks for it, with `await`."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from os import PathLike
from typing import Literal, Self, Unpack

from snowmelt.client.backup.face_async import Backup, Progress, back_up, export, restore
from snowmelt.client.backup.rows import Row
from snowmelt.client.baton.face_async import Baton
from snowmelt.client.baton.renewer_async import HoldRenewer
from snowmelt.client.baton.steps import TURN_SECONDS
from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.steps import KeepingPort, run_async
from snowmelt.client.counter.face_async import Counter
from snowmelt.client.counter.state import counter_baton
from snowmelt.client.fifo.face_async import Fifo
from snowmelt.client.fifo.steps import FifoSteps, queue_names
from snowmelt.client.leases.steps import checked_flag
from snowmelt.client.multicast.face_async import Multicast
from snowmelt.client.multicast.steps import TopicSteps
from snowmelt.client.priority.face_async import PriorityQueue
from snowmelt.client.priority.steps import RankedSteps
from snowmelt.client.queue.codecs import codec_of
from snowmelt.client.queue.deleting import delete
from snowmelt.client.queue.handle_cache import HandleCache
from snowmelt.client.queue.options import (
    PriorityOptions,
    QueueOptions,
    queue_settings,
    ranked_settings,
)
from snowmelt.client.queue.overviews import QueueOverview, WhoIsHere, overview
from snowmelt.client.queue.step_async import STEP_SECONDS, Step
from snowmelt.client.tracing import found
from snowmelt.core.errors import BadOption, SnowmeltError
from snowmelt.core.names import queue_name
from snowmelt.protocols.queue.api.deletes import Deleted
from snowmelt.protocols.queue.api.partition_names import known_name, whole_of


class Queues(ABC):
    """What asks for queues by their names, through one port; and for batons and topics."""

    def __init__(self, port: KeepingPort, renewer: HoldRenewer) -> None:
        self._queues = port
        self._renewer = renewer
        self._known = HandleCache()
        self._tracing = found()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            await self.close()
        except SnowmeltError as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # the first failure is the one to raise

    @abstractmethod
    async def close(self) -> None:
        """Ends the loops over its queues, and leaves its pools."""

    def fifo(
        self,
        name: str,
        *,
        codec: str | None = None,
        producer: str | None = None,
        sequence: int | None = None,
        **options: Unpack[QueueOptions],
    ) -> Fifo:
        """A queue, first in first out, made when it is first used.

        With options (`replicas`, `durable_copies`, `flush`, `lease`, `max_deliveries`, `max_items`,
        `max_bytes`, `inline_max`, `partitions`) it is made with these, and `QueueExists` is raised
        if it is there with others. Without any it is taken as it is. `replicas` are 3, or all nodes
        present, where nobody says how many. `flush` is "always", or how many seconds a flush may be
        put off; `lease` is in seconds. The bodies of a put with more than `inline_max` bytes lie on
        any `replicas` nodes, and not with the queue's leader and followers.

        With `partitions` it is as many queues, each with a leader of its own, and all of them have
        one order. Their number is settled when it is made. "log/3" names one partition of "log", as
        a queue by itself; its groups are its own.

        `producer` names this program over its restarts, so that a put with a `sequence` number that
        was used is not put again; `sequence` here is the first of numbers given by themselves.

        `codec` is how values become bodies: "text", "json", "msgpack" or "arrow"; `put` takes the
        value then, and `item.value` gives it back. Nodes see bytes.
        """
        steps = self._known.steps(FifoSteps, name, queue_settings(**options), producer, sequence)
        return Fifo(self._queues, steps, codec_of(codec), self._tracing)

    def priority(
        self,
        name: str,
        *,
        codec: str | None = None,
        producer: str | None = None,
        sequence: int | None = None,
        **options: Unpack[PriorityOptions],
    ) -> PriorityQueue:
        """A queue, most urgent first, made when it is first used.

        `priorities` are `int`, any whole number of 64 bits, unless you say `float`, or how many
        there are (up to 256): then they are 0 to one below it. The least is the most urgent, or the
        largest with `largest_first`. All else is as `fifo` has it.
        """
        steps = self._known.steps(RankedSteps, name, ranked_settings(**options), producer, sequence)
        return PriorityQueue(self._queues, steps, codec_of(codec), self._tracing)

    async def queue(
        self, name: str, *, codec: str | None = None, timeout: float = TIMEOUT
    ) -> Fifo | PriorityQueue:
        """The queue of this name, of whichever kind it is; a fifo when there is none yet."""
        known_name(name)
        told = await run_async(self._queues, queue_names(timeout))
        if whole_of(name) in told.ranked:
            return self.priority(name, codec=codec)
        return self.fifo(name, codec=codec)

    async def queues(
        self,
        *,
        kind: Literal["fifo", "priority", "parted"] | None = None,
        timeout: float = TIMEOUT,
    ) -> list[str]:
        """The names of all queues, or of those of one kind.

        `parted` are fifos and priority queues of several partitions.
        """
        if kind not in (None, "fifo", "priority", "parted"):
            raise BadOption("kind", kind, "fifo, priority, parted, or None for all")
        told = await run_async(self._queues, queue_names(timeout))
        some = {"priority": told.ranked, "parted": told.parted}
        names = set(some.get(kind or "", told.names))
        return sorted(names.difference(told.ranked if kind == "fifo" else ()))

    def step(self, timeout: float = STEP_SECONDS) -> Step:
        """What is taken, put and acknowledged within its block happens together, or not at all.

        `timeout` is how long its end may take.
        """
        return Step(self._queues, timeout)

    async def overview(self, *, timeout: float = TIMEOUT) -> list[QueueOverview]:
        """How all queues are, by name: the `stats` of each, and which nodes are away.

        It costs a call for each node, however many queues there are.

        >>> import snowmelt.aio, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     async with snowmelt.aio.open(folder) as cluster:
        ...         await cluster.fifo("orders").put_many([b"one", b"two"])
        ...         [(one.name, one.status.ready) for one in await cluster.overview()]
        (Interval(start=0, stop=2),)
        [('orders', 2)]
        """
        return await run_async(self._queues, overview(self._who_is_here(), timeout))

    async def delete(
        self,
        name: str,
        *,
        if_empty: bool = False,
        lost: bool = False,
        moved_to: str | None = None,
        timeout: float = TIMEOUT,
    ) -> Deleted:
        """Deletes a queue, with all that is in it; returns how much that was.

        Its name is free afterwards, for a queue of any kind. A program, a loop or a worker that
        uses this one gets `QueueDeleted`, or `LeaseLost` for items that it holds. With `if_empty` a
        queue with anything in it stays. When no node that is present knows what is in it, since its
        nodes are away or lost, it stays, unless you say `lost`.

        With `moved_to` it has to be empty, and is known as moved: whoever uses this name gets
        `QueueMoved`, which names the other queue, until you delete this one once more.

        >>> import snowmelt.aio, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     async with snowmelt.aio.open(folder) as cluster:
        ...         await cluster.fifo("orders").put_many([b"one", b"two"])
        ...         told = await cluster.delete("orders")
        ...         told.items, await cluster.queues()
        (Interval(start=0, stop=2),)
        (2, [])
        """
        flags = checked_flag("if_empty", if_empty), checked_flag("lost", lost)
        steps = delete(queue_name(name), *flags, timeout, moved_to)
        told = await run_async(self._queues, steps)
        self._known.forget(name)
        return told

    async def backup(
        self,
        name: str,
        path: str | PathLike[str],
        *,
        timeout: float = TIMEOUT,
        progress: Progress | None = None,
    ) -> Backup:
        """Copies a queue into a new file, as it is at one moment, while it goes on.

        What is leased is ready in the copy. `timeout` is for each call, of which there may be
        many; `progress` is called with how many items are done, and of how many.

        >>> import snowmelt.aio, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     async with snowmelt.aio.open(folder + "/queues") as cluster:
        ...         where = await cluster.fifo("orders").put_many([b"one", b"two"])
        ...         (await cluster.backup("orders", folder + "/orders.backup")).items
        ...         told = await cluster.restore(folder + "/orders.backup", name="again")
        ...         (await cluster.fifo("again").get()).body
        2
        b'one'
        """
        return await back_up(self._queues, name, path, timeout, progress)

    async def restore(
        self,
        path: str | PathLike[str],
        *,
        name: str | None = None,
        replicas: int | None = None,
        timeout: float = TIMEOUT,
        progress: Progress | None = None,
    ) -> Backup:
        """Makes a queue of a backup: under its own name, or another; with so many copies, if said.

        Nothing is made of a file that is damaged. Raises `QueueExists` for a queue that is there.
        One that broke off goes on where it was. Until it is done nobody else may use the queue.
        """
        return await restore(self._queues, path, name, replicas, timeout, progress)

    def export(
        self, name: str, *, timeout: float = TIMEOUT, progress: Progress | None = None
    ) -> AsyncIterator[Row]:
        """All items of a queue one by one, as a backup has them; it takes none.

        They come in the order of their positions, not that of their priorities. When the leader
        changes meanwhile it ends with `Unavailable`.

        >>> import snowmelt.aio, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     async with snowmelt.aio.open(folder) as cluster:
        ...         where = await cluster.fifo("orders").put_many([b"one", b"two"])
        ...         [row.body async for row in cluster.export("orders")]
        [b'one', b'two']
        """
        return export(self._queues, name, timeout, progress)

    def baton(self, name: str, timeout: float = TURN_SECONDS) -> Baton:
        """A lock that heals when nodes die, whose holder carries a value of up to 1 MiB.

        In `async with cluster.baton("index") as held:` a turn is waited for as long as `timeout`
        says, and given up in the end. In an open folder it is a lock within this process; the next
        to open the folder finds the value that was last given up, or saved.
        """
        return Baton(self._renewer.port, self._renewer, name, timeout)

    def counter(self, name: str, timeout: float = TURN_SECONDS) -> Counter:
        """Numbers that nobody gets twice; `timeout` is how long a turn is waited for."""
        return Counter(self.baton(counter_baton(name), timeout))

    def multicast(self, name: str, *, codec: str | None = None) -> Multicast:
        """A topic: all subscribers get the same messages in the same order."""
        steps = TopicSteps(self._renewer.home, name)
        return Multicast(self._renewer.port, steps, codec_of(codec))

    def _who_is_here(self) -> WhoIsHere | None:
        """Asks which nodes there are; None where there is one."""
        return None
