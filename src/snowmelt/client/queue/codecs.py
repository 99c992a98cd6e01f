"""What a body means: `codec="json"` and its like turn a value into bytes, and bytes into a value.

1. A codec concerns the programs that put and get: nodes see bytes, and `item.body` always has them.
   Without a codec a value is its body.
2. Nothing is put of a value that can't be written, or that would come back as another without a
   word, as JSON's NaN would: that raises `CodecError`.
3. A body is read when its `value` is asked for. One that can't be read raises `CodecError` there,
   where the item is handled. It fails like any item whose handler raises: it comes again, and is
   dead in the end. A loop that asks for no value never stumbles over it.
4. A `Batch` has bodies that are written already: it is put as it is.
5. What a body makes in memory is bounded by its own size: nothing is unpickled, and an Arrow stream
   is not decompressed, and adds to no dictionary.

Whether an Arrow stream is as large as it looks: its messages say which of them would grow.

pyarrow decompresses whatever a stream says, and a few bytes may say gigabytes. And of a dictionary
that is added to it makes a new one each time, which the batches before keep: memory grows with the
square of the stream. What says so is in each message's head, a flatbuffer (`Message.fbs` of the
Arrow format); two of its tables matter.
"""

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from math import isfinite
from typing import Any, Final

import msgspec

from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.errors import BadOption, CodecError, in_short

_DICTIONARY_BATCH: Final = 2
_RECORD_BATCH: Final = 3
_BYTES: Final = (bytes, bytearray, memoryview)


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


class ValueCodec:
    """How values are written, and read; this one takes bytes, which are both.

    >>> codec_of("json").body({"id": 7}), codec_of("json").value(b'{"id": 7}')
    (b'{"id":7}', {'id': 7})
    """

    def __init__(
        self,
        name: str = "",
        write: Callable[[Any], Buffer] | None = None,
        read: Callable[[Buffer], Any] | None = None,
    ) -> None:
        self.name = name
        self._write = write
        self._read = read

    def __repr__(self) -> str:
        return f"Codec({self.name!r})"

    def body(self, value: Any) -> Any:
        """A value's bytes; raises `CodecError` (rule 2)."""
        if self._write is None:
            return value
        try:
            return self._write(value)
        except Exception as error:
            raise CodecError(
                f"{in_short(value)} can't be written as {self.name}: {error}"
            ) from error

    def value(self, body: Buffer) -> Any:
        """What the bytes are of; raises `CodecError` (rule 3).

        >>> codec_of("json").value(b"plain text")
        Traceback (most recent call last):
        snowmelt.core.errors.CodecError: a body of 10 bytes, b'plain text', is not json: ...
        """
        if self._read is None:
            return body
        try:
            return self._read(body)
        except Exception as error:
            start = bytes(memoryview(body)[:40])
            raise CodecError(
                f"a body of {len(body)} bytes, {start!r}{'...' * (len(body) > 40)}, is not "
                f"{self.name}: {error}; its `body` can be read all the same"
            ) from error

    def bodies(self, values: Any) -> Any:
        """Those of several values, one by one; what is no row of values is refused later on."""
        if self._write is None or isinstance(values, Batch | str | bytes | bytearray | memoryview):
            return values
        self._check_several(values)
        if isinstance(values, list | tuple):
            return [self.body(value) for value in values]
        return map(self.body, values)

    def pairs(self, values: Any, priority: float | None) -> Any:
        """The same of what a priority queue takes: values of one priority, or pairs with theirs."""
        if priority is not None or self._write is None or isinstance(values, Batch):
            return self.bodies(values)
        if isinstance(values, str | bytes | bytearray | memoryview):
            return values
        self._check_several(values)
        return self._pairs(values)

    def _pairs(self, values: Iterable[Any]) -> Iterator[Any]:
        for one in values:
            if isinstance(one, tuple):
                yield (one[0], self.body(one[1])) if len(one) == 2 else one
            else:
                yield self.body(one)

    def _check_several(self, values: object) -> None:
        frame = hasattr(values, "__arrow_c_stream__") and not isinstance(values, Iterator)
        if frame or isinstance(values, Mapping):
            what = type(values).__name__
            raise TypeError(f"several values are put here, not one {what}; see put")


PLAIN: Final = ValueCodec()


def codec_of(name: object) -> ValueCodec:
    """The codec of this name; the plain one for none.

    >>> codec_of("yaml")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: codec is 'yaml'; allowed: None, text, json, msgpack, arrow
    """
    if name is None:
        return PLAIN
    codec = _CODECS.get(name) if isinstance(name, str) else None
    if codec is None:
        raise BadOption("codec", name, ", ".join(("None", *_CODECS)))
    if codec.name == "arrow" and find_spec("pyarrow") is None:
        raise BadOption("codec", name, f"{name} only with pyarrow: pip install pyarrow")
    return codec


def _write_text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"text is a str, not {type(value).__name__}")
    return value.encode()


def _read_text(body: Buffer) -> str:
    return str(body, "utf-8")


def _write_json(value: Any) -> bytes:
    written = _ENCODE_JSON(value)
    # Of a number that JSON does not have it is a null; of bytes it is a text, which msgpack tells.
    if b"null" in written or _may_have_bytes(value):
        _check_plain(msgspec.to_builtins(value, builtin_types=_BYTES))
    return written


def _may_have_bytes(value: Any) -> bool:
    """A look at each part of a value costs several times what writing it does; this does not."""
    try:
        return _MARK_OF_BYTES(_ENCODE_MSGPACK(value)) is not None
    except Exception:  # it has what only JSON can say, such as a number of more than 64 bits
        return True


def _check_plain(value: Any) -> None:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, _BYTES):
            raise TypeError("JSON has no bytes; put what they encode, or take codec='msgpack'")
        if isinstance(one, float):
            if not isfinite(one):
                raise ValueError(f"JSON has no {one}; None is null")
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += one


def _write_arrow(value: Any) -> memoryview:
    arrow = import_module("pyarrow")
    if isinstance(value, arrow.RecordBatch):
        value = arrow.Table.from_batches([value])
    elif not isinstance(value, arrow.Table):
        if not hasattr(value, "__arrow_c_stream__"):
            raise TypeError(f"it takes tables and record batches, not {type(value).__name__}")
        value = arrow.table(value)
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, value.schema) as stream:
        stream.write_table(value)
    return memoryview(sink.getvalue()).toreadonly()  # nobody else has it


def _read_arrow(body: Buffer) -> Any:
    arrow = import_module("pyarrow")
    check_plain(arrow, body)
    with arrow.ipc.open_stream(arrow.py_buffer(body)) as stream:
        table = stream.read_all()
    table.validate(full=True)  # offsets that lead out of it would end the program
    return table


_ENCODE_JSON: Final = msgspec.json.Encoder().encode
_ENCODE_MSGPACK: Final = msgspec.msgpack.Encoder().encode
_MARK_OF_BYTES: Final = re.compile(rb"[\xc4-\xc6]").search
"""What msgpack writes before bytes, and elsewhere, too."""
_CODECS: Final = {
    one.name: one
    for one in (
        ValueCodec("text", _write_text, _read_text),
        ValueCodec("json", _write_json, msgspec.json.Decoder().decode),
        ValueCodec("msgpack", _ENCODE_MSGPACK, msgspec.msgpack.Decoder().decode),
        ValueCodec("arrow", _write_arrow, _read_arrow),
    )
}
