"""The first words of a connection, and the last.

Whoever dials says `Hello`: which cluster it wants, its own name, whether it is a node or a client,
and its token. The other side says `Welcome`, or `Goodbye` with the reason. Until then no frame
may be longer than `GREETING_BYTES_MAX`, and nothing else is listened to.
"""

import hmac
from enum import Enum
from typing import Final, TypeVar

import msgspec

from snowmelt.core import errors
from snowmelt.core.errors import (
    AccessDenied,
    HandshakeError,
    SnowmeltError,
)
from snowmelt.core.names import NodeId, node_id
from snowmelt.wire.framing import GREETING_BYTES_MAX, Kind, framed

CLIENT_PREFIX: Final = "c-"  # so that no client can speak, or be spoken to, as a node

T = TypeVar("T", bound=msgspec.Struct)


class Role(Enum):
    """What the one who dials wants to be."""

    NODE = "node"
    CLIENT = "client"


class Hello(msgspec.Struct, frozen=True):
    """I am this one, and want to be let in."""

    cluster: str
    name: str
    role: Role
    token: str = ""


class Welcome(msgspec.Struct, frozen=True):
    """You are in; I am this one. Frames up to `frame_max` are taken."""

    name: str
    frame_max: int


class Goodbye(msgspec.Struct, frozen=True):
    """The connection ends here, and this is why. `error` is a name from `core.errors`."""

    error: str
    text: str


class Gate(msgspec.Struct, frozen=True):
    """Whom a node lets in."""

    cluster: str
    token: str = ""

    def check(self, hello: Hello) -> NodeId:
        """The name of whoever may come in; raises when they may not.

        >>> Gate("snow", "secret").check(Hello("snow", "c-1", Role.CLIENT, "secret"))
        'c-1'
        """
        if hello.cluster != self.cluster:
            text = f"this is cluster {self.cluster!r}, not {_short(hello.cluster)}"
            raise AccessDenied(text)
        given, wanted = hello.token.encode(), self.token.encode()
        if not hmac.compare_digest(given, wanted):
            raise AccessDenied(
                "the token is missing or wrong" if wanted else "no token is wanted here"
            )
        name = node_id(hello.name)
        if name.startswith(CLIENT_PREFIX) != (hello.role is Role.CLIENT):
            text = f"{name} can't be the name of a {hello.role.value}: only clients' begin with c-"
            raise AccessDenied(text)
        return name


def said(kind: Kind, word: msgspec.Struct) -> bytes:
    """A greeting as a frame."""
    return framed(kind, msgspec.msgpack.encode(word), GREETING_BYTES_MAX)


def heard(payload: bytes, kind: type[T]) -> T:
    """A greeting from its payload; raises `HandshakeError`."""
    try:
        return msgspec.msgpack.decode(payload, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HandshakeError(f"a greeting that does not read: {error}") from error


def goodbye(error: SnowmeltError) -> bytes:
    """An error as the last frame of a connection."""
    return said(Kind.GOODBYE, Goodbye(type(error).__name__, str(error)[:2000]))


def as_error(name: str, text: str) -> SnowmeltError:
    """An error that crossed the wire, as the exception it names here.

    >>> as_error("AccessDenied", "the token is missing or wrong")
    AccessDenied('the token is missing or wrong')
    """
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, SnowmeltError)):
        return SnowmeltError(f"{name}: {text}")
    if issubclass(kind, errors.BadOption):
        return errors.CallerError(text)  # its own parts did not cross the wire, only its sentence
    return kind(text)


def _short(text: str) -> str:
    return repr(text if len(text) <= 64 else text[:61] + "...")
