"""What a client asks of a node about batons, and what it is told; see the package's rules."""

from typing import Annotated, Final, get_args

import msgspec

from snowmelt.core.ahead import MANY, Blob, Label, Unsigned, Whole
from snowmelt.core.instant import Length, seconds
from snowmelt.core.names import Address, NodeName
from snowmelt.core.users import Patterns

POLL: Final = seconds(2)
"""A call that waits is answered `Queued` after this, and the client calls again at once."""

KNOWN: Final = seconds(0.5)
"""A call that may not wait is answered after this, though it is not known who has the baton."""


class Acquire(msgspec.Struct, frozen=True, tag="baton.acquire", array_like=True):
    """I want the baton. The same ticket again is the same want, and keeps its place."""

    name: Label
    ticket: Whole
    """Drawn by the client, 63 bits: it names this want, and the hold that comes of it, for ever."""
    wait: Length
    """How long to wait before `Queued`; `POLL` at most. 0 is until the baton is known to be taken,
    and `KNOWN` at most."""


class HeldAt(msgspec.Struct, frozen=True, array_like=True):
    """The node at which a baton is held: only it can keep, save or pass it."""

    node: NodeName
    life: Unsigned
    address: Address


class Granted(msgspec.Struct, frozen=True, tag="baton.granted", array_like=True):
    """It is yours, for the time of the lease from when you last asked; renew it before."""

    fence: Unsigned
    """Larger than that of any grant of this baton before."""
    made: Unsigned
    """The fence with which the baton itself was made: another than the last holder's when it had
    been lost and made again."""
    value: Blob
    lease: Length
    where: HeldAt


class Queued(msgspec.Struct, frozen=True, tag="baton.queued", array_like=True):
    """Not yet; ask again within `PATIENCE`, or your place is given up."""


class Renew(msgspec.Struct, frozen=True, tag="baton.keep", array_like=True):
    """I work on, renew my lease. `Declined("BatonLost")` when it is no longer mine."""

    name: Label
    ticket: Whole
    fence: Unsigned
    where: HeldAt


class Renewed(msgspec.Struct, frozen=True, tag="baton.kept", array_like=True):
    """For the time of the lease, from when you asked."""

    lease: Length


class Holding(msgspec.Struct, frozen=True, array_like=True):
    """One of many holds of one client at one node."""

    name: Label
    ticket: Whole
    fence: Unsigned


class RenewMany(msgspec.Struct, frozen=True, tag="baton.keep_many", array_like=True):
    """I work on all of these, renew their leases; `KEEPS_AT_ONCE` at most."""

    holdings: Annotated[tuple[Holding, ...], msgspec.Meta(max_length=1_000)]
    where: HeldAt


class RenewedMany(msgspec.Struct, frozen=True, tag="baton.kept_many", array_like=True):
    """For the time of the lease, from when you asked; but those are lost."""

    lease: Length
    lost: Annotated[tuple[tuple[Whole, Label], ...], MANY] = ()
    """Which of them, by its place among those that were named, and why."""


class SaveValue(msgspec.Struct, frozen=True, tag="baton.save", array_like=True):
    """Keep this value on the root's disk, or in etcd, whatever happens to me; I hold on."""

    name: Label
    ticket: Whole
    fence: Unsigned
    where: HeldAt
    value: Blob
    number: Whole = 0
    """The how-manieth of this hold it is: an older one that comes late is void. 0 says nothing."""


class ValueSaved(msgspec.Struct, frozen=True, tag="baton.saved", array_like=True):
    """The value is on the disk of the root."""


class Release(msgspec.Struct, frozen=True, tag="baton.release", array_like=True):
    """I am done; whoever comes next gets this value, or the one that I got when it is None.

    It also ends a want that was not yet granted: then `fence` is 0, and `where` does not matter.
    """

    name: Label
    ticket: Whole
    fence: Unsigned
    where: HeldAt | None
    value: Blob | None


class Released(msgspec.Struct, frozen=True, tag="baton.released", array_like=True):
    """The baton has gone on to the next in the order."""


class GetBaton(msgspec.Struct, frozen=True, tag="baton.get", array_like=True):
    """How this node sees the baton."""

    name: Label


class BatonStatus(msgspec.Struct, frozen=True, tag="baton.status", array_like=True):
    """One node's part of it; nobody sees the whole."""

    name: Label
    node: NodeName
    state: Label
    """"held", "idle", "moving" when it is here; "elsewhere" when it is not."""
    fence: Unsigned
    """The largest fence that was seen here."""
    waiting: Whole
    """How many of this node's clients wait."""
    points_at: NodeName
    """Where the end of the queue lies."""


class ListBatons(msgspec.Struct, frozen=True, tag="baton.list", array_like=True):
    """Which batons this node knows of, after this name."""

    after: Label = ""
    only: Patterns = ()
    """Only those that fit one of these; the door says which the user may see. Without: all."""


class BatonNames(msgspec.Struct, frozen=True, tag="baton.names", array_like=True):
    """A thousand at most, in order."""

    names: Annotated[tuple[Label, ...], MANY]


class LookAtBatons(msgspec.Struct, frozen=True, tag="baton.look", array_like=True):
    """How this node sees those batons that are here, or that its clients wait for, after a name."""

    after: Annotated[str, msgspec.Meta(max_length=200)] = ""
    only: Patterns = ()
    """As in `ListBatons`."""


class BatonLooks(msgspec.Struct, frozen=True, tag="baton.looks", array_like=True):
    """A thousand at most, in the order of their names."""

    statuses: Annotated[tuple[BatonStatus, ...], MANY]


class ResetBaton(msgspec.Struct, frozen=True, tag="baton.reset", array_like=True):
    """The value of this baton, which can't be read on the root's disk, is given up."""

    name: Label


class BatonReset(msgspec.Struct, frozen=True, tag="baton.was-reset", array_like=True):
    """It goes on without a value."""


PATIENCE: Final = seconds(3)
"""How long a want lives after `Queued` without being asked for again."""

VALUE_BYTES_MAX: Final = 1 << 20
ETCD_VALUE_BYTES_MAX: Final = 64 << 10
"""Where etcd decides, and keeps it."""
NAMES_AT_ONCE: Final = 1_000
KEEPS_AT_ONCE: Final = 500
"""As many as a node renews in a moment."""

Request = (
    Acquire
    | Renew
    | RenewMany
    | SaveValue
    | Release
    | GetBaton
    | ListBatons
    | LookAtBatons
    | ResetBaton
)
Response = (
    Granted
    | Queued
    | Renewed
    | RenewedMany
    | ValueSaved
    | Released
    | BatonStatus
    | BatonNames
    | BatonLooks
    | BatonReset
)

REQUESTS: Final[tuple[type[msgspec.Struct], ...]] = get_args(Request)
