"""A cluster founded anew by its members' disks, when the coordinator's disk is lost.

Rules, which go on from those of `leader_role.py`:

21. Each member's disk says who it is, how often it has started, and the last view it was told. The
    new coordinator has the old one's id, the birth of a new disk, and a first view numbered far
    above the newest that any of these disks knows (rule 6 sees to it if somebody knows a later
    one). It lists the members whose disks were named, so they are waited for, and missed, as ever.
22. More than half of the members beside the coordinator must be named by their disks, and of each
    other it is said that its disk is lost, too: what it may have is not told from what never was.
    Who is lost is bound to a birth that no disk has. So should the disk turn up, it is refused.
23. A disk decides without asking a majority, so there may have been later views than these disks
    know, with members that they don't know. Who asks to join and knows a view between the newest
    that was known and the first one after has seen such; what it has may contradict what was
    decided since, and it is refused for good.
24. Starts that the disks have counted are bound, so that none comes twice.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.protocols.membership.disk import Self
from snowmelt.protocols.membership.view import IdBinding, Ledger, Member, View

VIEWS_LEFT_OUT: Final = 1 << 16
"""By so many the numbers of views leap: there is room for a hundred of these."""


class Witness(msgspec.Struct, frozen=True):
    """What one member's disk says of membership; `view` is None if it was lost with a bad block."""

    own: Self
    view: View | None


class Cannot(Exception):
    """These disks can't found the cluster anew; the text says why, and what would help."""


def newest(witnesses: Sequence[Witness]) -> View:
    """The newest view that any of these disks knows; raises `Cannot`."""
    views = [one.view for one in witnesses if one.view is not None]
    if not views:
        raise Cannot("none of these folders knows a view: name folders of nodes that were members")
    if len({view.cluster for view in views}) > 1:
        said = ", ".join(f"{one.own.id}: {one.view.identity}" for one in witnesses if one.view)
        raise Cannot(f"these folders are of different clusters ({said}): name those of one")
    return max(views, key=lambda view: view.epoch)


def check_named(
    witnesses: Sequence[Witness], lost: Sequence[str], kept_at: Sequence[str] = ()
) -> None:
    """Rule 22; raises `Cannot`. `kept_at` are nodes of which a disk says that they have copies."""
    view = newest(witnesses)
    named = [one.own.id for one in witnesses]
    if len(set(named)) < len(named):
        raise Cannot(f"two of these folders are of one node ({', '.join(named)}): name one of each")
    if view.coordinator in named:
        raise Cannot(
            f"the folder of {view.coordinator}, who leads in view {view.epoch}, is among these: if"
            " it decides on its disk, start it; if etcd does, put etcd's data back, or name the"
            " others without it"
        )
    both = sorted(set(named) & set(lost))
    if both:
        raise Cannot(f"{', '.join(both)}: named by a folder, and said to be lost; it is one or not")
    others = [member.id for member in view.members if member.id != view.coordinator]
    there = [node for node in others if node in named]
    if 2 * len(there) <= len(others):
        raise Cannot(
            f"{len(there)} of {len(others)} members of view {view.epoch} are named by their folders"
            f" (beside {view.coordinator}); more than half must be: {', '.join(others)}"
        )
    accounted = {*named, *lost, view.coordinator}
    missing = sorted({*others, *kept_at} - accounted)
    if missing:
        raise Cannot(
            f"of {', '.join(missing)} no folder is named: name it with --from, or say that the disk"
            " is lost, too, with --lost"
        )


def founded_anew(
    witnesses: Sequence[Witness], me: Self, lost: Sequence[str], strange: Sequence[int]
) -> Ledger:
    """Rules 21 to 24. `strange` are births that no disk has, one for each that is lost."""
    view = newest(witnesses)
    named = {one.own.id: one.own for one in witnesses}
    first = view.epoch + VIEWS_LEFT_OUT
    members = tuple(_as_known(one, named) for one in view.members if one.id in named)
    known = [IdBinding(NodeId(one.id), one.birth, one.start, 0) for one in (me, *named.values())]
    known += [
        IdBinding(NodeId(node), birth, 0, 0) for node, birth in zip(lost, strange, strict=True)
    ]
    return Ledger(
        View(view.cluster, first, NodeId(me.id), members),
        tuple(sorted(known, key=lambda one: one.id)),
        left_out=(view.epoch, first),
    )


def _as_known(member: Member, named: dict[str, Self]) -> Member:
    own = named[member.id]
    return msgspec.structs.replace(member, birth=own.birth, start=own.start)
