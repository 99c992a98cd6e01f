"""The broker that a program of Taskiq's makes."""

import asyncio
import gc
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, Final

from taskiq import AckableMessage, AsyncBroker, BrokerMessage

from snowmelt.core.errors import BadOption, LeaseLost, QueueExists, SnowmeltError
from snowmelt_doors.places import AWAY, check_ranked
from snowmelt_doors.taskiq.connecting import Connecting

_LOG: Final = logging.getLogger("taskiq.snowmelt")
_WAIT: Final = 1.0
_PAUSE: Final = 0.2


class SnowmeltBroker(AsyncBroker):
    """A broker for Taskiq.

    `where` is the URL of a cluster, `snowmelt://HOST:PORT`, or the path of a folder for a program
    of one process. `queue_name` is the queue of tasks whose label `queue_name` says no other, and
    the one that workers listen to. They lease `prefetch` messages at once, or as many as they work
    off in a moment.

    >>> import asyncio, tempfile
    >>> async def work(folder):
    ...     broker = SnowmeltBroker(folder)
    ...     @broker.task
    ...     async def count(words: str) -> int:
    ...         return len(words.split())
    ...     await broker.startup()
    ...     await count.kicker().with_labels(delay=0.1).kiq("to be or not to be")
    ...     async for message in broker.listen():
    ...         print(broker.formatter.loads(message.data).args)
    ...         await message.ack()
    ...         break
    ...     await broker.shutdown()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(work(folder))
    ['to be or not to be']
    """

    def __init__(
        self,
        where: str | os.PathLike[str],
        *,
        queue_name: str = "default",
        namespace: str = "taskiq",
        prefetch: int | None = None,
        token: str | None = None,
        user: str | None = None,
    ) -> None:
        super().__init__()
        self.queue_name = queue_name
        self.namespace = namespace
        self._prefetch = prefetch
        self._connecting = Connecting(where, token, user)
        self._sources: list[Any] = []
        self._queues: dict[str, Any] = {}
        self._returns: set[asyncio.Task[None]] = set()

    async def shutdown(self) -> None:
        """Acknowledges what is done, gives back the rest, and disconnects."""
        try:
            await super().shutdown()
        finally:
            sources, self._sources, self._queues = self._sources, [], {}
            await asyncio.gather(*self._returns)
            for one in sources:
                with suppress(*AWAY):
                    await one.close()
            await self._connecting.close()

    async def kick(self, message: BrokerMessage) -> None:
        """Puts a task safely into its queue; it may be worked on after its label's `delay`."""
        labels = message.labels
        queue = await self.queue_of(str(labels.get("queue_name") or self.queue_name))
        priority = _number("priority", labels.get("priority") or 0)
        if priority != int(priority):
            raise BadOption("priority", labels["priority"], "a whole number")
        delay = max(0.0, _number("delay", labels.get("delay") or 0))
        await queue.put(message.message, priority=int(priority), delay=delay)

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        """Messages for a worker, for ever."""
        source = (await self._listened()).intake(self._prefetch)
        self._sources.append(source)
        came: asyncio.Queue[Any] = asyncio.Queue(1)
        pump = asyncio.create_task(_pump(source, came))
        try:
            while True:
                item = await came.get()
                if isinstance(item, BaseException):
                    raise item
                yield AckableMessage(data=item.body, ack=_Ack(item, self._give_back))
        finally:  # what tasks have in hand stays theirs until the broker shuts down
            pump.cancel()
            with suppress(asyncio.CancelledError):
                await pump
            with suppress(*AWAY):
                while not came.empty():
                    await came.get_nowait().release()
                await source.rest()
            # What a cancelled receiver dropped may hang in a circle with the error that ended it.
            asyncio.get_running_loop().call_later(_PAUSE, gc.collect)

    async def queue_of(self, queue_name: str) -> Any:
        """The queue of the cluster behind one of Taskiq's; made when it is not there."""
        if queue_name not in self._queues:
            name = f"{self.namespace}.{queue_name}" if self.namespace else queue_name
            queue = self._connecting.cluster.priority(name, priorities=int, largest_first=True)
            try:
                await queue.create()
            except QueueExists:  # made with other settings, of a lease perhaps, which are kept
                queue = self._connecting.cluster.priority(name)
                check_ranked(name, (await queue.stats()).settings, 0)
            self._queues[queue_name] = queue
        return self._queues[queue_name]

    def _give_back(self, item: Any) -> None:
        """A message was dropped and not acknowledged: its receiver was cancelled, say."""
        if self._sources:  # else it went back with its source
            returning = asyncio.create_task(_returned(item))
            self._returns.add(returning)
            returning.add_done_callback(self._returns.discard)

    async def _listened(self) -> Any:
        """The queue that is listened to, once its cluster is there."""
        while True:
            try:
                return await self.queue_of(self.queue_name)
            except AWAY as error:
                _LOG.warning("The cluster is out of reach: %s", error)
                await asyncio.sleep(_PAUSE)


class _Ack:
    """Acknowledges one message; it goes back when it is dropped without that."""

    def __init__(self, item: Any, give_back: Callable[[Any], None]) -> None:
        self._item = item
        self._give_back = give_back
        self._loop = asyncio.get_running_loop()
        self._said = False

    async def __call__(self) -> None:
        self._said = True
        try:
            await self._item.ack()
        except LeaseLost as error:
            _LOG.warning("A task is done, and will be done again by another: %s", error)

    def __del__(self) -> None:
        if not self._said:
            with suppress(RuntimeError):  # the loop is closed, and its leases are not renewed
                self._loop.call_soon_threadsafe(self._give_back, self._item)


async def _returned(item: Any) -> None:
    with suppress(SnowmeltError):
        await item.release()


async def _pump(source: Any, came: asyncio.Queue[Any]) -> None:
    """One task asks for all items: an item that may kill its worker is alone until it asks more."""
    silent = False
    while True:
        try:
            item = await source.next(_WAIT)
        except AWAY as error:
            if not silent:  # said once, for it may last
                _LOG.warning("The cluster is out of reach: %s", error)
            silent = True
            await asyncio.sleep(_PAUSE)
            continue
        except SnowmeltError as error:
            await came.put(error)
            return
        silent = False
        if item is not None:
            try:
                await came.put(item)
            except asyncio.CancelledError:  # the one before was not fetched yet
                await _returned(item)
                raise


def _number(label: str, given: Any) -> float:
    """A label's number; labels come as text as well."""
    try:
        return float(given)
    except (TypeError, ValueError):
        raise BadOption(label, given, "a number") from None
