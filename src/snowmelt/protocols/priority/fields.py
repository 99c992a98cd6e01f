"""What the fields of messages may be, and those that most messages begin with."""

from typing import Annotated, Final

import msgspec

from snowmelt.core.names import OperationId
from snowmelt.protocols.priority.batches import Order
from snowmelt.protocols.priority.settings import Name

OPERATIONS_MAX: Final = 65_536
"""In one message; whoever sends stays below (`puts.py`)."""
BYTES_MAX: Final = 64 << 20

Era = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""A view: its epoch above, and below what tells it from another of the same number."""
Serial = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Index = Annotated[int, msgspec.Meta(ge=0, le=2)]
Operations = Annotated[tuple[OperationId, ...], msgspec.Meta(max_length=OPERATIONS_MAX)]
Weight = Annotated[int, msgspec.Meta(ge=1, le=BYTES_MAX)]
Place = Annotated[int, msgspec.Meta(ge=0, lt=OPERATIONS_MAX)]
"""Which of the parts of a message one part of its answer is about."""
Token = Order
"""Of a lease: the order of the get that was given it. A later lease has a greater one."""


class OfEra(msgspec.Struct, frozen=True, array_like=True):
    """Said in one era, and heard in no other."""

    era: Era


class OfQueue(OfEra, frozen=True, array_like=True):
    """About one queue."""

    queue: Name


class Numbered(OfQueue, frozen=True, array_like=True):
    """With the number that its answer has too."""

    serial: Serial
