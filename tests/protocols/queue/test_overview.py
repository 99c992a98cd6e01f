"""Who leads what is told, some at a time; and after a restart each queue is led by itself."""

from nodes_bench import Nodes

from snowmelt.core.instant import SECOND
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.api.statuses import Overview, Overviewed


def led(nodes: Nodes, at: str) -> list[str]:
    """The queues that a node says it leads, two at a time."""
    names: list[str] = []
    while True:
        told: Overviewed = nodes.ask(Overview(names[-1] if names else "", 2), at)
        assert told.node == at
        names += [row.queue for row in told.rows]
        if not told.more:
            return names


def make(nodes: Nodes, count: int, **settings: int) -> None:
    for number in range(count):
        nodes.ask(calls.Open(f"q{number}", QueueSettings(**settings)))


def test_each_queue_is_told_by_its_leader_alone() -> None:
    nodes = Nodes(3)
    make(nodes, 9)
    told = [led(nodes, name) for name in nodes.nodes]
    assert sorted(name for names in told for name in names) == [f"q{at}" for at in range(9)]
    assert all(names == sorted(names) for names in told)


def test_who_is_in_no_view_tells_of_none() -> None:
    nodes = Nodes(3)
    make(nodes, 3)
    nodes.restart("n2")
    assert isinstance(nodes.ask(Overview(), "n2"), Declined)


def test_idle_queues_are_led_again_though_all_nodes_began_anew() -> None:
    """The coordinator can't decide when masters claim: some of its nodes have not told it."""
    nodes = Nodes(3)
    make(nodes, 250, replicas=1)
    nodes.ask(calls.Put("q0", "p", 1, *ONE))
    nodes.ask(calls.Get("q0", 1, 1 << 20, SECOND))
    for name in ("n1", "n2", "n3"):
        nodes.restart(name)
    nodes.view("n1", "n2", "n3")
    nodes.pass_time(5)
    assert sum(len(led(nodes, name)) for name in nodes.nodes) == 250
    nodes.pass_time(60)  # longer than a lease
    told = [row for name in nodes.nodes for row in nodes.ask(Overview(), name).rows]
    assert {row.queue: row.ready for row in told}["q0"] == 1


ONE = (b"\x00\x00\x00\x00\x03\x00\x00\x00", b"one")
