"""One item by itself, as its leader sees it: what is done to it lasts through new leaders."""

import pytest
from nodes_bench import Nodes

from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.statuses import ChangeItem, DescribeItem, ItemStanding, ShowItem


def standing(nodes: Nodes, position: int) -> ItemStanding:
    told: ItemStanding = nodes.ask(DescribeItem("q", position)).standing
    return told


@pytest.mark.parametrize("replicas", [1, 3])
def test_what_is_done_to_one_item_outlives_its_leader(replicas: int) -> None:
    nodes = Nodes(3)
    nodes.open(replicas=replicas)
    nodes.put([b"x"] * 6, 1)
    nodes.get(4)
    assert nodes.ask(ChangeItem("q", 0, drop=True)) == calls.Changed(1)
    assert nodes.ask(ChangeItem("q", 1, drop=False)) == calls.Changed(1)
    assert nodes.ask(ChangeItem("q", 5, drop=True, dead=True)) == calls.Changed(0)
    assert nodes.ask(ChangeItem("q", 5, drop=True)) == calls.Changed(1)
    nodes.pass_time(1)
    leader = nodes.status().leader
    nodes.restart(leader)
    nodes.view(*nodes.members)
    nodes.pass_time(5)
    told = [standing(nodes, at) for at in range(7)]
    leased, ready, ended = ItemStanding.LEASED, ItemStanding.READY, ItemStanding.ENDED
    assert told == [ended, ready, leased, leased, ready, ended, ItemStanding.NEVER]
    status = nodes.status()
    assert (status.ready, status.leased, status.purged, status.returned) == (2, 2, 2, 2)
    assert nodes.ask(ShowItem("q", 0)).parts == ()
