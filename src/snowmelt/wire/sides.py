"""The four sides of a greeting: who dials and who listens, at a node and within a pool.

    who dials                          who listens
    Hello(cluster, name, token)  --->
                                 <---  Welcome(name)                  or Goodbye(why)

    of peers:
    Hello(cluster, name, nonce)  --->
                                 <---  Welcome(name, nonce, proof)    or Goodbye(why)
    Proof(proof)                 --->                                 or Goodbye(why)

Each says its `first` word unasked, and is told the other's words one by one. It answers with what
is to be said, and with `ConnectionOpened` once it knows who is there; what may not be raises a
`SnowmeltError`. What TLS shows of the other side is asked of `certify`, which raises where it does
not fit a name.
"""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from snowmelt.core.errors import AccessDenied, HandshakeError, NodeRefused
from snowmelt.core.names import NodeId, node_id
from snowmelt.wire.framing import Kind
from snowmelt.wire.greeting import Gate, Hello, KnownCluster, Proof, Role, Welcome, heard, said

Certify = Callable[[NodeId], None]
"""Raises where the other side's certificate is not good for this name."""


class ConnectionOpened(msgspec.Struct, frozen=True):
    """The other side has shown who it is; the connection is open."""

    name: NodeId
    role: Role
    nonce: bytes = b""
    """Of peers: what was new in this greeting."""
    after: bytes = b""
    """Of peers, told by who dials: as in `Hello`."""


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
    """Calls a node, as another or as a client.

    >>> side = Dialling(Hello("snow", "c-1", Role.CLIENT))
    >>> side.hear(Kind.WELCOME, said(Kind.WELCOME, Welcome("n1", 1 << 20))[8:])
    (b'', ConnectionOpened(name='n1', role=<Role.NODE: 'node'>, nonce=b'', after=b''))
    """

    def __init__(
        self, hello: Hello, certify: Certify = anybody, known: KnownCluster | None = None
    ) -> None:
        self.role = hello.role
        self.first = said(Kind.HELLO, hello)
        self._certify = certify
        self._known = known or KnownCluster()

    def hear(self, kind: Kind, payload: bytes) -> tuple[bytes, ConnectionOpened | None]:
        welcome = _welcome(kind, payload)
        name = node_id(welcome.name)
        self._certify(name)
        self._known.meet(name, welcome.identity)
        return NOTHING, ConnectionOpened(name, Role.NODE)


class Listening:
    """A node: lets in others and clients.

    >>> side = Listening(Gate("snow"), NodeId("n1"), 1 << 20)
    >>> side.hear(Kind.HELLO, said(Kind.HELLO, Hello("rain", "c-1", Role.CLIENT))[8:])
    Traceback (most recent call last):
    snowmelt.core.errors.AccessDenied: this is cluster 'snow', not 'rain'
    """

    role = Role.NODE
    first = NOTHING

    def __init__(self, gate: Gate, me: NodeId, frame_max: int, certify: Certify = anybody) -> None:
        self._gate = gate
        self._me = me
        self._frame_max = frame_max
        self._certify = certify

    def hear(self, kind: Kind, payload: bytes) -> tuple[bytes, ConnectionOpened | None]:
        if kind is not Kind.HELLO:
            raise HandshakeError(f"{kind.name} is no first word")
        hello = heard(payload, Hello)
        name = self._gate.check(hello)
        if name == self._me:
            raise NodeRefused(f"the id {name} is this node's own; give the other another --id")
        if hello.role is Role.NODE:
            self._certify(name)
        welcome = Welcome(self._me, self._frame_max, identity=self._gate.known.identity)
        return said(Kind.WELCOME, welcome), ConnectionOpened(name, hello.role)


class PeerDialling:
    """A process of a pool that calls another; a proof goes out only to one who has given his."""

    role = Role.PEER

    def __init__(self, gate: Gate, hello: Hello, target: NodeId) -> None:
        self.first = said(Kind.HELLO, hello)
        self._gate = gate
        self._hello = hello
        self._target = target

    def hear(self, kind: Kind, payload: bytes) -> tuple[bytes, ConnectionOpened | None]:
        """A welcome, with its proof."""
        welcome = _welcome(kind, payload)
        proof = self._gate.prove(self._hello, welcome)
        if welcome.name != self._target:
            raise AccessDenied(f"{welcome.name} answers where {self._target} should be")
        opened = ConnectionOpened(
            self._target,
            Role.PEER,
            self._hello.nonce,
        )
        return said(Kind.PROVE, proof), opened


class PeerListening:
    """A process of a pool that is called by another."""

    role = Role.PEER
    first = NOTHING

    def __init__(
        self, gate: Gate, me: NodeId, frame_max: int, channel: Callable[[], bytes] = bytes
    ) -> None:
        self._gate = gate
        self._me = me
        self._frame_max = frame_max
        self._channel = channel
        """Tells what is known of the connection, once its TLS stands."""
        self._said: tuple[Hello, Welcome] | None = None

    def hear(self, kind: Kind, payload: bytes) -> tuple[bytes, ConnectionOpened | None]:
        """A hello, then a proof."""
        gate = self._gate.on(self._channel())
        if kind is Kind.HELLO and self._said is None:
            hello = heard(payload, Hello)
            gate.check_peer(hello)
            welcome = gate.welcome(hello, self._me, self._frame_max)
            self._said = hello, welcome
            return said(Kind.WELCOME, welcome), None
        if kind is Kind.PROVE and self._said is not None:
            hello, welcome = self._said
            gate.check_proof(hello, welcome, heard(payload, Proof))
            return NOTHING, ConnectionOpened(
                NodeId(hello.name),
                Role.PEER,
                hello.nonce,
                hello.after,
            )
        raise HandshakeError(f"{kind.name} does not stand here in a greeting")


def _welcome(kind: Kind, payload: bytes) -> Welcome:
    if kind is not Kind.WELCOME:
        raise HandshakeError(f"{kind.name} is no welcome")
    return heard(payload, Welcome)
