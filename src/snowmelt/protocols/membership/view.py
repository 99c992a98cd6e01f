"""Views, and the ledger of decisions they come from: plain values and one pure step.

Version 1 of the record. When a field is added, give it a default, so that an older record still
reads. When one changes its meaning, raise the number in `_VERSION`, and teach `Ledger.read` the old
form before anything else, so that a cluster can be upgraded node by node.
"""

from typing import Annotated, Final
from zlib import crc32

import msgspec

from snowmelt.core.ahead import MANY, Whole, is_far
from snowmelt.core.errors import StoreDamaged
from snowmelt.core.instant import Duration, Instant
from snowmelt.core.names import Address, NodeId, NodeName
from snowmelt.core.record import decoded

_VERSION: Final = 1
EPOCHS: Final = 1 << 23
"""So many views there may be: one a second for three months."""
EPOCHS_AHEAD: Final = 1 << 18
"""So many views a disk can have missed: four times a cluster was founded anew (`rescuing.py`)."""

Epoch = Annotated[int, msgspec.Meta(ge=0, lt=EPOCHS)]
Length = Annotated[Duration, msgspec.Meta(ge=0, le=1 << 56)]


class Member(msgspec.Struct, frozen=True, order=True):
    """A node as a view lists it. A node that restarted is another `Member`, with a later start."""

    id: NodeName
    address: Address
    birth: Whole
    start: Whole

    @property
    def life(self) -> int:
        """Which life of a node this is; no other of the same id is like it.

        A start alone would not do: who comes back with an empty disk counts from the beginning.
        """
        return self.birth + self.start


OTHER_CLUSTER: Final = (
    "name nodes of its own cluster with --join or --coordinator, or start a node of another --id on"
    " a new folder; keep this one"
)
"""The way out for a disk that is of another cluster."""


def identity_of(cluster: int) -> str:
    """A cluster's identity as people and URLs have it.

    >>> identity_of(0x2AB5C1E09F77D013)
    '2ab5c1e09f77d013'
    """
    return f"{cluster:016x}"


class View(msgspec.Struct, frozen=True):
    """A numbered membership. `cluster` is the cluster's identity, drawn when it was founded."""

    cluster: Whole
    epoch: Epoch
    coordinator: NodeName
    members: Annotated[tuple[Member, ...], MANY]

    @property
    def identity(self) -> str:
        """The cluster's identity, identity_of."""
        return identity_of(self.cluster)

    @property
    def mark(self) -> int:
        """Tells this view from another of the same number, which only older copies of a disk make.

        >>> one, other = (View(1, 6, NodeId(name), ()) for name in "ab")
        >>> one.mark == one.mark > 0, one.mark == other.mark
        (True, False)
        """
        return 1 + crc32(msgspec.msgpack.encode(self))

    def alarm(self, epoch: int, source: NodeId, most: int = EPOCHS_AHEAD) -> str:
        """What there is to say of who speaks of a view that nobody can have counted to; or ""."""
        if not is_far(epoch, self.epoch, most):
            return ""
        return f"alarm: {source} speaks of view {epoch}, and {self.epoch} is the last known here"

    def member(self, node: NodeId) -> Member | None:
        """The member of this id, if it is present. O(members)."""
        return next((one for one in self.members if one.id == node), None)

    def has(self, member: Member) -> bool:
        """Whether this very start of a node is present."""
        return self.member(member.id) == member

    def __str__(self) -> str:
        names = " ".join(f"{one.id}/{one.start}" for one in self.members)
        return f"view {self.epoch}: {names or 'nobody'}"


class CutOff(msgspec.Struct, frozen=True):
    """Announced when a node is no longer current; what needs a view must stop."""

    epoch: int
    leaving: bool = False
    """Whether it goes in order: then what it says now is still heard, before its goodbye."""


class Current(msgspec.Struct, frozen=True):
    """Announced whenever a node is accepted: it is current until then, if nothing comes after it.

    A machine that holds what others may be given once its node is out looks at this before every
    event: a process that slept may be woken by any of them.
    """

    until: Instant


class Unsure(msgspec.Struct, frozen=True):
    """Announced before what it is about: until then somebody may be current whom the view lacks.

    Rule 27 of the package; `host.py` sees to it that only those act on the view who may.
    """

    until: Instant


class Severed(msgspec.Struct, frozen=True):
    """A fact that whoever runs a node announces to it: no way to this node is left.

    All connections with it have ended, and it refuses new ones: a hint that its process is no
    more (rule 27 of the package).
    """

    node: NodeId


class IdBinding(msgspec.Struct, frozen=True):
    """To whom an id is bound, present or not."""

    id: NodeId
    birth: int
    start: int
    run: int


class Admit(msgspec.Struct, frozen=True):
    """A decision asked for: this member comes in, or comes in again."""

    member: Member
    run: int


class Remove(msgspec.Struct, frozen=True):
    """A decision asked for: this start of this node goes out of the view."""

    id: NodeId
    start: int


class FreeId(msgspec.Struct, frozen=True):
    """A decision asked for: the id of an absent node becomes free."""

    id: NodeId


class Surpass(msgspec.Struct, frozen=True):
    """A decision asked for: a view numbered above this one, which somebody has."""

    epoch: int


Proposal = Admit | Remove | FreeId | Surpass


class Ledger(msgspec.Struct, frozen=True):
    """All that the coordinator has decided: the present view, and who owns which id."""

    view: View
    known: tuple[IdBinding, ...] = ()
    version: int = _VERSION
    unsure: Duration = Duration(0)
    """For so long after it was decided somebody may be current whom the view lacks."""
    left_out: tuple[int, int] = (0, 0)
    """Views between these two numbers may have been, unknown to who founded the cluster anew."""

    def bound(self, node: NodeId) -> IdBinding | None:
        """To whom an id is bound. O(known)."""
        return next((one for one in self.known if one.id == node), None)

    def after(self, proposal: Proposal) -> "Ledger":
        """The ledger once this is decided; itself when the proposal changes nothing."""
        match proposal:
            case Admit(member, run):
                if not self._fits(member, run):
                    return self
                known = IdBinding(member.id, member.birth, member.start, run)
                return self._with(member.id, member, known)
            case Remove(node, start):
                present = self.view.member(node)
                if present is None or present.start != start:
                    return self
                return self._with(node, None, self.bound(node))
            case FreeId(node):
                if self.view.member(node) is not None or self.bound(node) is None:
                    return self
                return self._with(node, None, None)
            case Surpass(epoch):
                if epoch < self.view.epoch:
                    return self
                view = msgspec.structs.replace(self.view, epoch=epoch + 1)
                return msgspec.structs.replace(self, view=view)

    def led(self, member: Member, run: int) -> "Ledger":
        """The ledger with this member in it, and deciding; itself when the member does not fit."""
        if not self._fits(member, run):
            return self
        known = IdBinding(member.id, member.birth, member.start, run)
        after = self._with(member.id, member, known)
        if after.view.coordinator == member.id:
            return after
        epoch = self.view.epoch + 1
        view = msgspec.structs.replace(after.view, coordinator=member.id, epoch=epoch)
        return msgspec.structs.replace(after, view=view)

    def _fits(self, member: Member, run: int) -> bool:
        """Rule 2 once more: another may have been admitted since this one was proposed."""
        known = self.bound(member.id)
        if known is None:
            return True
        again = (member.start, run) == (known.start, known.run)
        return member.birth == known.birth and (member.start > known.start or again)

    def _with(self, node: NodeId, member: Member | None, known: IdBinding | None) -> "Ledger":
        members = [one for one in self.view.members if one.id != node]
        owners = [one for one in self.known if one.id != node]
        if member is not None:
            members.append(member)
        if known is not None:
            owners.append(known)
        # Sorted, so that the same decisions give the same bytes in every process.
        seen = tuple(sorted(members))
        epoch = self.view.epoch + (seen != self.view.members)
        view = View(self.view.cluster, epoch, self.view.coordinator, seen)
        known_now = tuple(sorted(owners, key=lambda one: one.id))
        return msgspec.structs.replace(self, view=view, known=known_now)

    def written(self) -> bytes:
        """As it stands on the disk."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def read(cls, value: bytes) -> "Ledger":
        """From the disk; raises `StoreDamaged` for bytes that are no ledger of a known version."""
        ledger: Ledger = decoded(value, cls)
        if ledger.version != _VERSION:
            text = f"a ledger of version {ledger.version}; this program reads {_VERSION}"
            raise StoreDamaged(text)
        return ledger
