"""Whether an Arrow stream is as large as it looks: its messages say which of them would grow.

pyarrow decompresses whatever a stream says, and a few bytes may say gigabytes. And of a dictionary
that is added to it makes a new one each time, which the batches before keep: memory grows with the
square of the stream. What says so is in each message's head, a flatbuffer (`Message.fbs` of the
Arrow format); two of its tables matter.
"""

import struct
from typing import Any, Final

from snowmelt.core.batch import Buffer

_DICTIONARY_BATCH: Final = 2
_RECORD_BATCH: Final = 3


def check_plain(arrow: Any, body: Buffer) -> None:
    """Raises `ValueError` for a stream that compresses anything, or adds to a dictionary."""
    messages = arrow.ipc.MessageReader.open_stream(arrow.py_buffer(body))
    for message in messages:
        try:
            why = _grows(bytes(message.metadata))
        except (struct.error, IndexError):
            raise ValueError("the head of a message is no head") from None
        if why:
            raise ValueError(why)


def _grows(head: bytes) -> str:
    """Why a message may be much larger than it looks; empty when it is not."""
    message = _table(head, 0)
    kind, batch = _field(head, message, 1), _field(head, message, 2)
    if not (kind and batch):
        return ""
    table = _table(head, batch)
    if head[kind] == _DICTIONARY_BATCH:
        adds, inner = _field(head, table, 2), _field(head, table, 1)
        if adds and head[adds]:
            return "it adds to a dictionary, whose size would be unknown"
        compressed = inner and _field(head, _table(head, inner), 3)
    else:
        compressed = head[kind] == _RECORD_BATCH and _field(head, table, 3)
    return "it is compressed, so its size is unknown" if compressed else ""


def _table(head: bytes, at: int) -> int:
    """Where the table is that is pointed to here."""
    offset: int = struct.unpack_from("<I", head, at)[0]
    return at + offset


def _field(head: bytes, table: int, number: int) -> int:
    """Where a field of a table is; 0 when it has none."""
    (back,) = struct.unpack_from("<i", head, table)
    shape = table - back
    if shape < 0:
        raise ValueError("the head of a message is no head")
    (size,) = struct.unpack_from("<H", head, shape)
    slot = 4 + 2 * number
    if slot >= size:
        return 0
    offset: int = struct.unpack_from("<H", head, shape + slot)[0]
    return table + offset if offset else 0
