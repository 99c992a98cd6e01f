"""What nodes say about membership: requests imperative, replies past; see the package's rules."""

from typing import Annotated, Final, get_args

import msgspec

from snowmelt.core.ahead import MANY, Count, Label, Text, Whole
from snowmelt.core.instant import Duration, seconds
from snowmelt.core.names import Address, NodeName
from snowmelt.protocols.membership.view import Epoch, Length, Member, View


class Join(msgspec.Struct, frozen=True, tag="membership.join", array_like=True):
    """Let me in. `cluster` is the cluster this disk belongs to, 0 when it belongs to none yet."""

    number: Count
    run: Whole
    member: Member
    cluster: Whole
    epoch: Epoch
    mark: Whole = 0
    """Of the view with this number, as this node has it; 0 when it has none."""


class JoinByEtcd(Join, frozen=True, tag="membership.join-by-etcd", array_like=True):
    """The same of a node that was told that etcd decides."""


class Redirected(msgspec.Struct, frozen=True, tag="membership.redirected", array_like=True):
    """I don't decide; this one does."""

    run: Whole
    coordinator: NodeName
    address: Address


class Heartbeat(msgspec.Struct, frozen=True, tag="membership.heartbeat", array_like=True):
    """I am here, and this is the epoch I know."""

    number: Count
    run: Whole
    birth: Whole
    start: Whole
    cluster: Whole
    epoch: Epoch
    mark: Whole = 0
    """Of the view with this number, as this node has it."""


class Accepted(msgspec.Struct, frozen=True, tag="membership.accepted", array_like=True):
    """You are in, by what you said under this number. `view` is None when you have the newest."""

    number: Count
    run: Whole
    epoch: Epoch
    view: View | None = None
    unsure: Length = Duration(0)
    """For so long from now somebody may be current whom that view lacks (rule 27)."""


class Adopt(msgspec.Struct, frozen=True, tag="membership.adopt", array_like=True):
    """A new view was decided. Unlike `Accepted` it answers nothing, so it extends no lease."""

    view: View
    unsure: Length = Duration(0)
    """As in `Accepted`."""


class Refused(msgspec.Struct, frozen=True, tag="membership.refused", array_like=True):
    """You are not in. `final` means that asking again as you are can't help.

    A refusal that is not final is undone by the next acceptance, and so names the word it answers.
    """

    run: Whole
    reason: Text
    final: bool
    superseded: bool = False
    number: Count = 0


class Leave(msgspec.Struct, frozen=True, tag="membership.leave", array_like=True):
    """I am going, in order."""

    run: Whole
    start: Whole
    cluster: Whole


class LeftView(msgspec.Struct, frozen=True, tag="membership.left", array_like=True):
    """You are out of the view."""

    run: Whole


class GetStatus(msgspec.Struct, frozen=True, tag="membership.get-status", array_like=True):
    """A client asks a node how it sees the cluster."""


class Status(msgspec.Struct, frozen=True, tag="membership.status", array_like=True):
    """How a node sees the cluster. `view` is None before it was ever accepted."""

    node: NodeName
    standing: Label
    view: View | None
    silent: Annotated[dict[NodeName, Whole], MANY]
    """Of the coordinator alone: nanoseconds since each was heard."""


class Forget(msgspec.Struct, frozen=True, tag="membership.forget", array_like=True):
    """A client asks that the id of an absent node be free again."""

    node: NodeName


class Forgotten(msgspec.Struct, frozen=True, tag="membership.forgotten", array_like=True):
    """The id is free."""

    node: NodeName


class Depart(msgspec.Struct, frozen=True, tag="membership.depart", array_like=True):
    """Whoever runs this node asks it to leave the cluster in order."""

    patience: Length = seconds(4)
    """How long it may take to hand over what only this node has (rule 30)."""


class Departed(msgspec.Struct, frozen=True, tag="membership.departed", array_like=True):
    """It has left."""


Message = Join | JoinByEtcd | Redirected | Heartbeat | Accepted | Adopt | Refused | Leave | LeftView
Request = GetStatus | Forget | Depart
Response = Status | Forgotten | Departed

BETWEEN_NODES: Final = frozenset(get_args(Message))
"""What keeps views alive, and so must not wait behind anything else."""

MESSAGES: Final[tuple[type[msgspec.Struct], ...]] = (*get_args(Message), *get_args(Request))
