"""What nodes of a priority queue do when others fail in the middle of something."""

from typing import Any

from priority_bench import Nodes, bodies, receipt

from snowmelt.core.instant import seconds
from snowmelt.core.names import NodeId
from snowmelt.core.record import BULK
from snowmelt.protocols.calling import Elsewhere
from snowmelt.protocols.overlay.ring import Spread
from snowmelt.protocols.overlay.tree import FlatTree
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.anchor import first_of
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.messages import (
    Climb,
    Ended,
    Fetch,
    Follow,
    Followed,
    Inquire,
    Inquired,
    Stored,
    Take,
)
from snowmelt.protocols.priority.placing import Placing
from snowmelt.sim.disk import Copy

SMALL = Limits(block=2, deal=0, arity=2)


def holders(
    nodes: Nodes, position: int, replicas: int, *members: str, priority: int = 0
) -> tuple[NodeId, ...]:
    """Who keeps a position."""
    names = [NodeId(name) for name in members]
    placing = Placing(Spread(names, "priority"), "jobs", replicas, nodes.limits.block)
    return placing.holders(priority, position)


def keepers(nodes: Nodes, share: Share) -> list[tuple[NodeId, ...]]:
    """Which of three nodes keep each of some elements that were put together, by twos."""
    return [holders(nodes, at, 2, "n1", "n2", "n3") for one in share.intervals for at in one]


def kept_by(node: str, nodes: Nodes, share: Share, wanted: list[bytes]) -> list[bytes]:
    """Which of some bodies that were put together a node should have."""
    keep = keepers(nodes, share)
    return [body for body, those in zip(wanted, keep, strict=True) if node in those]


def kept_by_two(limits: Limits = SMALL) -> tuple[Nodes, list[bytes], Share]:
    """Two nodes of three have these, and a third is about to come; what they are, and where."""
    nodes = Nodes(3, limits)
    nodes.view("n1", "n2")
    nodes.open("n1", replicas=2)
    wanted = [b"%d" % number for number in range(24)]
    (share,) = nodes.put("n1", *[(0, body) for body in wanted]).shares
    return nodes, wanted, share


def damage(nodes: Nodes, name: str) -> None:
    """No body on a node's disk can be read any more."""
    disk = nodes.disks[NodeId(name)]
    kept = disk.copy()
    values = {
        key: (value, check ^ key.startswith(BULK)) for key, (value, check) in kept.values.items()
    }
    disk.put_back(Copy(kept.keys, values))


def asked(nodes: Nodes, node: str, call: Any, number: int) -> Any:
    """What a client is told that follows where it is sent, at most ten times."""
    for _ in range(10):
        nodes.ask(node, call, number)
        nodes.pass_time(1)
        told = nodes.told(number)
        if not isinstance(told, Elsewhere):
            return told
        node = told.node
    return None


def test_a_door_that_left_a_put_to_another_does_not_begin_it_for_a_client_sent_back() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2)
    call = nodes.put_call("n3", (0, b"once"))
    nodes.lost = lambda _source, _target, message: type(message) is Stored
    number = nodes.ask("n3", call)
    nodes.lost = lambda _source, _target, message: type(message) is Inquire
    nodes.view("n1", "n2", "n3")  # n3 asks after it; meanwhile its client comes to n1
    nodes.ask("n1", call, number)
    nodes.lost = lambda source, target, message: (
        type(message) is Inquire and source == "n1" and target == "n3"
    )
    nodes.pass_time(1)
    nodes.ask("n3", call, number)
    nodes.lost = lambda *_: False
    nodes.pass_time(3)
    assert isinstance(asked(nodes, "n3", call, number), calls.PutDone)
    assert bodies(nodes.get("n2", 9)) == [b"once"]


def test_two_doors_that_each_left_a_put_to_the_other_do_not_send_its_client_to_and_fro() -> None:
    nodes = Nodes(4, SMALL)
    nodes.open("n1", replicas=2)
    call = nodes.put_call("n4", (0, b"once"))
    nodes.stop("n4")  # which never heard of it
    nodes.view("n1", "n2", "n3")
    nodes.lost = lambda _source, target, message: type(message) is Inquired and target == "n1"
    number = nodes.ask("n1", call)  # n2 hears that n1 has it
    nodes.full |= {"n1", "n2", "n3"}
    nodes.lost = lambda _source, _target, message: type(message) is Follow
    nodes.view("n2", "n3")  # n1 stands still, and knows nothing of this view
    nodes.ask("n2", call, number)
    nodes.pass_time(1)
    nodes.lost = lambda *_: False
    nodes.view("n1", "n2", "n3")  # n1 hears that n2 has it
    nodes.pass_time(5)  # n2 has no room for it
    nodes.full.clear()
    assert isinstance(asked(nodes, "n2", call, number), calls.PutDone)
    assert bodies(nodes.get("n3", 9)) == [b"once"]


def test_a_put_that_may_have_been_begun_is_not_refused_for_good() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=1, items_max=1)
    home = holders(nodes, first_of(1), 1, *nodes.members)[0]
    door, other = [name for name in nodes.members if name != home]
    call = nodes.put_call(door, (0, b"first"))
    nodes.lost = lambda _source, _target, message: type(message) is Stored
    number = nodes.ask(door, call)
    nodes.lost = lambda *_: False
    nodes.stop(door)
    nodes.stop(home)
    nodes.view(other)
    nodes.put(other, (0, b"second"))
    assert nodes.call(other, nodes.put_call(other, (0, b"third"))).error == "Full"
    nodes.ask(other, call, number)
    nodes.pass_time(1)
    assert nodes.told(number) is None
    nodes.restart(home)
    nodes.view(other, home)
    nodes.pass_time(1)
    assert bodies(nodes.get(other, 9)) == [b"first", b"second"]


def test_nothing_is_handed_out_of_a_put_that_is_refused_for_want_of_room() -> None:
    nodes = Nodes(2, SMALL)
    nodes.open("n1", replicas=2)
    home, copy = holders(nodes, first_of(1), 2, "n1", "n2")
    waiting = nodes.ask(home, nodes.get_call(home, patience=30))
    nodes.full.add(copy)
    nodes.lost = lambda _source, _target, message: type(message) is Followed and message.refused
    number = nodes.ask(home, nodes.put_call(home, (0, b"too much")))
    nodes.lost = lambda *_: False
    nodes.pass_time(1)
    assert nodes.told(number).error == "DiskFull"
    assert nodes.told(waiting) is None
    nodes.full.clear()
    nodes.put(home, (0, b"fits"))
    nodes.pass_time(2)
    assert bodies(nodes.told(waiting)) == [b"fits"]


def test_what_was_got_of_a_put_stays_got_while_the_rest_finds_no_room() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2)
    blocks = [holders(nodes, first_of(1) + 2 * at, 2, *nodes.members) for at in range(400)]
    before = next(
        at
        for at, (here, after, again) in enumerate(zip(blocks, blocks[1:], blocks[2:], strict=False))
        if "n3" not in here and "n3" in after and again == (here[0], "n3") and here[0] != after[0]
    )  # so the rest, when it is tried again, comes to the same home
    if before:
        nodes.put("n1", *[(0, b"earlier")] * 2 * before)
        nodes.settle("n1", done=(receipt(nodes.get("n1", 2 * before)),))
    nodes.full.add("n3")
    number = nodes.ask("n1", nodes.put_call("n1", *[(0, b"%d" % at) for at in range(4)]))
    nodes.pass_time(1)
    some = nodes.get("n2", 4)
    assert bodies(some) == [b"0", b"1"]
    assert nodes.settle("n2", done=(receipt(some),)) == calls.Settled()
    nodes.pass_time(30)
    nodes.full.clear()
    nodes.pass_time(5)
    assert isinstance(nodes.told(number), calls.PutDone)
    assert bodies(nodes.get("n2", 9)) == [b"2", b"3"]


def test_what_is_handed_out_of_a_put_that_nobody_answered_is_not_put_again() -> None:
    nodes = Nodes(5, SMALL)
    nodes.open("n1", replicas=2)
    home, copy = holders(nodes, first_of(1), 2, *nodes.members)
    others = [name for name in nodes.members if name not in (home, copy)]
    other = next(one for one in others if holders(nodes, 0, 2, home, one)[0] == home)
    call = nodes.put_call(home, (0, b"once"))
    nodes.lost = lambda _source, _target, message: type(message) is Follow
    number = nodes.ask(home, call)  # its home has it alone
    nodes.view(home, other)
    nodes.hanging.clear()
    nodes.lost = lambda _source, target, message: (
        type(message) is Follow and bool(message.elements) and target == other
    )
    early = nodes.ask(other, nodes.get_call(other, patience=60))
    nodes.pass_time(3)
    assert nodes.told(early) is None
    nodes.lost = lambda *_: False
    nodes.pass_time(3)
    got = nodes.told(early)
    assert bodies(got) == [b"once"]
    assert nodes.settle(other, done=(receipt(got),)) == calls.Settled()
    nodes.stop(home)
    nodes.view(other, copy)
    assert isinstance(asked(nodes, other, call, number), calls.PutDone)
    assert bodies(nodes.get(copy, 9)) == []


def test_no_home_answers_for_another_when_a_get_that_settles_comes_again() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1")
    nodes.put("n1", *[(0, b"%d" % number) for number in range(24)])
    held = nodes.get("n1", 24)
    settle = calls.Settle("jobs", done=(receipt(held),))
    get = calls.Get("jobs", nodes.via("n2"), 1, seconds(0), settle)
    nodes.lost = lambda _source, target, message: (
        type(message) in (Inquired, Ended) and target == "n1"
    )
    number = nodes.ask("n1", get)  # which asks after it, since it came to n2 first
    nodes.pass_time(1)
    nodes.view("n1", "n2", "n3")
    nodes.ask("n1", get, number)
    nodes.pass_time(1)
    nodes.lost = lambda source, _target, message: type(message) is Ended and source == "n3"
    nodes.pass_time(5)
    assert not isinstance(nodes.told(number), calls.Leased)
    nodes.lost = lambda *_: False
    nodes.pass_time(5)
    assert nodes.told(number).lost == ()
    assert nodes.call("n2", calls.Statistics("jobs")).leased == 0


def test_whoever_has_no_room_for_a_copy_holds_up_no_get_and_is_asked_again() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2)
    nodes.put("n1", *[(0, b"%d" % number) for number in range(24)])
    home, full = holders(nodes, 0, 2, "n1", "n2")
    nodes.stop("n3")
    nodes.full.add(full)
    nodes.view("n1", "n2")
    nodes.pass_time(5)
    assert len(bodies(nodes.get(home, 12))) == 12
    nodes.full.clear()
    nodes.pass_time(5)
    nodes.stop(home)
    nodes.view(full)
    nodes.pass_time(60)
    assert len(bodies(nodes.get(full, 24))) == 24


def test_who_can_not_read_his_copy_is_given_another_before_the_last_one_is_erased() -> None:
    nodes, wanted, _ = kept_by_two()
    damage(nodes, "n1")
    nodes.restart("n1")
    nodes.view("n1", "n2", "n3")  # n3, who has nothing, asks n1 first, and n2 then
    nodes.pass_time(5)
    assert "n2" in {target for _, target, _ in nodes.sent_of("Spare")}
    nodes.stop("n3")
    nodes.view("n1", "n2")
    nodes.pass_time(5)
    got = [body for _ in wanted for body in bodies(nodes.get("n1"))]
    assert sorted(got) == sorted(wanted)


def test_what_its_home_can_not_read_is_fetched_and_copied_though_nobody_gets_it() -> None:
    nodes, wanted, share = kept_by_two()
    damage(nodes, "n1")
    nodes.restart("n1")
    nodes.view("n1", "n2", "n3")  # where n1 is home, n3 lacks some that n2 alone can read
    nodes.pass_time(5)
    nodes.stop("n1")
    nodes.stop("n2")
    nodes.view("n3")
    assert (NodeId("n1"), NodeId("n3")) in keepers(nodes, share)
    assert bodies(nodes.get("n3", 24)) == kept_by("n3", nodes, share, wanted)


def test_who_told_that_he_has_a_copy_and_has_no_room_for_it_is_given_another() -> None:
    nodes, wanted, share = kept_by_two()
    nodes.hanging.add("n3")
    nodes.view("n1", "n2", "n3")
    nodes.pass_time(5)  # copies came to n3, and are on no disk
    nodes.full.add("n3")
    nodes.view("n1", "n2", "n3")  # it tells that it has them
    nodes.flush()
    nodes.pass_time(5)
    nodes.full.clear()
    nodes.pass_time(5)
    assert nodes.sent_of("Spare")
    nodes.stop("n1")
    nodes.stop("n2")
    nodes.view("n3")
    assert bodies(nodes.get("n3", 24)) == kept_by("n3", nodes, share, wanted)


def short_of_copies(nodes: Nodes, node: str) -> int:
    status: calls.Status = nodes.call(node, calls.Statistics("jobs"))
    return status.short_of_copies


def test_what_has_fewer_copies_than_it_should_is_counted_until_they_are_on_their_disks() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2)
    nodes.view("n1", "n2")
    (share,) = nodes.put("n1", *[(0, b"%d" % number) for number in range(24)]).shares
    assert short_of_copies(nodes, "n1") == 0
    nodes.hanging.add("n3")
    nodes.view("n1", "n2", "n3")
    keep = keepers(nodes, share)
    assert {those.index(NodeId("n3")) for those in keep if "n3" in those} == {0, 1}
    nodes.pass_time(5)  # what n3 is the home of it has fetched, and not flushed
    theirs = sum("n3" in those for those in keep)
    assert short_of_copies(nodes, "n1") == short_of_copies(nodes, "n3") == theirs
    nodes.flush()
    nodes.pass_time(5)
    assert short_of_copies(nodes, "n1") == 0
    nodes.stop("n1")
    nodes.stop("n2")
    nodes.view("n3")  # fewer nodes than there should be copies
    assert short_of_copies(nodes, "n3") == theirs


def test_no_copy_is_erased_while_what_its_home_fetched_again_is_on_no_disk() -> None:
    nodes, _, _ = kept_by_two(Limits(block=2, deal=0, arity=2, recent=0))
    nodes.lost = lambda source, target, message: (
        (type(message) is Follow and (source, target) == ("n2", "n3") and not message.elements)
        or type(message) is Fetch
    )
    nodes.view("n1", "n2", "n3")
    nodes.pass_time(5)  # n3 has its copies, and has not heard yet that n2 wants them flushed
    damage(nodes, "n2")
    nodes.ask("n1", nodes.get_call("n1", 24))
    nodes.pass_time(2)  # n2 can't read what it has, and what n1 could erase it asks n1 for
    nodes.hanging.add("n2")
    nodes.lost = lambda *_: False
    nodes.pass_time(5)
    assert "n2" in {target for _, target, _ in nodes.sent_of("Fetched")}
    assert "n2" not in {source for source, _, _ in nodes.sent_of("Spare")}
    nodes.flush()
    nodes.pass_time(5)
    assert "n2" in {source for source, _, _ in nodes.sent_of("Spare")}


def test_no_position_is_left_empty_when_its_put_needs_it_no_more() -> None:
    nodes = Nodes(4, SMALL)
    nodes.open("n1", replicas=1)
    wanted = [(0, b"%d" % number) for number in range(12)]
    call = nodes.put_call("n1", *wanted)
    nodes.lost = lambda _source, _target, message: type(message) is Stored
    number = nodes.ask("n1", call)
    away = holders(nodes, first_of(2), 1, *nodes.members)[0]
    left = [NodeId(name) for name in nodes.members if name != away]
    (door, *_) = [name for name in left if name != FlatTree(left, "jobs", 2).root.node]
    nodes.stop(away)
    nodes.lost = lambda *_: False
    nodes.view(*left)
    nodes.lost = lambda _source, _target, message: type(message) is Climb
    nodes.ask(door, nodes.put_call(door, (1, b"other")))  # its batch is long on its way
    nodes.ask(door, call, number)  # a part of it is there, and the rest waits for the next batch
    nodes.pass_time(5)
    nodes.lost = lambda *_: False
    nodes.pass_time(5)
    assert isinstance(asked(nodes, door, call, number), calls.PutDone)
    got = [body for _ in wanted for body in bodies(nodes.get(door))]
    assert sorted(got) == sorted(body for _, body in wanted)
    assert bodies(nodes.get(door, 9)) == [b"other"]


def test_a_get_whose_view_ends_begins_anew_and_passes_nothing() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2)
    put = [b"%d" % number for number in range(12)]
    done = nodes.put("n1", *[(0, body) for body in put])
    first = done.shares[0].intervals[0].start
    home = holders(nodes, first, 2, "n1", "n2", "n3")[0]
    nodes.lost = lambda _source, target, message: type(message) is Take and target == home
    door = next(name for name in ("n1", "n2", "n3") if name != home)
    number = nodes.ask(door, nodes.get_call(door, 12, patience=5))
    nodes.pass_time(1)
    assert nodes.told(number) is None
    nodes.lost = lambda *_: False
    nodes.view("n1", "n2", "n3")
    nodes.pass_time(1)
    leased = nodes.told(number)
    assert bodies(leased) == put
    assert [piece.failures for piece in leased.pieces] == [0] * len(leased.pieces)


def test_who_says_again_what_was_done_is_given_the_answer_that_was_lost() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=1)
    nodes.put("n1", *[(0, b"%d" % number) for number in range(12)])
    leased = nodes.get("n1", 6)
    lost: set[tuple[str, int]] = set()

    def first_answer(source: str, _: str, message: Any) -> bool:
        if type(message) is not Ended or (source, message.serial) in lost:
            return False
        lost.add((source, message.serial))
        return True

    nodes.lost = first_answer
    assert nodes.settle("n1", back=(receipt(leased),)) == calls.Settled()
    counted = nodes.call("n1", calls.Purge("jobs", nodes.via("n1")))
    assert lost
    assert counted == calls.Counted(12)


def test_what_a_node_tells_as_a_view_begins_is_on_its_disk() -> None:
    nodes, wanted, share = kept_by_two()
    nodes.hanging.add("n3")
    nodes.view("n1", "n2", "n3")
    nodes.pass_time(5)  # copies came to n3, and are on no disk
    nodes.view("n1", "n2", "n3")
    nodes.pass_time(5)
    number = nodes.ask("n1", calls.Statistics("jobs"))
    nodes.pass_time(1)
    told = nodes.told(number)
    assert not isinstance(told, calls.Status) or told.short_of_copies > 0
    nodes.flush()
    nodes.pass_time(5)
    assert short_of_copies(nodes, "n1") == 0
    nodes.stop("n1")
    nodes.stop("n2")
    nodes.view("n3")
    assert bodies(nodes.get("n3", 24)) == kept_by("n3", nodes, share, wanted)
