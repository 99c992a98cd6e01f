"""What an object, or those of one loan, say of themselves: the same for both faces."""

from typing import Any, Generic, TypeVar

from snowmelt.client.connection.staying import stays
from snowmelt.client.pool.bodies import joined
from snowmelt.client.pool.loans import ClientLoan
from snowmelt.client.queue.codecs import PLAIN, ValueCodec
from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.calls import Got

P = TypeVar("P")
"""The port by which a face asks."""


class ObjectView(Generic[P]):
    """One object, on loan."""

    __slots__ = ("_codec", "_loan", "_port", "_value", "body", "intervals", "open")
    __reduce__ = stays("send its body, and acknowledge here when the answer is back")

    def __init__(
        self,
        port: P,
        loan: ClientLoan,
        body: Buffer,
        intervals: tuple[Interval, ...] = (),
        codec: ValueCodec = PLAIN,
    ) -> None:
        self._codec = codec
        self._port = port
        self._loan = loan
        self.intervals = intervals
        """Which of its loan it is; empty for all."""
        self.body = body
        self.open = True
        """Whether it is neither acknowledged nor given back."""

    def __repr__(self) -> str:
        return f"Object({len(self.body)} bytes)"

    @property
    def value(self) -> Any:
        """What was put, read by the pool's codec; its body where it has none.

        Raises `CodecError` when the body is not what the codec writes; `body` has it even so.
        """
        try:
            return self._value
        except AttributeError:  # read once, and only when it is wanted
            self._value: Any = self._codec.value(self.body)
        return self._value

    @property
    def producer(self) -> NodeId:
        """The name of the producer that made it."""
        return self._loan.producer

    def closed(self) -> ClientLoan:
        """It is not this program's any more, and its machine is to hear of it."""
        loan = self._loan.begin(int(self.open))
        self.open = False
        for one in self.intervals:
            loan.ended.add(one.start)  # should it be made once more
        return loan


class ObjectsView(Generic[P]):
    """Objects of one producer, under one loan."""

    __slots__ = ("_codec", "_loan", "_port", "_spans", "batch")
    __reduce__ = stays("send its bodies, and acknowledge here when the answer is back")

    def __init__(self, port: P, loan: ClientLoan, got: Got, codec: ValueCodec = PLAIN) -> None:
        self._codec = codec
        self._port = port
        self._spans = got.spans
        self._loan = loan
        self.batch: Batch = joined(got.spans, got.blob)
        """All bodies, as one column; not copied."""

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def open(self) -> bool:
        """Whether any of them is neither acknowledged nor given back."""
        return self._loan.left > 0

    def __repr__(self) -> str:
        return f"Objects({len(self)} objects, {self.batch.size} bytes)"
