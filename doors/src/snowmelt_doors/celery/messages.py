"""What of a message of kombu is kept in a queue, and what the queue is to know of it."""

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

PRIORITIES: Final = 10
PROPERTIES: Final = frozenset(
    (
        *("app_id", "cluster_id", "correlation_id", "delivery_info", "delivery_mode", "expiration"),
        *("message_id", "priority", "reply_to", "timestamp", "type", "user_id"),
    )
)
"""What AMQP has; what else a program says of a message is left out, as it is there."""
DELAY_MAX: Final = 10 * 365 * 86_400.0


class StoredMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message as kombu has it, and when it was published by its publisher's clock."""

    encoded: bytes
    is_text: bool
    """Whether it was text, which is kept as UTF-8."""
    content_type: str | None
    content_encoding: str | None
    headers: dict[str, Any]
    properties: dict[str, Any]
    sent: float

    @property
    def body(self) -> str | bytes:
        """As it was given to kombu."""
        return self.encoded.decode() if self.is_text else self.encoded

    @property
    def expired(self) -> bool:
        """Whether its `expiration`, in milliseconds, is over."""
        kept = number(self.properties.get("expiration"))
        return kept is not None and time.time() > self.sent + kept / 1000


class TopicMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message on the topic of an exchange."""

    routing_key: str
    message: StoredMessage


def _plain(value: object) -> object:
    """What msgpack has no type for and headers may have: lazy text, mappings of any kind."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, str):
        return str(value)
    raise NotImplementedError(f"a header of {type(value)}, which no message can carry")


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_plain)
_DECODER: Final = msgspec.msgpack.Decoder(StoredMessage)
_TOPIC: Final = msgspec.msgpack.Decoder(TopicMessage)


def stored(raw: Mapping[str, Any]) -> StoredMessage:
    """What is kept of a message that kombu has prepared."""
    body = raw["body"]
    kind, encoding = raw.get("content-type"), raw.get("content-encoding")
    text = isinstance(body, str)
    return StoredMessage(
        body.encode() if text else bytes(body),
        text,
        kind,
        encoding,
        dict(raw["headers"]),
        {name: value for name, value in raw["properties"].items() if name in PROPERTIES},
        time.time(),
    )


def packed(message: StoredMessage | TopicMessage) -> bytes:
    return _ENCODER.encode(message)


def unpacked(body: bytes) -> StoredMessage:
    """Raises `ValueError` for what is no message of kombu."""
    return _checked(_DECODER.decode(body))


def heard(body: bytes) -> TopicMessage:
    """The same of a topic."""
    told = _TOPIC.decode(body)
    _checked(told.message)
    return told


def _checked(message: StoredMessage) -> StoredMessage:
    """Raises `ValueError` for what kombu would trip over."""
    if message.is_text:
        message.encoded.decode()
    told = message.properties.get("delivery_info")
    if told is not None and type(told) is not dict:
        raise ValueError(f"delivery_info of {type(told)}, and not a map")
    return message


def priority_of(message: StoredMessage) -> int:
    """From 0 to 9; what is none, or beyond, is the nearest that is.

    >>> [priority_of(stored({"body": "", "headers": {}, "properties": {"priority": one}}))
    ...  for one in (None, 4, 77, -1, "no")]
    [0, 4, 9, 0, 0]
    """
    said = number(message.properties.get("priority"))
    return 0 if said is None else max(0, min(PRIORITIES - 1, int(said)))


def delay_of(message: StoredMessage) -> float:
    """For how many seconds it is not to be delivered: until its `eta`, as Celery writes it.

    >>> over = {"eta": "2000-01-01T00:00:00+00:00"}
    >>> delay_of(stored({"body": "", "headers": over, "properties": {}}))
    0.0
    """
    said = message.headers.get("eta")
    if not isinstance(said, str):
        return 0.0
    try:
        eta = datetime.fromisoformat(said)
    except ValueError:
        return 0.0  # the worker says what is wrong with it
    known = eta if eta.tzinfo is not None else eta.replace(tzinfo=UTC)
    return min(DELAY_MAX, max(0.0, known.timestamp() - time.time()))


def number(value: object) -> float | None:
    """A number, however it is written.

    >>> number("2000"), number(None), number("nan")
    (2000.0, None, None)
    """
    if not isinstance(value, str | int | float):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
