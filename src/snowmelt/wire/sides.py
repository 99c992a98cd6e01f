"""The two sides of a greeting: who dials, and who listens.

    who dials                                who listens
    Hello(cluster, name, user, nonce)  --->
                                       <---  Welcome(name, nonce, proofs)  or Goodbye(why)
    Proof(proof, key)                  --->                                or Goodbye(why)

Each says its `first` word unasked, and is told the other's words one by one. It answers with what
is to be said, and with `ConnectionOpened` once it knows who is there; what may not be raises a
`SnowmeltError`. Whoever dials may go on right after its proof, and may hear then that it was not
let in.

Who is reached must be what it was dialled for: a node, or a process of a pool, and of the name that
it was dialled by, where that is known. What TLS shows of the other side is asked of `certify`,
which raises where it does not fit a name, and of `channel`: what proofs are bound to.
"""

import secrets
from collections.abc import Callable
from hmac import compare_digest
from typing import Final, Protocol

import msgspec

from snowmelt.core.errors import AccessDenied, HandshakeError, NodeRefused
from snowmelt.core.names import NodeId, node_id
from snowmelt.core.shown import repr_without
from snowmelt.core.users import User
from snowmelt.wire.framing import GREETING_BYTES_MAX, Kind, framed
from snowmelt.wire.greeting import (
    DIALS,
    LISTENS,
    NONCE_BYTES,
    Answerer,
    Gate,
    Greeting,
    Hello,
    Proof,
    Role,
    Speaker,
    Welcome,
    heard,
    said,
    wrong_secret,
)

Certify = Callable[[NodeId], None]
"""Raises where the other side's certificate is not good for this name."""
Channel = Callable[[], bytes]
"""Tells what both sides know of the connection, once its TLS stands; nothing where it is plain."""


class ConnectionOpened(msgspec.Struct, frozen=True):
    """The other side has shown who it is; the connection is open."""

    name: NodeId
    role: Role
    user: User
    """For whom it speaks. Of who was dialled: that it knows the same secret."""
    secret: str = ""
    """By which it was shown who has dialled."""
    nonce: bytes = b""
    """What was new in this greeting."""
    after: bytes = b""
    """Told by a peer that dials: as in `Hello`."""

    def __repr__(self) -> str:
        return repr_without(self, "secret")


class Side(Protocol):
    role: Role
    """What this side is itself."""
    first: bytes
    """What it says unasked."""

    def hear(self, kind: Kind, payload: bytes) -> tuple[bytes, ConnectionOpened | None]:
        """The other side's next word: what is said to it, and who it is once that is known."""


NOTHING: Final = b""


def anybody(name: NodeId) -> None:
    """Certifies where there is no TLS."""
    del name


class Dialling:
    """Calls a node, as another or as a client; or one process of a pool another."""

    def __init__(
        self,
        speaker: Speaker,
        target: NodeId | None = None,
        certify: Certify = anybody,
        channel: Channel = bytes,
        after: bytes = b"",
    ) -> None:
        self.role = speaker.role
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        hello = Hello(
            speaker.cluster, speaker.name, speaker.role, self._nonce, speaker.user.name, after
        )
        self._hello = msgspec.msgpack.encode(hello)
        self.first = framed(Kind.HELLO, self._hello, GREETING_BYTES_MAX)
        self._speaker = speaker
        self._target = target
        """By which name it is dialled; None where only an address is known."""
        self._certify = certify
        self._channel = channel

    def hear(self, kind: Kind, payload: bytes) -> tuple[bytes, ConnectionOpened | None]:
        """A welcome: a proof, and a client's key, go only to one who has proved itself."""
        if kind is not Kind.WELCOME:
            raise HandshakeError(f"{kind.name} is no welcome")
        speaker, welcome = self._speaker, heard(payload, Welcome)
        answerer = heard(welcome.answerer, Answerer)
        name, role = node_id(answerer.name), answerer.role
        self._certify(name)
        greeting = Greeting(self._hello, welcome.answerer, self._channel())
        proof = greeting.digest(LISTENS, speaker.secret)
        if not any(compare_digest(proof, one) for one in welcome.proofs):
            raise AccessDenied(f"{wrong_secret(speaker.user.name)}: {name} has another")
        wanted = self._target or f"a {speaker.role.wanted.value}"
        if role is not speaker.role.wanted:
            raise AccessDenied(f"{name}, a {role.value}, answers where {wanted} should be")
        if self._target not in (None, name):
            raise AccessDenied(f"{name} answers where {wanted} should be")
        if role is Role.NODE:  # a process of a pool is of no cluster
            speaker.known.meet(name, answerer.identity)
        said_proof = said(Kind.PROVE, Proof(greeting.digest(DIALS, speaker.secret), speaker.key))
        return said_proof, ConnectionOpened(
            name, role, speaker.user, speaker.secret, nonce=self._nonce
        )


class Listening:
    """Lets others in: a node other nodes and clients, a process of a pool others of it.

    >>> side = Listening(Gate("snow"), NodeId("n1"), Role.NODE, 1 << 20)
    >>> hello = Hello("rain", "c-1", Role.CLIENT, bytes(NONCE_BYTES))
    >>> side.hear(Kind.HELLO, said(Kind.HELLO, hello)[8:])
    Traceback (most recent call last):
    snowmelt.core.errors.AccessDenied: this is cluster 'snow', not 'rain'
    """

    first = NOTHING

    def __init__(
        self,
        gate: Gate,
        me: NodeId,
        role: Role,
        frame_max: int,
        certify: Certify = anybody,
        channel: Channel = bytes,
    ) -> None:
        self.role = role
        self._gate = gate
        self._me = me
        self._frame_max = frame_max
        self._certify = certify
        self._channel = channel
        self._begun: tuple[Hello, Greeting] | None = None

    def hear(self, kind: Kind, payload: bytes) -> tuple[bytes, ConnectionOpened | None]:
        """A hello, then a proof."""
        if kind is Kind.HELLO and self._begun is None:
            return said(Kind.WELCOME, self._welcome(payload)), None
        if kind is Kind.PROVE and self._begun is not None:
            hello, greeting = self._begun
            user, secret = self._gate.proved(hello, greeting, heard(payload, Proof))
            opened = ConnectionOpened(
                NodeId(hello.name), hello.role, user, secret, hello.nonce, hello.after
            )
            return NOTHING, opened
        raise HandshakeError(f"{kind.name} does not stand here in a greeting")

    def _welcome(self, payload: bytes) -> Welcome:
        gate, hello = self._gate, heard(payload, Hello)
        name = gate.check(hello, self.role)
        if name == self._me:
            raise NodeRefused(f"the id {name} is this node's own; give the other another --id")
        if hello.role is Role.NODE:
            self._certify(name)
        nonce = secrets.token_bytes(NONCE_BYTES)
        told = Answerer(self._me, self.role, self._frame_max, nonce, gate.known.identity)
        greeting = Greeting(payload, msgspec.msgpack.encode(told), self._channel())
        self._begun = hello, greeting
        return Welcome(greeting.answerer, gate.proofs(hello.user, greeting))
