"""The centre of the house: a node is a pure machine, one function from an event to its effects.

    effects = node.handle(event, now)

A node opens no socket, reads no clock and rolls no dice of its own: time is the argument `now`,
chance is a `random.Random` given when it is made. So the same node runs in the simulated world
(`snowmelt_world`), inside one process, and on a network (`snowmelt.runtime`), and whoever runs it
owes it these rules:

1. `Started` comes first, once, with every small record of its disk (see `core.record`), and tells
   what the wall clock showed at its `now`.
2. Events come one at a time. `now` never goes backwards between them.
3. Effects are carried out in the order returned. A `Send` may be lost, doubled, late, or overtake
   another; a node must live with that.
4. A `Persist` is atomic and, once flushed, comes back as `Persisted` with its ticket, in the order
   asked; when the disk has no room it comes back as `PersistFailed` and left no trace. Only what
   `Persisted` names survives a crash for certain; what was asked and not answered may or may not.
   A disk that fails in any other way takes nothing more: what was asked may be on it or not, which
   `PersistFailed` says as `fatal`, and the node must halt (rule 10).
5. A `Load` or a `Scan` comes back as `Loaded` and sees every `Persist` that was asked before it.
6. Setting a timer that is set replaces it. A timer that is due fires once, as `Expired`.
7. `Requested` is a client's call; `Reply` answers it. The same operation id may come twice, since
   clients ask again: a node must do the work once.
8. `Announce` tells the other machines of the same process a fact, which they see as `Announced`.
9. `Note` says why a machine decided as it did; it goes to logs, stories and golden scripts.
10. `Halt` is the node's last effect: it must not go on, and says why.

Rule of order, for whoever writes a machine: what must be safe before it is told goes into a
`Persist`, and the telling waits for `Persisted`. There is no other way to say "after the flush".
"""

from enum import Enum
from typing import Generic, Protocol, TypeVar

import msgspec

from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.record import Change, Found, Record

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)


# --- events: the only way in ----------------------------------------------------------------------


class Started(msgspec.Struct, frozen=True, tag=True):
    """The node begins to live, for the first time or again, with what its disk holds.

    `wall` is what the wall clock showed, in nanoseconds since 1970, at the instant of this event. A
    node that adds to it what has passed since knows the date, and so can keep on its disk when
    something is due, for its next life or for another machine. Wall clocks are set by people.
    """

    records: tuple[Record, ...] = ()
    damaged: tuple[bytes, ...] = ()
    wall: int = 0


class Received(msgspec.Struct, Generic[M_co], frozen=True, tag=True, gc=False):
    """A message came from another node."""

    source: NodeId
    message: M_co


class Expired(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """A timer's instant has come."""

    timer: Enum
    wall: int = 0
    """What the wall clock shows, which may have been set since the start; 0: nobody looked."""


class Persisted(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The changes under this ticket are on the disk and flushed."""

    ticket: int


class PersistFailed(msgspec.Struct, frozen=True, tag=True):
    """The changes under this ticket could not be kept; none of them is on the disk.

    When `fatal`, the disk has failed: they may be there or not, and it takes nothing more.
    """

    ticket: int
    reason: str
    fatal: bool = False


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """What was found under the keys, or in the range, of this ticket, in their order."""

    ticket: int
    found: tuple[Found, ...]


class Requested(msgspec.Struct, Generic[M_co], frozen=True, tag=True, gc=False):
    """A client calls."""

    operation: OperationId
    message: M_co


class Announced(msgspec.Struct, frozen=True, tag=True):
    """Another machine of this process told a fact."""

    fact: msgspec.Struct


Event = (
    Started
    | Received[M_co]
    | Expired
    | Persisted
    | PersistFailed
    | Loaded
    | Requested[M_co]
    | Announced
)


# --- effects: the only way out --------------------------------------------------------------------


class Send(msgspec.Struct, Generic[M_co], frozen=True, tag=True, gc=False):
    """Sends a message; it may never arrive."""

    target: NodeId
    message: M_co


class SetTimer(msgspec.Struct, frozen=True, tag=True):
    """Asks for `Expired(timer)` at an instant of this node's clock."""

    timer: Enum
    at: Instant


class CancelTimer(msgspec.Struct, frozen=True, tag=True):
    """Takes a timer back; nothing happens when it is not set."""

    timer: Enum


class Persist(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Asks that these changes be made on the disk together, and flushed."""

    ticket: int
    changes: tuple[Change, ...]


class Load(msgspec.Struct, frozen=True, tag=True):
    """Asks for what is under these keys.

    What is read for a `client` comes when that one has room for its answer: a thousand answers that
    wait for one who does not read would all be in memory. It may ask for no key, only for that.
    """

    ticket: int
    keys: tuple[bytes, ...]
    client: NodeId | None = None


class Scan(msgspec.Struct, frozen=True, tag=True):
    """Asks for the records from `start` up to, not including, `stop`; both bulk, or both small.

    They come as `Loaded`, in order, each a `Record` or `Damaged`. What comes ends after the record
    with which the bytes of the values reach `bytes_max`, or after `core.record.SCAN_RECORDS_MAX`
    records. So there is always one, if there is any; whoever wants them all scans on from behind
    the last until nothing comes.
    """

    ticket: int
    start: bytes
    stop: bytes
    bytes_max: int


class Reply(msgspec.Struct, Generic[M_co], frozen=True, tag=True, gc=False):
    """Answers a client's call."""

    operation: OperationId
    message: M_co


class Announce(msgspec.Struct, frozen=True, tag=True):
    """Tells the other machines of this process a fact."""

    fact: msgspec.Struct


class Note(msgspec.Struct, frozen=True, tag=True):
    """Says why, in a sentence."""

    text: str


class Halt(msgspec.Struct, frozen=True, tag=True):
    """This node must not go on; its process ends with `error`, a name from `core.errors`."""

    reason: str
    error: str = "NodeRefused"


Effect = (
    Send[M_co]
    | SetTimer
    | CancelTimer
    | Persist
    | Load
    | Scan
    | Reply[M_co]
    | Announce
    | Note
    | Halt
)


class Node(Protocol[M]):
    """One participant's whole state machine.

    The smallest there is:

    >>> class Parrot:
    ...     def handle(self, event, now):
    ...         match event:
    ...             case Received(source, message):
    ...                 return [Send(source, message)]
    ...             case _:
    ...                 return []
    ...     def check(self):
    ...         pass
    >>> Parrot().handle(Received(NodeId("n2"), "hello"), Instant(0))
    [Send(target='n2', message='hello')]
    """

    def handle(self, event: Event[M], now: Instant) -> list[Effect[M]]:
        """Takes in one event and returns what is to be done, in order."""
        ...

    def check(self) -> None:
        """Asserts this node's own invariants; the world calls it after every step."""
        ...
