"""The first words of a connection, and the last.

Whoever dials says `Hello`: which cluster it wants, its own name, what it is, and which user it
speaks for. The other side says `Welcome`, or `Goodbye` with the reason; then the first says its
`Proof`. Until both have proved themselves no frame may be longer than `GREETING_BYTES_MAX`, and
nothing else is listened to.

1. No secret crosses the wire. Each side proves that it knows the user's by a digest over all that
   both have said, which has a number of each side that it has never used before.
2. Who listens proves first. A user may have several secrets: a `Welcome` has a proof by each, and
   always as many, so that nobody learns how many there are, or whether there is such a user.
3. The digest says which side made it, so that no proof is good when it is sent back. What both know
   of the connection itself, such as whose certificate it shows, is part of it too: a proof made on
   another connection is good for nothing.
4. A client's name begins with a digest of a key that the client drew. The key goes with its proof,
   so every node sees by itself that nobody takes the name of another.
5. Where no token was chosen the secret is empty, and all of this is the same.

A secret is as good as it is hard to guess: whoever can connect can try guesses at home, on what a
`Welcome` proves.
"""

import hashlib
import hmac
import os
import secrets
from base64 import urlsafe_b64encode
from enum import Enum
from threading import RLock
from typing import Annotated, Final, TypeVar

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
from snowmelt.core.users import ANYBODY, SECRETS_MAX, Account, Accounts, Right, User
from snowmelt.wire.framing import GREETING_BYTES_MAX, Kind, framed

CLIENT_PREFIX: Final = "c-"  # so that no client can speak, or be spoken to, as a node
NONCE_BYTES: Final = 16
KEY_BYTES: Final = 16
PROOF_BYTES: Final = 32
_NAME_BYTES: Final = 9
"""Of the digest of a client's key, in its name: 12 letters."""

_PROVING: Final = RLock()
"""No process forks amid a digest: its child would have OpenSSL's own lock, held by nobody."""
os.register_at_fork(
    before=_PROVING.acquire,
    after_in_parent=_PROVING.release,
    after_in_child=_PROVING.release,
)

T = TypeVar("T", bound=msgspec.Struct)
Nonce = Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
Digest = Annotated[bytes, msgspec.Meta(min_length=PROOF_BYTES, max_length=PROOF_BYTES)]


class Role(Enum):
    """What one side of a connection is."""

    NODE = "node"
    CLIENT = "client"
    PEER = "peer"
    """A process of a pool that speaks to another."""

    @property
    def wanted(self) -> "Role":
        """What it dials: processes of a pool each other, all else nodes."""
        return Role.PEER if self is Role.PEER else Role.NODE


class Hello(msgspec.Struct, frozen=True, omit_defaults=True):
    """I am this one, and want to be let in."""

    cluster: str
    name: str
    role: Role
    nonce: Nonce
    """New for every connection."""
    user: str = ""
    after: Annotated[bytes, msgspec.Meta(max_length=NONCE_BYTES)] = b""
    """Of peers: the nonce of the last connection that these two had open and whose end the one who
    dials has seen."""


class Answerer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who answers. Frames up to `frame_max` are taken."""

    name: str
    role: Role
    frame_max: int
    nonce: Nonce
    identity: str = ""
    """Of nodes: of which cluster this one is; nothing while it is of none."""


class Welcome(msgspec.Struct, frozen=True):
    """I am this one, and know the secret of that user; now prove that you do."""

    answerer: bytes
    """A `Answerer`, as it was written: proofs are over these bytes."""
    proofs: Annotated[tuple[Digest, ...], msgspec.Meta(min_length=1, max_length=SECRETS_MAX)]


class Proof(msgspec.Struct, frozen=True, omit_defaults=True):
    """I know it too."""

    proof: Digest
    key: Annotated[bytes, msgspec.Meta(max_length=KEY_BYTES)] = b""
    """Of clients: what their name is made of."""

    def __repr__(self) -> str:
        return repr_without(self, "key")


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


class Speaker(msgspec.Struct, frozen=True, kw_only=True):
    """Who dials: as what, for which user, and what proves it."""

    cluster: str
    name: NodeId
    role: Role
    user: User = ANYBODY
    secret: str = ""
    key: bytes = b""
    """Of clients: what the name is made of."""
    known: KnownCluster = msgspec.field(default_factory=KnownCluster)

    def __repr__(self) -> str:
        return repr_without(self, "secret", "key")


class Gate(msgspec.Struct):
    """Whom a process lets in. Its accounts may be replaced at any time."""

    cluster: str
    accounts: Accounts = msgspec.field(default_factory=lambda: Accounts.of_token(""))
    known: KnownCluster = msgspec.field(default_factory=KnownCluster)
    _decoys: list[str] = msgspec.field(
        default_factory=lambda: [secrets.token_hex() for _ in range(SECRETS_MAX)]
    )
    """Stand where a user has fewer secrets, or where there is no such user."""

    def check(self, hello: Hello, me: Role) -> NodeId:
        """The name of whoever may go on; raises when they may not, whatever they could prove."""
        if hello.cluster != self.cluster:
            text = f"this is cluster {self.cluster!r}, not {_short(hello.cluster)}"
            raise AccessDenied(text)
        if hello.role.wanted is not me:
            raise AccessDenied(_WRONG_DOOR[me].format(role=hello.role.value))
        name = node_id(hello.name)
        if name.startswith(CLIENT_PREFIX) is (hello.role is Role.NODE):
            text = f"{name} can't be the name of a {hello.role.value}: "
            raise AccessDenied(text + "those of clients begin with c-, and of nodes never")
        return name

    def proofs(self, user: str, greeting: "Greeting") -> tuple[bytes, ...]:
        """What a `Welcome` says of the user's secrets (rule 2)."""
        return tuple(
            [greeting.digest(LISTENS, one) for one in self._tried(self.accounts.find(user))]
        )

    def proved(self, hello: Hello, greeting: "Greeting", proof: Proof) -> tuple[User, str]:
        """Who has dialled, and by which secret; raises `AccessDenied`."""
        account = self.accounts.find(hello.user)
        fit = [
            hmac.compare_digest(proof.proof, greeting.digest(DIALS, one))
            for one in self._tried(account)
        ]  # all of them, so that time does not say which
        number = next((at for at, fits in enumerate(fit) if fits), SECRETS_MAX)
        if account is None or number >= len(account.secrets):
            raise AccessDenied(wrong_secret(hello.user))
        if hello.role is Role.CLIENT and not is_made_of(hello.name, proof.key):
            raise AccessDenied(f"{hello.name} is the name of another client, or of none")
        if hello.role is Role.NODE and not account.user.may(Right.NODE):
            who = f"user {hello.user}" if hello.user else "who has this token"
            raise AccessDenied(f"{who} may not be a node here: that takes the right 'node'")
        return account.user, account.secrets[number]

    def _tried(self, account: Account | None) -> list[str]:
        return [*(account.secrets if account else ()), *self._decoys][:SECRETS_MAX]


_WRONG_DOOR: Final = {
    Role.NODE: "this is a node; a process of a pool calls it as a client",
    Role.PEER: "this is a process of a pool; a {role} has no business here",
}
LISTENS: Final = b"listens"
DIALS: Final = b"dials"


class Greeting(msgspec.Struct, frozen=True):
    """All that both sides of one connection have said, and what both know of it.

    >>> greeting = Greeting(b"hello", b"welcome")
    >>> greeting.digest(LISTENS, "secret") == greeting.digest(DIALS, "secret")
    False
    """

    hello: bytes
    answerer: bytes
    channel: bytes = b""

    def digest(self, side: bytes, secret: str) -> bytes:
        """By which one side shows that it knows the secret (rules 1 and 3)."""
        bound = msgspec.msgpack.encode((side, self.hello, self.answerer, self.channel))
        with _PROVING:
            return hmac.digest(secret.encode(), bound, "sha256")


def wrong_secret(user: str) -> str:
    """Why a proof is not good, as far as anybody but its user may know.

    >>> wrong_secret("shop")
    "there is no user 'shop' with this secret"
    """
    if not user:
        return "the token is missing or wrong"
    return f"there is no user {_short(user)} with this secret"


def new_key() -> bytes:
    """Of a client that begins."""
    return secrets.token_bytes(KEY_BYTES)


def made_of(key: bytes) -> str:
    """How the name of the client begins that drew this key (rule 4).

    >>> made_of(bytes(KEY_BYTES)), is_made_of("c-N0cI__dxndWX.load.py", bytes(KEY_BYTES))
    ('c-N0cI__dxndWX', True)
    """
    digest = hashlib.sha256(key).digest()[:_NAME_BYTES]
    return CLIENT_PREFIX + urlsafe_b64encode(digest).decode()


def is_made_of(name: str, key: bytes) -> bool:
    """Whether the name is of the client that drew this key."""
    return len(key) == KEY_BYTES and name.partition(".")[0] == made_of(key)


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
