"""What found no room is given up, and read again: nothing is heard of that copy meanwhile."""

from typing import Any

import pytest
from cluster_bench import ClusterBench
from test_full_disk import FEW, fill, small, takes
from three_bench import Three, got, settled, three

from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.core.node import Persist, Requested
from snowmelt.protocols.queue.api.calls import Describe, PutDone
from snowmelt.protocols.queue.follower.transfer import Transfer
from snowmelt.protocols.queue.messages.home_words import Aside
from snowmelt.protocols.queue.messages.words import Bring, Head, OwnStep, SnapshotChunk
from snowmelt.protocols.queue.replication import sending
from snowmelt.protocols.queue.replication.follower_progress import FollowerProgress
from snowmelt.protocols.queue.replication.sending import Sending
from snowmelt.protocols.queue.store import copy as ring
from snowmelt.protocols.queue.store.copies import Copies
from snowmelt.protocols.queue.store.copy import Copy
from snowmelt.protocols.queue.store.write_queue import WriteQueue


def copies(bench: ClusterBench, name: str) -> Copies:
    node = bench.slots[NodeId(name)].node
    assert node is not None
    return node._copies


def full_follower() -> tuple[Three, str, str, str]:
    """Who is to lead next has found no room for some steps, which the others have."""
    bench, master, _ = three()
    first, second = [one.partition("/")[0] for one in bench.home(bench.queue).mirrors]
    small(bench, first)
    for number in range(2 * FEW):
        assert isinstance(bench.told(master, number), PutDone)
    assert copies(bench, first).disk.has_stuck(bench.queue)
    return bench, master, first, second


def holds_reads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """From now on what is given up is not read."""
    held: list[Any] = []
    monkeypatch.setattr(Transfer, "undo", lambda self, _, word: held.append((self, word)))
    return held


def dies(bench: ClusterBench, name: str) -> None:
    """The others go on without it."""
    bench.kill(name)
    bench.view(*[one for one, slot in bench.slots.items() if slot.node is not None])


def test_where_who_is_to_lead_has_no_room_another_leads() -> None:
    bench, master, _, second = full_follower()
    dies(bench, master)
    bench.run(5)
    home = bench.home(bench.queue)
    assert home.term == 3, "who was to lead had no room for what the other one has"
    assert home.master.startswith(second)
    bench.start(master)
    bench.view()
    bench.run(2)
    assert bench.home(bench.queue).master.startswith(second)
    assert got(bench) == [b"item %d" % number for number in range(2 * FEW)]


def test_a_copy_that_is_read_again_begins_no_term_and_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, master, first, _ = full_follower()
    before = copies(bench, first).of(bench.queue).flushed
    with monkeypatch.context() as patch:
        held = holds_reads(patch)
        dies(bench, master)
        bench.run(3)
        assert copies(bench, first).of(bench.queue).undoing
        assert copies(bench, first).of(bench.queue).flushed == before
        assert bench.queue not in bench.terms(first).leaders
    (transfer, word), *others = held
    assert not others, "it is given up once"
    transfer.undo(NodeId(first), word)
    bench.start(master)
    bench.view()
    bench.run(5)
    assert not copies(bench, first).of(bench.queue).undoing
    assert got(bench) == [b"item %d" % number for number in range(2 * FEW)]


def test_a_crash_while_it_is_read_again_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, master, first, _ = full_follower()
    with monkeypatch.context() as patch:
        holds_reads(patch)
        dies(bench, master)
        bench.run(1)
        bench.kill(first)
    bench.start(first)
    bench.start(master)
    bench.view()
    for number in range(2 * FEW):
        assert takes(bench, master, bench.queue) == [b"item %d" % number]
    assert settled(bench).lost == 0


def test_who_has_no_room_for_the_copy_to_go_on_from_has_its_source_lead() -> None:
    bench, master, _ = three()
    for number in range(FEW):
        bench.told(master, number)
    small(bench, master)
    bench.drops.append(lambda _s, _t, one: isinstance(one, Aside))
    assert isinstance(bench.told(master, FEW), PutDone), "the others have it"
    bench.kill(master)
    bench.start(master)
    bench.drops.clear()
    bench.view()
    bench.run(5)
    assert got(bench) == [b"item %d" % number for number in range(FEW + 1)]
    assert bench.home(bench.queue).master.partition("/")[0] != master


def test_a_full_disk_refuses_no_put_of_another_queue_that_others_have_room_for() -> None:
    bench = ClusterBench(3)
    held: dict[str, list[str]] = {}
    for number in range(9):
        held.setdefault(bench.open(f"q{number}", replicas=3), []).append(f"q{number}")
    master, (one, other, *_) = max(held.items(), key=lambda pair: len(pair[1]))
    small(bench, master)
    for number in range(FEW):
        bench.put(master, number, one)
    bench.drops.append(lambda _s, _t, word: isinstance(word, Aside))
    assert isinstance(bench.put(master, FEW, one), PutDone)
    assert isinstance(bench.put(master, 0, other), PutDone), "this queue has found no room yet"


def test_a_slow_disk_is_not_taken_for_a_full_one() -> None:
    bench = ClusterBench(5)
    master = bench.open(replicas=5)
    full = bench.home().mirrors[0].partition("/")[0]
    small(bench, full)
    for number in range(FEW):
        bench.put(master, number)
    bench.slots[NodeId(master)].held = True
    assert isinstance(bench.put(master, FEW), PutDone), "three others have it"
    assert bench.messages("NoRoom")
    bench.slots[NodeId(master)].held = False
    bench.run(2)
    assert bench.home().master.partition("/")[0] == master


# --- what is told of a put that found no room -----------------------------------------------------


def test_who_asks_again_is_not_told_that_it_is_refused_before_that_is_safe() -> None:
    bench, master, (first, second) = three(durable_copies=3)
    small(bench, first)
    fill(bench, master, bench.queue)
    seen = len(bench.messages("NoRoom"))
    bench.drops.append(  # nothing is safe any more, once one has no room
        lambda _s, target, _: target in (first, second) and len(bench.messages("NoRoom")) > seen
    )
    operation = bench.asked(50)
    bench.run(2)
    bench._give(bench.slots[NodeId(master)], requested(bench, operation, 50))
    assert operation not in bench.answers
    dies(bench, master)
    bench.drops.clear()
    bench.run(2)
    bench.start(master)
    bench.view()
    bench.slots[NodeId(first)].disk.bodies = 99
    bench.run(3)
    told = bench.told(first, 50, within=5)
    assert isinstance(told, PutDone)
    assert got(bench).count(b"item 50") == 1


def requested(bench: Three, operation: Any, number: int) -> Any:
    return Requested(operation, bench.request(number))


# --- pieces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("asks", [False, True], ids=["idle", "asked all the time"])
@pytest.mark.parametrize("lost", [(SnapshotChunk, 1), (SnapshotChunk, 2), (Bring, 1), (Bring, 2)])
def test_a_piece_of_a_copy_that_is_lost_comes_again(
    lost: tuple[type, int], asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in ("STEPS_BYTES", "STEPS_LEAST", "RECENT_BYTES"):
        monkeypatch.setattr(ring, bound, 0)
    monkeypatch.setattr(sending, "PIECE_BODIES", 3)
    bench, master, (first, _) = three()
    bench.drops.append(lambda _s, target, _: target == first)
    for number in range(10):
        bench.told(master, number)
    kind, which = lost
    seen: list[Any] = []

    def drop(_s: Any, _t: Any, one: Any) -> bool:
        if isinstance(one, kind):
            seen.append(one)
            return len(seen) == which
        return False

    bench.drops[:] = [drop]
    for _ in range(20):
        bench.run(1)
        if asks:
            bench.ask(master, Describe(bench.queue))
    assert len(seen) >= which
    assert not bench.leader().followers.behind


def test_a_copy_on_its_way_has_its_pieces_as_long_as_nothing_new_is_in_it() -> None:
    copy = Copy("q")
    copy.head = Head(1, 1)
    follower = FollowerProgress(sending=Sending(copy))
    before = follower.sending
    follower.send_anew(copy)
    assert follower.sending is before
    copy.head = Head(1, 2)
    follower.send_anew(copy)
    assert follower.sending is not before


def test_a_disk_on_which_nothing_waits_is_not_full() -> None:
    disk = WriteQueue()
    disk.write("q", (), OwnStep(Head(1, 1)))
    assert isinstance(disk.begin(Instant(1)), Persist)
    disk.failed("no space", Instant(1))
    assert (disk.full, disk.has_stuck("q")) == ("no space", True)
    disk.give_up("q")
    assert (disk.full, disk.has_stuck("q")) == ("", False)
