"""On a full disk puts are refused, and gets and acknowledgements go on and make room."""

from random import Random
from typing import Any

import pytest
from cluster_bench import ClusterBench
from three_bench import got, settled, three, without_steps

from snowmelt.core.batch import Batch
from snowmelt.core.instant import SECOND, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.core.node import Persisted, PersistFailed
from snowmelt.core.record import BULK, Write
from snowmelt.protocols.calling import FIRST_WAIT, Declined
from snowmelt.protocols.queue.api.calls import (
    Assign,
    Assigned,
    Get,
    Leased,
    Put,
    PutDone,
    Receipt,
    Settle,
)
from snowmelt.protocols.queue.replication import sending
from snowmelt.protocols.queue.store import copy
from snowmelt.protocols.queue.store import write_queue as writes
from snowmelt_world.disk import Disk

FEW = 5


class Small(Disk):
    """A disk for a few bodies; what is small always has its place, as in the store's reserve."""

    def __init__(self, bodies: int = FEW) -> None:
        super().__init__(Random(1))
        self.bodies = bodies

    def flush(self) -> list[Persisted | PersistFailed]:
        asked, self._asked = self._asked, []
        answers: list[Persisted | PersistFailed] = []
        for one in asked:
            more = [c.key for c in one.changes if type(c) is Write and c.key[:1] == BULK]
            held = sum(key[:1] == BULK for key in self._keys)
            fits = not more or held + len(more) <= self.bodies
            if fits:
                self._apply(one.changes)
            answers.append(Persisted(one.ticket) if fits else self.refusal(one.ticket))
        return answers


def alone(**settings: Any) -> ClusterBench:
    bench = ClusterBench(1)
    small(bench, "n1")
    bench.open(**settings)
    return bench


def small(bench: ClusterBench, *names: str) -> None:
    """From now on these have small disks."""
    for name in names:
        slot, disk = bench.slots[NodeId(name)], Small()
        disk.put_back(slot.disk.copy())
        slot.disk = disk


def fill(bench: ClusterBench, node: str, queue: str = "q") -> Any:
    """Puts until one is refused; what that is told."""
    for number in range(FEW):
        assert isinstance(bench.put(node, number, queue), PutDone)
    return bench.put(node, FEW, queue, within=6)


def takes(bench: ClusterBench, node: str, queue: str = "q") -> list[bytes]:
    """Gets one item, and acknowledges it."""
    leased = bench.get(node, 1, queue)
    assert isinstance(leased, Leased)
    done = tuple(Interval(part.start, part.start + part.count) for part in leased.parts)
    assert not isinstance(bench.ask(node, Settle(queue, leased.token, done=done)), Declined | None)
    return [body for part in leased.parts for body in Batch(part.offsets, part.blob)]


def is_full(told: Any) -> bool:
    return isinstance(told, Declined) and told.error == "DiskFull"


def test_gets_and_acknowledgements_make_room_on_the_only_disk_there_is() -> None:
    bench = alone()
    assert is_full(fill(bench, "n1"))
    assert is_full(bench.put("n1", 6))
    assert takes(bench, "n1") == [b"item 0"]
    told = bench.put("n1", 5)
    assert (isinstance(told, PutDone), told.repeated) == (True, False), "its number is free"
    bench.kill("n1")
    bench.start("n1")
    bench.view()
    bench.run(2)
    assert [takes(bench, "n1")[0] for _ in range(FEW)] == [b"item %d" % n for n in range(1, 6)]
    state = bench.terms("n1").leaders["q"].state
    assert (state.lost, state.batches.live.total) == (0, 0)


def test_who_was_to_have_what_found_no_room_waits_for_the_next() -> None:
    bench = alone()
    full = bench.slots[NodeId("n1")].disk
    full.bodies = 0
    get = Get("q", 10, 1 << 20, seconds(60), None)
    operation = bench.call("n1", get)
    bench.run(0.1)
    assert is_full(bench.put("n1", 1))
    assert operation not in bench.answers
    full.bodies = FEW
    assert isinstance(bench.put("n1", 2), PutDone)
    leased = bench.ask("n1", get)
    assert [bytes(part.blob) for part in leased.parts] == [b"item 2"]


def test_a_group_is_not_told_of_what_found_no_room() -> None:
    bench = alone()
    bench.slots[NodeId("n1")].held = True
    bench.put("n1", 0, within=0)
    for number in range(1, FEW + 2):
        bench.call("n1", put(number))
    bench.call("n1", Assign("q", "g", 0, "r", 0, 10, 1 << 20))
    bench.slots[NodeId("n1")].held = False
    bench.run(1)
    assigned = bench.ask("n1", Assign("q", "g", 0, "r", 0, 10, 1 << 20))
    assert isinstance(assigned, Assigned)
    assert assigned.given == 1, "the others came together, and found no room"
    bench.terms("n1").leaders["q"].check()


def put(number: int, **more: Any) -> Put:
    batch = Batch.of([b"item %d" % number])
    return Put("q", "p", number, bytes(batch.offsets), bytes(batch.blob), **more)


def test_what_is_staged_without_room_is_told_so_and_not_staged() -> None:
    bench = alone()
    assert is_full(fill(bench, "n1"))
    hold = put(7, hold=seconds(60))
    assert is_full(bench.ask("n1", hold))
    takes(bench, "n1")
    assert isinstance(bench.ask("n1", hold), Receipt)
    assert bench.terms("n1").leaders["q"].state.staged.items == 1


def test_what_lingers_is_taken_and_leaves_the_full_disk_again() -> None:
    bench = alone(linger=seconds(1))
    for number in range(2 * FEW):
        assert isinstance(bench.put("n1", number), PutDone)
    bench.run(3)
    assert is_full(bench.put("n1", 99))
    assert [takes(bench, "n1")[0] for _ in range(2 * FEW)] == [b"item %d" % n for n in range(10)]
    bench.run(3)
    assert isinstance(bench.put("n1", 99), PutDone)


def test_one_full_queue_does_not_hold_up_another() -> None:
    bench = alone()
    bench.open("other")
    assert is_full(fill(bench, "n1"))
    bench.slots[NodeId("n1")].held = True
    many = [bench.call("n1", put(20)), bench.call("n1", Get("other", 1, 99, 0, None))]
    bench.slots[NodeId("n1")].held = False
    bench.run(0.2)
    assert is_full(bench.answers[many[0]])
    assert isinstance(bench.answers[many[1]], Leased)


@pytest.mark.parametrize("who", ["leader", "followers", "all"])
def test_where_too_few_disks_have_room_all_but_puts_go_on(who: str) -> None:
    bench, master, mirrors = three(durable_copies=3 if who == "leader" else 2)
    names = {"leader": [master], "followers": mirrors, "all": [master, *mirrors]}[who]
    small(bench, *names)
    assert is_full(fill(bench, master, bench.queue))
    assert takes(bench, master, bench.queue) == [b"item 0"]
    bench.run(2)
    assert isinstance(bench.told(master, 5, within=5), PutDone)
    assert [takes(bench, master, bench.queue)[0] for _ in range(5)] == [
        b"item %d" % number for number in range(1, 6)
    ]
    assert settled(bench).lost == 0


def test_a_follower_with_a_full_disk_is_not_waited_for_and_has_all_in_the_end() -> None:
    bench, master, (first, _) = three()
    small(bench, first)
    for number in range(3 * FEW):
        assert isinstance(bench.told(master, number), PutDone)
    for number in range(3 * FEW):
        assert takes(bench, master, bench.queue) == [b"item %d" % number]
    assert isinstance(bench.told(master, 99), PutDone)
    settled(bench)
    assert not bench.leader().withdrawing.full


def test_where_a_leaders_disk_is_full_one_who_has_room_leads_and_takes_puts() -> None:
    bench, master, _ = three()
    small(bench, master)
    for number in range(3 * FEW):
        assert isinstance(bench.told(master, number), PutDone)
    assert bench.leader().home.master.partition("/")[0] != master
    for number in range(3 * FEW):
        assert takes(bench, master, bench.queue) == [b"item %d" % number]
    settled(bench)
    assert got(bench) == []


def test_a_follower_keeps_no_more_in_memory_than_so_much_of_what_finds_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, master, (first, _) = three()
    small(bench, first)
    monkeypatch.setattr(writes, "LINGERING_BYTES", 200)
    for bound in ("STEPS_BYTES", "RECENT_BYTES"):
        monkeypatch.setattr(copy, bound, 200)
    monkeypatch.setattr(sending, "PIECE_BODIES", FEW)
    most = 0
    for number in range(20 * FEW):
        assert isinstance(bench.told(master, number), PutDone)
        stuck = bench.slots[NodeId(first)].node._copies.disk._stuck.get(bench.queue)
        jobs = [] if stuck is None else [change for _, some, _ in stuck.jobs for change in some]
        bodies = [one.value for one in jobs if type(one) is Write and one.key[:1] == BULK]
        most = max(most, sum(map(len, bodies)))
    assert 200 < most < 600
    for number in range(20 * FEW):
        assert takes(bench, master, bench.queue) == [b"item %d" % number]
    settled(bench)


@pytest.mark.parametrize("copies", [2, 3])
def test_with_all_disks_full_a_put_is_refused_before_its_client_asks_again(copies: int) -> None:
    bench, master, mirrors = three(durable_copies=copies)
    small(bench, master, *mirrors)
    for name in (master, *mirrors):
        bench.slots[NodeId(name)].disk.bodies = 0
    for number in range(3):
        operation = bench.asked(number)
        bench.run(FIRST_WAIT / SECOND / 2)
        assert isinstance(refused := bench.answers[operation], Declined)
        assert refused.error == "DiskFull"
        assert bench.home(bench.queue).master.partition("/")[0] == master, "nobody has more room"
    settled(bench)


@pytest.mark.parametrize("full", ["leader", "all"])
def test_a_copy_that_finds_no_room_at_a_follower_keeps_no_bodies_on_a_full_leader(
    full: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a copy is on its way nothing is erased that it names (`log.py`, rule 4)."""
    for bound in ("STEPS_BYTES", "STEPS_LEAST", "RECENT_BYTES"):
        monkeypatch.setattr(copy, bound, 0)
    bench, master, (first, second) = three()
    without_steps(bench, first)
    assert isinstance(bench.told(master, 0), PutDone)
    small(bench, first, master, *([second] if full == "all" else []))
    bench.slots[NodeId(first)].disk.bodies = 0
    bench.drops.clear()
    bench.run(3)
    assert bench.leader().followers.sends
    monkeypatch.undo()
    kept = 1
    while isinstance(told := bench.told(master, kept, within=5), PutDone):
        kept += 1
    assert is_full(told)
    for number in range(kept):
        assert takes(bench, master, bench.queue) == [b"item %d" % number]
    for number in range(100, 120):  # one that is refused lets go what is kept for the copy
        if is_full(bench.told(master, number, within=5)):
            bench.run(2)
            assert isinstance(bench.told(master, number, within=5), PutDone)
        takes(bench, master, bench.queue)


def test_what_waits_for_room_is_not_lost_though_no_disk_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for bound in ("STEPS_BYTES", "STEPS_LEAST", "RECENT_BYTES"):
        monkeypatch.setattr(copy, bound, 0)
    bench, master, (first, second) = three()
    without_steps(bench, second)
    assert isinstance(bench.told(master, 0), PutDone)
    small(bench, master)
    bench.slots[NodeId(master)].disk.bodies = 1
    bench.slots[NodeId(first)].held = True
    operation = bench.asked(1)
    bench.run(0.05)
    bench.drops.clear()  # the second is sent a copy, as of that put
    bench.run(0.5)
    bench.slots[NodeId(first)].held = False
    bench.slots[NodeId(master)].disk.bodies = 9
    bench.run(2)
    assert isinstance(bench.answers[operation], PutDone)
    assert got(bench) == [b"item 0", b"item 1"]
    assert settled(bench).lost == 0
