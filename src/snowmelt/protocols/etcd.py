"""What a node asks of etcd, and what it is told: the few words of it that deciding needs.

A machine sends these to `ETCD`, as it would to a node, and whoever runs the node carries them: the
world to its simulated etcd, the runtime to a real one. So an answer may be late, come twice, or not
at all, and then what was asked may have happened, or may happen later. Rules:

1. Every request has a number of its asker's; the answer repeats it.
2. A `Transact` does its `then` if everything in `when` holds, and its `otherwise` if not, in one
   step. Asked again it is another transaction: what makes a second one harmless is its `when`.
3. What a transaction reads is as of one moment between asking and being told, never older.
4. A key put under a lease is gone once the lease has ended: after its seconds without a
   `Refresh`, by etcd's clock and not before, or later, when etcd was busy with itself. It goes at
   once when somebody wants it to end (`Revoke`). Who holds a lease may believe in it after it
   ended; so a lease may elect, and must not protect.
5. `EtcdFailed` says that nothing is known (`UNKNOWN`), or that it was refused and has not happened.
6. Watches are not used: who needs news asks, so there is none to be late, to lag or to break.

Keys are below the prefix of a cluster, which whoever carries the words puts before them.
"""

from enum import Enum
from typing import Final

import msgspec

from snowmelt.core.names import NodeId

ETCD: Final = NodeId("(etcd)")
"""The name that requests are sent to; the brackets keep it apart from every node's."""

OPERATIONS_MAX: Final = 128
"""So many comparisons, and so many operations on each side, a transaction may have."""
ROWS_MAX: Final = 500
"""So many rows one `Read` brings at most."""


class Unchanged(msgspec.Struct, frozen=True, tag="etcd.unchanged", array_like=True):
    """Whether a key was last changed at this revision; 0 for a key that is not there."""

    key: str
    revision: int


class CompareValue(msgspec.Struct, frozen=True, tag="etcd.holds", array_like=True):
    """Whether a key is there and has this value."""

    key: str
    value: bytes


class PutKey(msgspec.Struct, frozen=True, tag="etcd.put", array_like=True):
    """Gives a key a value, under a lease unless that is 0."""

    key: str
    value: bytes
    lease: int = 0


class DeleteKey(msgspec.Struct, frozen=True, tag="etcd.delete", array_like=True):
    """Takes a key away, if it is there."""

    key: str


class Read(msgspec.Struct, frozen=True, tag="etcd.read", array_like=True):
    """The rows from `start` up to, not including, `stop`, in order; `start` alone without it."""

    start: str
    stop: str = ""
    rows_max: int = ROWS_MAX


Condition = Unchanged | CompareValue
Operation = PutKey | DeleteKey | Read


class Row(msgspec.Struct, frozen=True, array_like=True):
    """A key with its value, and the revision that gave it."""

    key: str
    value: bytes
    revision: int


class LeaseGrant(msgspec.Struct, frozen=True, tag="etcd.grant", array_like=True):
    """A new lease of so many seconds, please."""

    number: int
    seconds: int


class Refresh(msgspec.Struct, frozen=True, tag="etcd.refresh", array_like=True):
    """This lease is to begin anew."""

    number: int
    lease: int


class Revoke(msgspec.Struct, frozen=True, tag="etcd.revoke", array_like=True):
    """This lease is to end now, and its keys to go with it."""

    number: int
    lease: int


class Transact(msgspec.Struct, frozen=True, tag="etcd.transact", array_like=True):
    # Rule 2.

    number: int
    when: tuple[Condition, ...]
    then: tuple[Operation, ...] = ()
    otherwise: tuple[Operation, ...] = ()


Request = LeaseGrant | Refresh | Revoke | Transact


class LeaseGranted(msgspec.Struct, frozen=True, tag="etcd.granted", array_like=True):
    """A lease, for so many seconds: at least those asked for."""

    number: int
    lease: int
    seconds: int


class Refreshed(msgspec.Struct, frozen=True, tag="etcd.refreshed", array_like=True):
    """The lease has so many seconds again; 0 when it has ended."""

    number: int
    seconds: int


class Revoked(msgspec.Struct, frozen=True, tag="etcd.revoked", array_like=True):
    number: int


class Transacted(msgspec.Struct, frozen=True, tag="etcd.transacted", array_like=True):
    """Which side was done, at which revision, and what each `Read` of that side brought."""

    number: int
    revision: int
    succeeded: bool
    read: tuple[tuple[Row, ...], ...] = ()


class Trouble(Enum):
    """Why there is no answer."""

    UNKNOWN = "unknown"
    """It may have happened, or may yet."""
    NO_LEASE = "no lease"
    """The lease of a `PutKey`, or of a `Revoke`, is not there."""
    FULL = "full"
    """There is no room; reads and leases go on."""
    REFUSED = "refused"
    """A wrong password, no right to it, or something that this etcd does not know."""


class EtcdFailed(msgspec.Struct, frozen=True, tag="etcd.failed", array_like=True):
    # Rule 5.

    number: int
    trouble: Trouble
    text: str


Answer = LeaseGranted | Refreshed | Revoked | Transacted | EtcdFailed
ANSWERS: Final = (LeaseGranted, Refreshed, Revoked, Transacted, EtcdFailed)
