"""The first words of a connection, and the last.

Whoever dials says `Hello`: which cluster it wants, its own name, whether it is a node or a client,
and its token. The other side says `Welcome`, or `Goodbye` with the reason. Until then no frame
may be longer than `GREETING_BYTES_MAX`, and nothing else is listened to.

Processes of a pool greet each other as peers. No token crosses the wire then: each side names a
number that it has never used before, and proves that it knows the token by a digest over both
numbers and names. The one who answers does it in its `Welcome`, the one who dialled in a `Proof`
after it. What both know of the connection itself, such as whose certificate it shows, is part of
the digest.
"""

import hmac
import secrets
from enum import Enum
from typing import Final, TypeVar

import msgspec

from snowmelt.core import errors
from snowmelt.core.errors import (
    AccessDenied,
    HandshakeError,
    OtherCluster,
    SnowmeltError,
    Unavailable,
)
from snowmelt.core.names import NodeId, node_id
from snowmelt.core.shown import repr_without
from snowmelt.wire.framing import GREETING_BYTES_MAX, Kind, framed

CLIENT_PREFIX: Final = "c-"  # so that no client can speak, or be spoken to, as a node
NONCE_BYTES: Final = 16

T = TypeVar("T", bound=msgspec.Struct)


class Role(Enum):
    """What the one who dials wants to be."""

    NODE = "node"
    CLIENT = "client"
    PEER = "peer"
    """A process of a pool that speaks to another."""


class Hello(msgspec.Struct, frozen=True, omit_defaults=True):
    """I am this one, and want to be let in."""

    cluster: str
    name: str
    role: Role
    token: str = ""
    nonce: bytes = b""
    """Of peers: new for every connection."""
    after: bytes = b""
    """Of peers: the nonce of the last connection that these two had open and whose end the one who
    dials has seen."""

    def __repr__(self) -> str:
        return repr_without(self, "token")


class Welcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """You are in; I am this one. Frames up to `frame_max` are taken."""

    name: str
    frame_max: int
    nonce: bytes = b""
    proof: bytes = b""
    """Of peers: that who answers is of this cluster."""
    identity: str = ""
    """Of nodes: of which cluster this one is; nothing while it is of none."""


class Proof(msgspec.Struct, frozen=True):
    """Of peers: that who dialled knows the token too."""

    proof: bytes


class Goodbye(msgspec.Struct, frozen=True):
    """The connection ends here, and this is why. `error` is a name from `core.errors`."""

    error: str
    text: str


class KnownCluster:
    """The identity of the cluster that one process is of, once it knows it.

    A client learns it from the first node that it meets, or was told it; a node has it from its
    disk. Whoever dials compares.

    >>> known = KnownCluster("this client", "connect anew", learns=True)
    >>> known.meet("n1", "2ab5")
    >>> known.meet("n1", "77d0")
    Traceback (most recent call last):
    snowmelt.core.errors.OtherCluster: n1 is of cluster 77d0, and this client of 2ab5: connect anew
    """

    def __init__(
        self, who: str = "", way_out: str = "", identity: str = "", *, learns: bool = False
    ) -> None:
        self.identity = identity
        self._who = who
        self._way_out = way_out
        self._learns = learns

    def meet(self, name: str, theirs: str) -> None:
        """A node has said its name, and of which cluster it is; raises when it is another."""
        mine = self.identity
        if self._learns and mine and not theirs:
            raise Unavailable(f"{name} is of no cluster yet, and {self._who} of {mine}")
        if mine and theirs not in ("", mine):
            raise OtherCluster(
                f"{_bare(name)} is of cluster {_bare(theirs)}, and {self._who} of {mine}:"
                f" {self._way_out}"
            )
        if self._learns and theirs:
            self.identity = _bare(theirs)


class Gate(msgspec.Struct, frozen=True):
    """Whom a node lets in."""

    cluster: str
    token: str = ""
    channel: bytes = b""
    """What both sides know of the connection; proofs made on another don't fit."""
    known: KnownCluster = msgspec.field(default_factory=KnownCluster)

    def on(self, channel: bytes) -> "Gate":
        """The gate of one connection.

        >>> gate = Gate("snow", "secret")
        >>> hello = Hello("snow", "c-1", Role.PEER, nonce=bytes(16))
        >>> welcome = gate.on(b"this").welcome(hello, NodeId("c-2"), 1 << 20)
        >>> gate.on(b"that").prove(hello, welcome)
        Traceback (most recent call last):
        snowmelt.core.errors.AccessDenied: c-2 has another token, or is of another cluster
        """
        return msgspec.structs.replace(self, channel=channel) if channel else self

    def check(self, hello: Hello) -> NodeId:
        """The name of whoever may come in; raises when they may not.

        >>> Gate("snow", "secret").check(Hello("snow", "c-1", Role.CLIENT, "secret"))
        'c-1'
        """
        self._check_cluster(hello)
        if hello.role is Role.PEER:
            raise AccessDenied("this is a node; a process of a pool calls it as a client")
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

    def check_peer(self, hello: Hello) -> NodeId:
        """The same where a process of a pool listens; what it knows is proved afterwards."""
        self._check_cluster(hello)
        if hello.role is not Role.PEER:
            text = f"this is a process of a pool; a {hello.role.value} has no business here"
            raise AccessDenied(text)
        name = node_id(hello.name)
        if not name.startswith(CLIENT_PREFIX):
            raise AccessDenied(f"{name} can't be the name of a peer: theirs begin with c-")
        if len(hello.nonce) != NONCE_BYTES:
            raise HandshakeError(f"a nonce of {len(hello.nonce)} bytes; it has {NONCE_BYTES}")
        return name

    def _check_cluster(self, hello: Hello) -> None:
        if hello.cluster != self.cluster:
            text = f"this is cluster {self.cluster!r}, not {_short(hello.cluster)}"
            raise AccessDenied(text)

    def welcome(self, hello: Hello, name: NodeId, frame_max: int) -> Welcome:
        """The answer to a peer, with its proof."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        bare = Welcome(name, frame_max, nonce)
        return msgspec.structs.replace(bare, proof=self._proof(b"welcome", hello, bare))

    def prove(self, hello: Hello, welcome: Welcome) -> Proof:
        """What the peer who dialled says to a `Welcome` that is good; raises when it is not.

        >>> gate = Gate("snow", "secret")
        >>> hello = Hello("snow", "c-1", Role.PEER, nonce=bytes(16))
        >>> welcome = gate.welcome(hello, NodeId("c-2"), 1 << 20)
        >>> gate.check_proof(hello, welcome, gate.prove(hello, welcome))
        >>> Gate("snow", "guess").prove(hello, welcome)
        Traceback (most recent call last):
        snowmelt.core.errors.AccessDenied: c-2 has another token, or is of another cluster
        """
        same = hmac.compare_digest(welcome.proof, self._proof(b"welcome", hello, welcome))
        if not same or len(welcome.nonce) != NONCE_BYTES:
            raise AccessDenied(f"{_bare(welcome.name)} has another token, or is of another cluster")
        return Proof(self._proof(b"hello", hello, welcome))

    def check_proof(self, hello: Hello, welcome: Welcome, proof: Proof) -> None:
        """Raises when the peer who dialled does not know the token."""
        if not hmac.compare_digest(proof.proof, self._proof(b"hello", hello, welcome)):
            raise AccessDenied("the token is missing or wrong")

    def _proof(self, side: bytes, hello: Hello, welcome: Welcome) -> bytes:
        names = (side, self.cluster, hello.name, hello.nonce, welcome.name, welcome.nonce)
        bound = msgspec.msgpack.encode((*names, self.channel))
        return hmac.digest(self.token.encode(), bound, "sha256")


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


def _bare(name: str) -> str:
    return name if name.isprintable() and len(name) <= 64 else _short(name)


def _short(text: str) -> str:
    return repr(text if len(text) <= 64 else text[:61] + "...")
