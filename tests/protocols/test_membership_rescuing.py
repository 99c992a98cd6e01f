"""Views when the coordinator's disk is lost: numbers, who is bound, and who is refused."""

import pytest

from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.membership.disk import Self
from snowmelt.protocols.membership.messages import Join
from snowmelt.protocols.membership.monitor import refused
from snowmelt.protocols.membership.rescuing import (
    VIEWS_LEFT_OUT,
    Cannot,
    Witness,
    check_named,
    founded_anew,
)
from snowmelt.protocols.membership.view import Admit, Ledger, Member, View

ALL = ("n1", "n2", "n3", "n4", "n5")


def _member(node):
    return Member(NodeId(node), Address("127.0.0.1", 4400 + int(node[1:])), int(node[1:]), 1)


def _witness(node, epoch=9, start=1, cluster=77):
    members = tuple(_member(one) for one in ALL)
    return Witness(Self(node, int(node[1:]), start), View(cluster, epoch, NodeId("n1"), members))


def _founded(lost=("n5",)):
    witnesses = [_witness("n2"), _witness("n3", epoch=11, start=4), _witness("n4")]
    return founded_anew(witnesses, Self("n1", 999, 0), lost, [500 + at for at in range(len(lost))])


def _join(node, birth, start, epoch):
    member = Member(NodeId(node), Address("127.0.0.1", 1), birth, start)
    return Join(1, 123, member, 77, epoch)


def test_the_first_view_is_far_above_the_newest_and_has_the_members_that_were_named():
    view = _founded().view
    assert (view.epoch, view.coordinator, view.cluster) == (11 + VIEWS_LEFT_OUT, "n1", 77)
    assert [(one.id, one.start) for one in view.members] == [("n2", 1), ("n3", 4), ("n4", 1)]


def test_starts_are_bound_and_disks_that_are_lost_are_refused_should_they_turn_up():
    ledger = _founded()
    assert refused(_join("n3", 3, 5, 11), ledger, Join) is None
    assert refused(_join("n3", 3, 3, 11), ledger, Join).superseded
    assert "belongs to another disk" in refused(_join("n1", 1, 9, 11), ledger, Join).reason
    assert "snowmelt forget n5" in refused(_join("n5", 5, 2, 11), ledger, Join).reason


def test_who_knows_views_that_the_named_disks_did_not_is_refused_for_good():
    ledger = _founded()
    refusal = refused(_join("n6", 6, 2, 12), ledger, Join)
    assert refusal.final
    assert (
        "was in view 12, and the cluster was founded anew by disks that knew 11" in refusal.reason
    )
    assert refused(_join("n6", 6, 2, 11), ledger, Join) is None


def test_what_was_left_out_is_remembered_with_every_later_view():
    ledger = _founded().after(Admit(_member("n7"), 1))
    assert Ledger.read(ledger.written()).left_out == (11, 11 + VIEWS_LEFT_OUT)


@pytest.mark.parametrize(
    ("named", "lost", "text"),
    [
        (["n2", "n3"], [], "2 of 4 members of view 9 .* more than half must be: n2, n3, n4, n5"),
        (["n2", "n3", "n4"], [], "of n5 no folder is named"),
        (["n2", "n3", "n4"], ["n4", "n5"], "n4: named by a folder, and said to be lost"),
        (["n1", "n2", "n3"], [], "the folder of n1, who leads in view 9"),
        (["n2", "n2", "n3"], [], "two of these folders are of one node"),
    ],
)
def test_folders_that_are_not_enough_are_refused_with_a_way_out(named, lost, text):
    with pytest.raises(Cannot, match=text):
        check_named([_witness(node) for node in named], lost)


def test_a_node_that_keeps_copies_though_it_is_in_no_view_is_accounted_for_too():
    witnesses = [_witness(node) for node in ("n2", "n3", "n4", "n5")]
    with pytest.raises(Cannot, match="of n9 no folder is named"):
        check_named(witnesses, [], ["n9", "n1"])
    check_named(witnesses, ["n9"], ["n9", "n1"])


def test_folders_of_two_clusters_or_without_any_view_are_refused():
    with pytest.raises(Cannot, match="different clusters"):
        check_named([_witness("n2"), _witness("n3", cluster=78)], [])
    with pytest.raises(Cannot, match="none of these folders knows a view"):
        check_named([Witness(Self("n2", 2, 1), None)], [])
