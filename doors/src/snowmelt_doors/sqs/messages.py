"""Messages: their attributes, digests, sizes, and the form in which they lie in a queue of ours.

The body of an item is the message's body, so that a program without SQS reads the same. All else is
in one header, `HEADER`. Where that is larger than a header may be, it stands behind the body, and
the header says how long the body is. An item that another program put has no such header.
"""

import base64
import binascii
import hashlib
import re
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from snowmelt_doors.sqs.errors import SqsError, bad_parameter, bad_value
from snowmelt_doors.sqs.forms import STRANGE

HEADER: Final = "sqs"
MESSAGE_BYTES_MAX: Final = 1 << 20
ATTRIBUTES_MAX: Final = 10
DELAY_MAX: Final = 900
GROUP_MAX: Final = 128
_INLINE_MAX: Final = 60_000
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_LABEL: Final = re.compile(r"[!-~]{1,128}")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_RECEIPT: Final = struct.Struct(">QQ8sI")
_RESERVED: Final = ("aws.", "amazon.")


class Attribute(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: str
    """As `String`, `Number.int`, `Binary`."""
    value: bytes

    @property
    def is_text(self) -> bool:
        return not self.kind.startswith("Binary")


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """What goes with a body."""

    id: str
    attributes: dict[str, Attribute] = {}
    system: dict[str, str] = {}
    """What the sender said of it: `AWSTraceHeader`, `MessageGroupId`, `SenderId`..."""
    sent: int = 0
    """When it was sent first (ms since 1970), where it was moved since; else 0."""


class SqsMessage(msgspec.Struct, frozen=True):
    """A message as it came out of a queue of ours."""

    body: bytes
    envelope: Envelope


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(tuple[int, Envelope | None]).decode
_DECODE_ENVELOPE: Final = msgspec.msgpack.Decoder(Envelope).decode


def packed(body: bytes, envelope: Envelope) -> tuple[bytes, dict[str, str | bytes]]:
    """The body and the headers of an item.

    >>> one = packed(b"hello", Envelope("7"))
    >>> one[0], unpacked(*one, "").envelope.id
    (b'hello', '7')
    """
    head = _ENCODE((-1, envelope))
    if len(head) <= _INLINE_MAX:
        return body, {HEADER: head}
    return body + _ENCODE(envelope), {HEADER: _ENCODE((len(body), None))}


def unpacked(body: bytes, headers: Mapping[str, str | bytes], name: str) -> SqsMessage:
    """The message that an item is; of an item of another program, by that name."""
    head = headers.get(HEADER)
    if isinstance(head, bytes):
        try:
            (length, envelope), own = _DECODE(head), body
            if envelope is None:
                envelope, own = _DECODE_ENVELOPE(body[length:]), body[:length]
            if _can_be_told(envelope):
                return SqsMessage(own, envelope)
        except (msgspec.DecodeError, RecursionError):
            pass
    some = {
        key: Attribute("String", value.encode())
        if isinstance(value, str) and STRANGE.search(value) is None
        else Attribute("Binary", value.encode() if isinstance(value, str) else value)
        for key, value in headers.items()
        if value and _NAME.fullmatch(key)
    }
    return SqsMessage(body, Envelope(name, some))


def _can_be_told(envelope: Envelope) -> bool:
    """Whether it is one of a door's, which any program may have written."""
    texts = [envelope.id, *envelope.system, *envelope.system.values()]
    try:
        for name, one in envelope.attributes.items():
            texts += [name, one.kind, one.value.decode() if one.is_text else ""]
    except UnicodeDecodeError:
        return False
    return not any(STRANGE.search(one) for one in texts)


def text_of(message: SqsMessage) -> str:
    """A body as XML and JSON can have it; bytes that are no text come as base64."""
    try:
        text = message.body.decode()
    except UnicodeDecodeError:
        return base64.b64encode(message.body).decode()
    return text if STRANGE.search(text) is None else base64.b64encode(message.body).decode()


# --- what a program sends -------------------------------------------------------------------------


def checked_body(said: object) -> bytes:
    """A message's body as bytes."""
    if not isinstance(said, str):
        raise SqsError("MissingParameter", "The request must contain the parameter MessageBody.")
    if not said:
        raise bad_parameter("The request must contain a non-empty message body.")
    if STRANGE.search(said) is not None:
        raise SqsError(
            "InvalidMessageContents",
            "Invalid characters found. Valid unicode characters are "
            "#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF",
        )
    return said.encode()


def checked_attributes(said: object) -> dict[str, Attribute]:
    """Message attributes, as a request has them."""
    if not said:
        return {}
    if not isinstance(said, dict):
        raise bad_parameter("MessageAttributes is no map")
    if len(said) > ATTRIBUTES_MAX:
        raise bad_parameter(
            f"Number of message attributes [{len(said)}] exceeds the allowed maximum "
            f"[{ATTRIBUTES_MAX}]."
        )
    return {_checked_name(name): _checked_attribute(name, value) for name, value in said.items()}


def _checked_name(name: str) -> str:
    low = name.lower()
    fits = (
        _NAME.fullmatch(name) is not None
        and name[0] != "."
        and name[-1] != "."
        and ".." not in name
        and not low.startswith(_RESERVED)
    )
    if not fits:
        raise bad_parameter(
            f"The message attribute name '{name[:300]}' is invalid. Attribute name can contain "
            "A-Z, a-z, 0-9, underscore (_), hyphen (-), and period (.) characters."
        )
    return name


def _checked_attribute(name: str, said: Any) -> Attribute:
    kind = said.get("DataType") if isinstance(said, dict) else None
    if not isinstance(kind, str) or not kind:
        raise bad_parameter(f"The message attribute '{name}' must contain a non-empty type.")
    base, text = kind.partition(".")[0], said.get("StringValue")
    if base not in ("String", "Number", "Binary") or len(kind) > 256:
        raise bad_parameter(
            f"The message attribute '{name}' has an invalid message attribute type, the set of "
            "supported type prefixes is Binary, Number, and String."
        )
    if base == "Binary":
        return Attribute(kind, _checked_binary(name, said.get("BinaryValue")))
    if not isinstance(text, str) or not text:
        raise bad_parameter(
            f"The message attribute '{name}' must contain a non-empty value of type '{base}'."
        )
    if STRANGE.search(text) is not None:
        raise bad_parameter(f"The message attribute '{name}' has characters that are not allowed.")
    if base == "Number" and _NUMBER.fullmatch(text.strip()) is None:
        raise bad_parameter(f"Can't cast the value of message attribute '{name}' to a number.")
    return Attribute(kind, text.encode())


def _checked_binary(name: str, said: object) -> bytes:
    try:
        value = base64.b64decode(said, validate=True) if isinstance(said, str) else b""
    except (binascii.Error, ValueError):
        raise bad_parameter(
            f"The message attribute '{name}' has a value that is no base64."
        ) from None
    if not value:
        raise bad_parameter(
            f"The message attribute '{name}' must contain a non-empty value of type 'Binary'."
        )
    return value


def checked_system(said: object) -> dict[str, str]:
    """System attributes that a sender may give: a trace header."""
    if not said:
        return {}
    if not isinstance(said, dict) or set(said) - {"AWSTraceHeader"}:
        strange = next(iter(set(said) - {"AWSTraceHeader"}), "") if isinstance(said, dict) else said
        raise bad_parameter(f"Message system attribute name '{strange}' is invalid.")
    one = said["AWSTraceHeader"]
    if not isinstance(one, dict) or one.get("DataType") != "String":
        raise bad_parameter("The message system attribute 'AWSTraceHeader' has to be a String.")
    value = one.get("StringValue")
    if not isinstance(value, str) or not value or STRANGE.search(value) is not None:
        raise bad_parameter(
            "The message system attribute 'AWSTraceHeader' must contain a non-empty value."
        )
    return {"AWSTraceHeader": value}


def checked_label(name: str, said: object) -> str:
    """A group or a deduplication id."""
    if not isinstance(said, str) or _LABEL.fullmatch(said) is None:
        raise bad_value(
            name,
            said,
            f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length.",
        )
    return said


def size_of(body: bytes, attributes: Mapping[str, Attribute]) -> int:
    """Which size counts: the body's, and names, types and values of attributes."""
    return len(body) + sum(
        len(name) + len(one.kind) + len(one.value) for name, one in attributes.items()
    )


def digest_of(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def digest_of_attributes(attributes: Mapping[str, Attribute]) -> str:
    """As every client checks it.

    >>> digest_of_attributes({"timestamp": Attribute("Number", b"1493147359900")})
    '235c5c510d26fb653d073faed50ae77c'
    """
    parts: list[bytes] = []
    for name, one in sorted(attributes.items()):
        for text in (name.encode(), one.kind.encode()):
            parts += [len(text).to_bytes(4), text]
        kind = b"\x01" if one.is_text else b"\x02"
        parts += [kind, len(one.value).to_bytes(4), one.value]
    return hashlib.md5(b"".join(parts), usedforsecurity=False).hexdigest()


# --- receipts -------------------------------------------------------------------------------------


class ReceiptHandle(msgspec.Struct, frozen=True):
    """What a program shows to delete a message: its lease, and where it lies."""

    token: int
    position: int
    secret: bytes = b""
    """What was drawn for the lease."""

    def handle(self, queue: str) -> str:
        """As text, good for this queue.

        >>> one = ReceiptHandle(7, 5)
        >>> ReceiptHandle.read(one.handle("jobs"), "jobs") == one
        True
        """
        check = zlib.crc32(f"{queue}/{self.token}/{self.position}".encode())
        raw = _RECEIPT.pack(self.token, self.position, self.secret, check)
        return base64.urlsafe_b64encode(raw).decode()

    @classmethod
    def read(cls, handle: object, queue: str) -> "ReceiptHandle":
        """Raises `SqsError` for what is no receipt of this queue."""
        try:
            raw = base64.b64decode(str(handle)[:200], altchars=b"-_", validate=True)
            token, position, secret, check = _RECEIPT.unpack(raw)
        except (binascii.Error, ValueError, struct.error):
            raise invalid_receipt() from None
        if check != zlib.crc32(f"{queue}/{token}/{position}".encode()):
            raise invalid_receipt()
        return cls(token, position, secret if any(secret) else b"")


def invalid_receipt() -> SqsError:
    return SqsError("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
