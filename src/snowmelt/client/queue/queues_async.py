"""The queues of a cluster, as a program asks for them, with `await`."""

from typing import Any, Literal, Unpack, overload

from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.steps import KeepingPort, run_async
from snowmelt.client.fifo.face_async import Fifo
from snowmelt.client.fifo.steps import FifoSteps, list_queues
from snowmelt.client.priority.face_async import PriorityQueue
from snowmelt.client.priority.options import (
    OverlayOptions,
    PriorityOptions,
    overlaid,
    overlay_settings,
    priority_settings,
)
from snowmelt.client.priority.steps import PrioritySteps, list_priority_queues
from snowmelt.client.queue.codecs import codec_of
from snowmelt.client.queue.options import Producer, QueueOptions, queue_settings
from snowmelt.core.errors import BadOption


class Queues:
    """What asks for queues by their names, through one port."""

    _queues: KeepingPort

    @overload
    def fifo(
        self,
        name: str,
        *,
        ordering: Literal["master"] = "master",
        codec: str | None = None,
        producer: str | None = None,
        sequence: int | None = None,
        **options: Unpack[QueueOptions],
    ) -> Fifo: ...

    @overload
    def fifo(
        self,
        name: str,
        *,
        ordering: Literal["overlay"],
        codec: str | None = None,
        **options: Unpack[OverlayOptions],
    ) -> PriorityQueue: ...

    def fifo(
        self,
        name: str,
        *,
        ordering: str = "master",
        codec: str | None = None,
        producer: str | None = None,
        sequence: int | None = None,
        **options: Any,
    ) -> Fifo | PriorityQueue:
        """A queue, first in first out, made when it is first used; as `snowmelt.Cluster.fifo`."""
        if overlaid(ordering, producer, sequence):
            settings = overlay_settings(name, options)
            return PriorityQueue(
                self._queues, PrioritySteps(name, settings, fifo=True), codec_of(codec)
            )
        steps = FifoSteps(name, queue_settings(**options), Producer(producer, sequence))
        return Fifo(self._queues, steps, codec_of(codec))

    def priority(
        self, name: str, *, codec: str | None = None, **options: Unpack[PriorityOptions]
    ) -> PriorityQueue:
        """A queue, most urgent first; as `snowmelt.Cluster.priority`."""
        steps = PrioritySteps(name, priority_settings(name, **options))
        return PriorityQueue(self._queues, steps, codec_of(codec))

    async def queue(
        self, name: str, *, codec: str | None = None, timeout: float = TIMEOUT
    ) -> Fifo | PriorityQueue:
        """The queue of this name, of whichever kind it is; a fifo when there is none yet."""
        if name not in await run_async(self._queues, list_priority_queues(timeout)):
            return self.fifo(name, codec=codec)
        if name in await run_async(self._queues, list_queues(timeout)):
            allowed = "a name of one queue: there are a fifo and a priority queue of this name"
            raise BadOption("queue", name, allowed)
        return self.priority(name, codec=codec)

    async def queues(self, *, timeout: float = TIMEOUT) -> list[str]:
        """The names of all queues, fifos and priority queues."""
        names = await run_async(self._queues, list_queues(timeout))
        return sorted({*names, *await run_async(self._queues, list_priority_queues(timeout))})
