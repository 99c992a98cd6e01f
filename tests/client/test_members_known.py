"""A client finds its way by nodes that its URL does not name: it asks who is a member."""

import time
from pathlib import Path

from client.fakes import Client
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.client.connection.targets import AWAY_SECONDS, OTHERS_MAX, Targets
from snowmelt.client.connection.url import read
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.membership import Member, Status, View

HEARTBEAT = 0.5


def view(*ports: int) -> Status:
    members = [Member(NodeId(f"n{one}"), Address("127.0.0.1", one), 1, 1) for one in ports]
    return Status(NodeId("n1"), "current", View(1, 1, NodeId("n1"), tuple(members)), {})


def others(targets: Targets) -> set[int]:
    return {int(one.rpartition(":")[2]) for one in targets.known[1:]}


def test_members_are_asked_for_once_in_a_while_and_at_once_when_a_way_has_ended():
    targets = Targets(read("snowmelt://127.0.0.1:1"))
    assert [targets.due(at) for at in (5.0, 6.0, 10.0)] == [True, False, True]
    targets.lost(NodeId("127.0.0.1:7"), 36.0)
    assert [targets.due(at) for at in (36.0, 37.0)] == [True, False]


def test_who_could_not_be_reached_is_not_asked_first_for_a_while():
    targets = Targets(read("snowmelt://127.0.0.1:1"))
    gone, there = NodeId("127.0.0.1:2"), NodeId("127.0.0.1:3")
    targets.lost(gone, 10.0)
    assert targets.first(gone, 12.0) is None
    assert targets.first(there, 12.0) == there
    assert targets.first(gone, 10.0 + AWAY_SECONDS) == gone
    assert targets.first(None, 12.0) is None


def test_who_is_a_member_no_more_makes_room_and_whom_the_url_names_stays():
    targets = Targets(read("snowmelt://127.0.0.1:1"))
    targets.heard(None, view(2, 3))
    assert others(targets) == {2, 3}
    targets.heard(None, view(3, 4))
    assert others(targets) == {3, 4}
    targets.heard(None, view(5))
    assert others(targets) == {5}
    assert targets.known[0] == "127.0.0.1:1"


def test_the_list_is_bounded_and_never_gets_shorter():
    targets = Targets(read("snowmelt://127.0.0.1:1"))
    targets.heard(None, view(*range(2, 200)))
    assert len(targets.known) == 1 + OTHERS_MAX
    targets.heard(None, view(300))
    assert len(targets.known) == 1 + OTHERS_MAX
    assert others(targets) == {300}


def test_a_node_that_has_no_view_says_nothing_of_others():
    targets = Targets(read("snowmelt://127.0.0.1:1"))
    targets.heard(None, view(2))
    targets.heard(None, Status(NodeId("n1"), "outside", None, {}))
    assert others(targets) == {2}


def test_a_client_goes_on_when_all_that_its_url_names_have_gone(tmp_path: Path, connect) -> None:
    """Its first call opens a connection, and the next asks by it."""
    with LocalCluster(3, tmp_path, HEARTBEAT) as cluster:
        cluster.start()
        named: LocalNode = cluster.nodes[2]
        with connect(named.url) as client:
            assert client.ping(b"one") == b"one"
            assert client.ping(b"two") == b"two"
            end = time.monotonic() + 5
            while len(known(client)) < 3 and time.monotonic() < end:
                client.ping()
            named.kill()
            assert client.ping(b"three", timeout=20) == b"three"


def known(client: Client) -> list[NodeId]:
    """Whom it would ask."""
    inner = getattr(client, "_cluster", client)
    return list(inner._client._targets.known)
