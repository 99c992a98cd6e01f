"""What a step is given before its end, where nothing is waited for: the same for both faces."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from snowmelt.client.connection.session import checked
from snowmelt.client.leases.views import ItemsView, ItemView
from snowmelt.client.queue.open_once import root
from snowmelt.client.queue.options import Key
from snowmelt.client.queue.step_parts import StepParts
from snowmelt.core.errors import BadOption


class StepView:
    """Gathers what is acknowledged and put."""

    _kind: ClassVar[Any]
    """Of the queues that it works with."""

    def __init__(self, port: object, timeout: float) -> None:
        self._root = root(port)
        self._timeout = checked(timeout)
        self._parts = StepParts()
        self._begun = False
        self.waiting = 0
        """Once it has ended: in how many queues its items will come in, but had no room, or no node
        was there, until its time was over."""

    def _begin(self) -> Self:
        if self._begun:
            raise BadOption("step", "one that was begun already", "each once: begin another")
        self._begun = True
        return self

    def ack(self, held: ItemView[Any] | ItemsView[Any]) -> None:
        """What was taken elsewhere is acknowledged with this step.

        If the step fails, it stays with whoever took it.
        """
        if not isinstance(held, ItemView | ItemsView):
            raise BadOption("item", held, "an Item or Items of a queue of this cluster")
        sender, delivered, where = held.leased
        if root(sender.port) is not self._root:
            raise BadOption("item", held, "one of a queue of the cluster whose step this is")
        self._parts.take(sender, delivered, where)

    def put(
        self,
        queue: Any,
        body: Any,
        *,
        priority: float | None = None,
        key: Key | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        delay: float = 0.0,
    ) -> None:
        """Puts an item when the step ends, as the queue's own `put` would; nothing waits for that.

        Items of one queue come in one behind the other, in their order.
        """
        own = self._own(queue)
        written = own._codec.body(body)  # noqa: SLF001
        steps, tracing = own._steps, own.tracing  # noqa: SLF001
        with tracing.put(own.name, headers) as traced:
            self._parts.put(steps, written, priority, key, traced.headers, delay)

    def _own(self, queue: Any) -> Any:
        if not isinstance(queue, self._kind):
            allowed = "a queue of this cluster, as cluster.fifo(NAME) gives it"
            raise BadOption("queue", queue, allowed)
        if root(queue._port) is not self._root:  # noqa: SLF001
            raise BadOption("queue", queue, "one of the cluster whose step this is")
        return queue
