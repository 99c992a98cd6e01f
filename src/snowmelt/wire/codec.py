"""Messages to bytes and back: the one place that knows all families' messages.

Decoding is by type: what comes out is a message of the union with fields of the right types, or an
error. Nothing is ever unpickled, and nothing is built that the union does not name.

What is a few bytes on its way may be a hundred in memory. So what a client sends is read as nothing
but a call, and only calls that carry bodies may be large: bodies are not unpacked.
"""

from typing import Any, Final, Union

import msgspec

from snowmelt.core.batch import Buffer
from snowmelt.core.errors import MessageError
from snowmelt.protocols.arrow import Claim
from snowmelt.protocols.baton import calls as baton_calls
from snowmelt.protocols.baton import messages as baton_messages
from snowmelt.protocols.calling import Answer, AskAnother, Call, Declined, Elsewhere
from snowmelt.protocols.echo import messages as echo_messages
from snowmelt.protocols.membership import messages as membership_messages
from snowmelt.protocols.multicast import calls as multicast_calls
from snowmelt.protocols.multicast import messages as multicast_messages
from snowmelt.protocols.pool import introductions as pool_introductions
from snowmelt.protocols.pool import messages as pool_messages
from snowmelt.protocols.queue.api import calls as fifo_calls
from snowmelt.protocols.queue.api.backups import Restore
from snowmelt.protocols.queue.api.gathered import Gathered
from snowmelt.protocols.queue.messages import home_words as fifo_messages
from snowmelt.protocols.queue.messages import partition_words as parted_words
from snowmelt.protocols.queue.messages import words as queue_words

# Nobody but its own process may tell a node to depart.
Request = (
    echo_messages.Request
    | membership_messages.GetStatus
    | membership_messages.Forget
    | fifo_calls.Request
    | pool_introductions.Request
    | baton_calls.Request
    | multicast_calls.Request
)
Response = (
    echo_messages.Response
    | membership_messages.Response
    | fifo_calls.Response
    | Gathered
    | pool_introductions.Response
    | baton_calls.Response
    | multicast_calls.Response
    | Declined
    | Elsewhere
    | AskAnother
)
_Calls = Call[Request]
_Answers = Answer[Response]

NODE_WORDS: Final = Union[  # noqa: UP007  # at run time
    membership_messages.Message,
    fifo_messages.Message,
    queue_words.Message,
    parted_words.Message,
    Claim,
    baton_messages.Message,
    multicast_messages.Message,
]
"""What nodes tell each other, but calls that they pass on."""
_TO_NODES: Final = Union[_Calls, NODE_WORDS]  # noqa: UP007  # at run time
_TO_CLIENTS: Final = _Answers
_WITH_BODIES: Final = Call[fifo_calls.Put | Restore | echo_messages.Echo | multicast_calls.Publish]
CALL_BYTES_MAX: Final = 8 << 20
"""Of a client's call without bodies."""


class MessageDecoder:
    """Reads one direction of a connection.

    >>> codec = MessageDecoder.for_nodes()
    >>> codec.decode(encode(Call(1, echo_messages.Echo(b"hey"))))
    Call(number=1, body=Echo(body=b'hey'))
    >>> codec.decode(b"nonsense")
    Traceback (most recent call last):
    snowmelt.core.errors.MessageError: a message that does not read: ...
    """

    __slots__ = ("_decode",)

    def __init__(self, union: Any) -> None:
        self._decode = msgspec.msgpack.Decoder(union).decode

    @classmethod
    def for_nodes(cls) -> "MessageDecoder":
        return _FOR_NODES

    @classmethod
    def for_callers(cls) -> "MessageDecoder":
        """What a node may be sent by a client.

        >>> MessageDecoder.for_callers().decode(encode(membership_messages.LeftView(1)))
        Traceback (most recent call last):
        snowmelt.core.errors.MessageError: a message that does not read: ...
        """
        return _FOR_CALLERS

    @classmethod
    def for_clients(cls) -> "MessageDecoder":
        return _FOR_CLIENTS

    @classmethod
    def for_peers(cls) -> "MessageDecoder":
        """What one process of a pool may be sent by another.

        >>> MessageDecoder.for_peers().decode(encode(["pool.praise", 7]))
        UnknownMessage(tag='pool.praise')
        """
        return _FOR_PEERS

    def decode(self, payload: Buffer) -> Any:
        try:
            return self._decode(payload)
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            raise MessageError(f"a message that does not read: {error}") from error


_ENCODER: Final = msgspec.msgpack.Encoder()
encode: Final = _ENCODER.encode
encode_into: Final = _ENCODER.encode_into


class _Callers(MessageDecoder):
    """Looks at the size first."""

    __slots__ = ("_decode_large",)

    def __init__(self) -> None:
        super().__init__(_Calls)
        self._decode_large = MessageDecoder(_WITH_BODIES).decode

    def decode(self, payload: Buffer) -> Any:
        if len(payload) <= CALL_BYTES_MAX:
            return super().decode(payload)
        try:
            return self._decode_large(payload)
        except MessageError as error:
            text = f"a call of {len(payload)} bytes; without bodies it has {CALL_BYTES_MAX} at most"
            raise MessageError(f"{text}: {error}") from error


class UnknownMessage(msgspec.Struct, frozen=True):
    """What one process of a pool said to another that does not know such words; nobody acts on it.

    It has a later version, perhaps. So it is no reason to end a link that others share.
    """

    tag: str


UNKNOWN_BYTES_MAX: Final = 4 << 10
"""A longer one is not looked at."""
_OF_PEERS: Final = tuple(one.__struct_config__.tag for one in pool_messages.MESSAGES)
_PARTS: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
_TAG: Final = msgspec.msgpack.Decoder(str)


class _Peers(MessageDecoder):
    """Tells what does not read from what is only not known here."""

    __slots__ = ()

    def decode(self, payload: Buffer) -> Any:
        """A message, or `UnknownMessage`; raises `MessageError`."""
        try:
            return super().decode(payload)
        except MessageError:
            tag = _tag(payload)
            if not tag.startswith("pool.") or tag in _OF_PEERS:
                raise
            return UnknownMessage(tag)


def _tag(payload: Buffer) -> str:
    """What a message calls itself; nothing where that does not read."""
    try:
        return _TAG.decode(_PARTS.decode(payload)[0]) if len(payload) <= UNKNOWN_BYTES_MAX else ""
    except (ValueError, RecursionError, IndexError):
        return ""


_FOR_NODES: Final = MessageDecoder(_TO_NODES)
_FOR_CALLERS: Final = _Callers()
_FOR_CLIENTS: Final = MessageDecoder(_TO_CLIENTS)
_FOR_PEERS: Final = _Peers(pool_messages.Message)
