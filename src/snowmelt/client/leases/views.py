"""What an item, or the items of one lease, say of themselves: the same for both faces."""

from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from snowmelt.client.connection.staying import stays
from snowmelt.client.leases.delivered import (
    LeasedItems,
    joined,
    label_of,
    position_of,
    priority_of,
    put_at_of,
)
from snowmelt.client.queue.codecs import ValueCodec
from snowmelt.core.batch import Batch
from snowmelt.core.headers import Headers
from snowmelt.core.interval import Interval, Position
from snowmelt.protocols.queue.api.calls import ItemRun


class ItemOrigin(Protocol):
    """Where items are from."""

    codec: ValueCodec
    """In which its bodies are written."""

    @property
    def queue(self) -> str:
        """The name of the queue that they are from."""


W = TypeVar("W", bound=ItemOrigin)


class ItemView(Generic[W]):
    """One item, leased."""

    __slots__ = ("_counter", "_part", "_place", "_value", "body", "delivered")

    __reduce__ = stays("send item.body, and acknowledge here when the answer is back")

    def __init__(
        self,
        counter: W,
        delivered: LeasedItems,
        part: ItemRun,
        body: bytes,
        place: int,
    ) -> None:
        self._counter = counter
        self.delivered = delivered
        self._part = part
        self.body = body
        self._place = place

    def __repr__(self) -> str:
        return f"Item(position={self.position}, {len(self.body)} bytes)"

    @property
    def value(self) -> Any:
        """What was put, read by the queue's codec; its body where the queue has none.

        Raises `CodecError` when the body is not what the codec writes; `body` has it even so.
        """
        try:
            return self._value
        except AttributeError:  # read once, and only when it is wanted
            pass  # and outside of this, so that an error of the codec stands alone
        self._value: Any = self._counter.codec.value(self.body)
        return self._value

    @property
    def queue(self) -> str:
        """The name of the queue that it is from."""
        return self._counter.queue

    @property
    def position(self) -> Position:
        """Where it stands in its queue, among those of its priority."""
        return Position(position_of(self._place))

    @property
    def priority(self) -> int | float:
        """Its priority; 0 in a fifo."""
        return priority_of(self._part, self._place)

    @property
    def headers(self) -> Headers:
        """What was given along with it."""
        return label_of(self._part, self._place)[1]

    @property
    def key(self) -> bytes | None:
        """The key it was given, if any."""
        return label_of(self._part, self._place)[0]

    @property
    def failures(self) -> int:
        """How many deliveries of it failed before."""
        return self._part.failures

    @property
    def reason(self) -> str:
        """Why the last of those deliveries failed."""
        return self._part.reason

    @property
    def put_at(self) -> datetime | None:
        """When it was put, by the clock of the node that took it; None for items of before."""
        return put_at_of(self._part, self._place)

    @property
    def token(self) -> int:
        """Its lease's fencing token: a later lease has a higher one."""
        return self.delivered.token

    @property
    def leased(self) -> tuple[W, LeasedItems, Interval | None]:
        """Who tells its queue about it, its lease, and what of it this is; for steps."""
        return self._counter, self.delivered, self._where()

    @property
    def held(self) -> tuple[LeasedItems, Interval]:
        """Its lease, and what of it this is; for the queue's own use."""
        return self.delivered, self._where()

    def _where(self) -> Interval:
        return Interval(self._place, self._place + 1)


class ItemsView(Generic[W]):
    """Items under one lease."""

    __slots__ = ("_batch", "_counter", "_delivered")

    __reduce__ = stays("send its bodies as bytes, and acknowledge here when the answer is back")

    def __init__(self, counter: W, delivered: LeasedItems) -> None:
        self._counter = counter
        self._delivered = delivered
        self._batch: Batch | None = None

    def __len__(self) -> int:
        return len(self._delivered)

    def __repr__(self) -> str:
        return f"Items({len(self)} items, token={self.token})"

    @property
    def batch(self) -> Batch:
        """All bodies, in order. Copied once when they lay in several places, else not at all."""
        if self._batch is None:
            self._batch = joined(self._delivered.parts)
        return self._batch

    @property
    def positions(self) -> tuple[Interval, ...]:
        """The positions of its items in the queue, in order."""
        return self._delivered.positions_told

    @property
    def token(self) -> int:
        """The lease's fencing token: a later lease has a higher one."""
        return self._delivered.token

    @property
    def lost(self) -> str:
        """Why the lease, or a part of it, is known to be lost; empty while it is not."""
        return self._delivered.loss

    @property
    def delivered(self) -> LeasedItems:
        """The lease itself, for the queue's own use."""
        return self._delivered

    @property
    def leased(self) -> tuple[W, LeasedItems, Interval | None]:
        """The same with who tells its queue about it; for steps."""
        return self._counter, self._delivered, None
