"""What the leader can't read comes from others, and is mended; only what nobody has is lost."""

import pytest
from nodes_bench import Nodes

from snowmelt.core.batch import Batch
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.messages.words import FetchBodies, FetchedBodies, SnapshotChunk

ITEMS = [b"%03d" % at for at in range(600)]


def three_copies(damaged: dict[str, int], nodes: int = 3) -> Nodes:
    """Six batches of a hundred; of one of them each of some nodes has no good copy.

    Nothing is in memory: all read their disks.
    """
    bench = Nodes(nodes)
    bench.open(replicas=3, deliveries_max=1, lease=seconds(5))
    for at in range(0, 600, 100):
        bench.put(ITEMS[at : at + 100], at)
    for name in bench.members:
        bench.restart(name)
    bench.view(*bench.members)
    bench.pass_time(3)
    for name, first in damaged.items():
        bench.lose(name, damage=True, first=first, stop=first + 100)
    return bench


def got(leased: calls.Leased) -> list[bytes]:
    return [body for part in leased.parts for body in Batch(part.offsets, part.blob)]


def all_got(nodes: Nodes) -> list[bytes]:
    leased = nodes.get(1_000)
    nodes.ask(calls.Settle("q", leased.token, back=(Interval(0, 600),)))
    return got(leased)


def test_parts_that_are_damaged_here_and_there_are_put_together_from_all() -> None:
    nodes = three_copies({"n1": 0, "n2": 100, "n3": 200})
    assert all_got(nodes) == ITEMS
    status = nodes.status()
    assert (status.ready, status.lost, status.short_of_copies) == (600, 0, 0)


def test_what_was_damaged_is_mended_on_the_leaders_disk() -> None:
    nodes = three_copies({})
    leader = nodes.status().leader
    nodes.lose(leader, damage=True, first=200, stop=300)
    assert all_got(nodes) == ITEMS
    nodes.restart(leader)
    nodes.view(*nodes.members)
    nodes.pass_time(3)
    nodes.sent.clear()
    nodes.lost = lambda _, __, message: isinstance(message, FetchBodies)
    assert all_got(nodes) == ITEMS


def test_what_nobody_can_read_is_lost_and_counted_and_its_neighbours_are_not() -> None:
    nodes = three_copies(dict.fromkeys(("n1", "n2", "n3"), 100))
    assert all_got(nodes) == ITEMS[:100] + ITEMS[200:]
    status = nodes.status()
    assert (status.ready, status.lost, status.short_of_copies) == (500, 100, 0)


def test_a_look_finds_the_same() -> None:
    nodes = three_copies(dict.fromkeys(("n1", "n2", "n3"), 100))
    peeked = nodes.ask(calls.Peek("q", 1_000, 1 << 20))
    assert got(peeked) == ITEMS[:100] + ITEMS[200:]
    assert nodes.status().lost == 100


def test_what_one_that_is_away_may_have_is_not_given_up_and_has_not_failed() -> None:
    nodes = three_copies({})
    leader, *mirrors = nodes.status().leader, *nodes.status().followers
    away = next(name for name in mirrors if name != "n1")
    for name in {leader, *mirrors} - {away}:
        nodes.lose(name, damage=True, first=100, stop=200)
    nodes.lost = lambda source, target, _: away in (source, target)
    nodes.view(*[name for name in nodes.members if name != away])
    nodes.pass_time(3)
    get = calls.Get("q", 1_000, 1 << 20, seconds(0))
    waits = nodes.asked(get, leader)
    nodes.pass_time(20)
    assert waits not in nodes.told
    assert nodes.status().lost == 0
    nodes.lost = lambda *_: False
    nodes.view(*nodes.members)
    nodes.pass_time(60)
    assert all_got(nodes) == ITEMS
    status = nodes.status()
    assert (status.ready, status.lost, status.short_of_copies, status.dead) == (600, 0, 0, 0)


def test_a_copy_that_is_made_has_what_its_leader_could_not_read() -> None:
    nodes = three_copies({}, nodes=4)
    leader, *mirrors = nodes.status().leader, *nodes.status().followers
    nodes.lose(leader, damage=True, first=200, stop=300)
    gone = next(name for name in mirrors if name != "n1")
    (new,) = set(nodes.members) - {leader, *mirrors}
    nodes.view(*[name for name in nodes.members if name != gone])
    nodes.pass_time(10)
    assert nodes.status().short_of_copies == 0
    assert any(to == new for _, to, word in nodes.sent if isinstance(word, SnapshotChunk))
    for name in set(nodes.members) - {new}:
        nodes.lose(name)
    assert len(nodes.bodies(new)) == 6
    assert all_got(nodes) == ITEMS


@pytest.mark.parametrize("earlier", [0, 1])
def test_what_is_said_of_bodies_in_another_term_or_of_others_is_ignored(earlier: int) -> None:
    nodes = three_copies({})
    status = nodes.status()
    nodes.lose(status.leader, damage=True, first=100, stop=200)
    nodes.lost = lambda _, __, message: isinstance(message, FetchedBodies)
    get = calls.Get("q", 1_000, 1 << 20, seconds(0))
    waits = nodes.asked(get, status.leader)
    (named,) = {one.batches for _, _, one in nodes.sent if isinstance(one, FetchBodies)}
    for name in status.followers:
        member = nodes.members[NodeId(name)]
        keeper = f"{member.id}/{member.birth:x}"
        others = named if earlier else ()
        word = FetchedBodies("q", status.term - earlier, keeper, others, ())
        nodes.receive(name, status.leader, word)
    assert nodes.status().lost == 0
    nodes.lost = lambda *_: False
    nodes.pass_time(1)
    assert got(nodes.told.pop(waits)) == ITEMS


def test_who_reads_what_was_dropped_is_told_that_it_is_gone_and_not_that_it_is_damaged() -> None:
    nodes = three_copies({})
    (span, *_) = nodes.ask(calls.Survey("q", 0, 1_000)).spans
    leased = nodes.get(300)
    nodes.settle(leased.token, Interval(0, 300))
    nodes.pass_time(1)
    for name in nodes.status().followers:
        told = nodes.ask(calls.Fetch("q", span, 1 << 20), name)
        assert (told.parts, told.damaged, told.gone) == ((), 0, 100)
    status = nodes.status()
    assert (status.ready, status.lost, status.short_of_copies) == (300, 0, 0)
