"""What a program asks of its own part in a pool. These cross no wire.

Each is `Requested(operation, …)` to `PoolPeer`, and is answered by `Reply(operation, …)` with what
stands beside it, or with `Declined`, whose `error` is a name from `core.errors`. Every patience
is how long the answer may take at most.
"""

from typing import Any, Final, get_args

import msgspec

from snowmelt.core.instant import Duration
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.pool.introductions import Acquaintance
from snowmelt.protocols.pool.messages import ObjectSpan

CLOSED: Final = "this pool is closed"


class PoolPut(msgspec.Struct, frozen=True):
    """Keeps objects here until a consumer asks for them; waits for room. -> `PoolReceipt`."""

    offsets: bytes
    blob: bytes
    patience: Duration
    asker: int = 0
    """Which of the program's threads or tasks puts, as in `AwaitRoom`; 0 is told of no places."""
    ahead: int = 0
    """The bytes of the place that it has (rule 19): then it is in, and nobody waits to hear it."""


class PoolReceipt(msgspec.Struct, frozen=True):
    """So many objects of a `PoolPut`, its first ones, are in the pool; the others are not."""

    count: int
    numbers: Interval
    closed: bool = False
    """Whether the others still waited for room when this process was asked to leave."""


class AwaitRoom(msgspec.Struct, frozen=True):
    """Waits until the asker's next put will find room: the paper's producer makes nothing before.

    Room is told of to as many askers as it has place for (rule 14).
    """

    patience: Duration
    asker: int = 0
    """Which of the program's threads or tasks asks; all for which it is 0 are told at once."""


class GiveUp(msgspec.Struct, frozen=True):
    """Nobody puts anything in a place of so many bytes that was told of ahead. No answer."""

    size: int


class HasRoom(msgspec.Struct, frozen=True):
    """There is room for an object."""


class PoolGet(msgspec.Struct, frozen=True):
    """Asks for objects. -> `Got`, or `Declined("Empty")`."""

    objects_max: int
    bytes_max: int
    patience: Duration
    hold: bool = False
    """Whether what comes at most once is held, too, until it is told that it was handed out."""


class Got(msgspec.Struct, frozen=True):
    """Objects on loan from a producer."""

    producer: NodeId
    token: int
    """0 when there is nothing to settle: delivery is at most once."""
    spans: tuple[ObjectSpan, ...]
    blob: bytes
    hops: int
    waited: Duration


class Ack(msgspec.Struct, frozen=True):
    """These are done. -> `Acked` when the producer has confirmed it, else `Declined`.

    With no patience it is told at once, and nobody knows.
    """

    token: int
    intervals: tuple[Interval, ...]
    patience: Duration


class Acked(msgspec.Struct, frozen=True):
    """The producer has forgotten them, or has been told to."""


class Nack(msgspec.Struct, frozen=True):
    """These go back. -> `Acked`."""

    token: int
    intervals: tuple[Interval, ...]


class LetGo(msgspec.Struct, frozen=True):
    """Nobody has what is open of this loan any more: its lease ends it. No answer."""

    token: int


class Withdraw(msgspec.Struct, frozen=True):
    """Ends an operation that still waits (a get, a put); it is answered `Declined`. No answer."""

    number: int


class Stop(msgspec.Struct, frozen=True):
    """Leaves in order: what is held goes back, what is kept is handed over. -> `Stopped`."""

    patience: Duration


class Stopped(msgspec.Struct, frozen=True):
    """It has left. So many objects nobody took; with spill they are on the disk."""

    left: int


class DescribePeer(msgspec.Struct, frozen=True):
    """Asks how this part is. -> `PeerStatistics`."""


class ProducerCount(msgspec.Struct, frozen=True):
    """What a consumer knows of one producer."""

    id: NodeId
    name: str
    asked: int
    """How many requests went there first."""
    had: int
    """How many were answered from there."""
    rate: float
    weight: float
    """How likely it is to be drawn."""


class PeerStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How one process' part in a pool is."""

    # as a producer
    stock: int = 0
    stock_bytes: int = 0
    on_loan: int = 0
    in_line: int = 0
    """How many requests wait here."""
    put: int = 0
    given: int = 0
    settled: int = 0
    given_back: int = 0
    expired: int = 0
    """Objects that came back because their consumer was not heard of (or were dropped, at most
    once)."""
    probes_met: int = 0
    """Requests that came by."""
    probes_empty: int = 0
    """Those of them that found nothing here."""
    rate: float = 0.0
    blocked_seconds: float = 0.0
    """How long puts have waited for room."""
    # as a consumer
    requests: int = 0
    """Gets that went out."""
    hops: int = 0
    """How many producers were probed for what was got."""
    tried_again: int = 0
    """Attempts after the first."""
    got: int = 0
    waited_seconds: float = 0.0
    """From asking until something came, of all gets together."""
    refused: int = 0
    """What came for an attempt that was over, and went back."""
    late: int = 0
    """Acknowledgements that came too late."""
    producers: tuple[ProducerCount, ...] = ()


# --- facts ---------------------------------------------------------------------------------------


class ListensAt(msgspec.Struct, frozen=True):
    """Announced to the machine by whoever runs it: where others reach this process."""

    address: Address


class Reachable(msgspec.Struct, frozen=True):
    """Announced to the machine: there is a way to this process again."""

    target: NodeId


class Coming(msgspec.Struct, frozen=True):
    """Announced to the machine: a large `ObjectsLent` is on its way, without its blob yet.

    Until it is whole, or `NotReceived`, or `Lost` tells that its way has ended, its request need
    not be tried again. One of the three always follows.
    """

    source: NodeId
    number: int
    attempt: int
    token: int
    lease: Duration = Duration(0)
    """How long its loan lasts, if that is known: while it comes, it is held."""


class NotReceived(msgspec.Struct, frozen=True):
    """Announced to the machine: what was `Coming` was not taken in, and nothing of it comes now."""

    source: NodeId
    number: int
    attempt: int
    token: int


class Unsent(msgspec.Struct, frozen=True):
    """Announced to the machine: this message has not left this process, and never will."""

    target: NodeId
    message: Any


class Unused(msgspec.Struct, frozen=True):
    """Announced to the machine: nothing passes on the way to this one. -> `Need` (rule 17)."""

    target: NodeId


class Need(msgspec.Struct, frozen=True):
    """Announced by the machine: whether it needs the way to this one (rule 17)."""

    target: NodeId
    needed: bool


class LoanExpired(msgspec.Struct, frozen=True):
    """Announced by the machine: its consumer was not heard of, and a loan is over.

    So what of it has not left is kept for nobody.
    """

    consumer: NodeId
    token: int


class PoolMembers(msgspec.Struct, frozen=True):
    """Announced to a machine that has no node to introduce it: who is in the pool."""

    producers: tuple[Acquaintance, ...]
    known: tuple[NodeId, ...]
    """Those of them that it may probe."""


class Acquaintances(msgspec.Struct, frozen=True):
    """Announced by the machine: who can be spoken to, and with whom a way is wanted now."""

    addresses: dict[NodeId, Address]
    wanted: tuple[NodeId, ...]


class Ahead(msgspec.Struct, frozen=True):
    """Announced by the machine: so many places, each for one object of so many bytes (rule 19).

    With none of them, those that nobody has taken are to be given up.
    """

    count: int
    size: int


Local = PoolPut | GiveUp | AwaitRoom | PoolGet | Ack | Nack | LetGo | Withdraw | Stop | DescribePeer

MESSAGES: Final[tuple[type[msgspec.Struct], ...]] = get_args(Local)
