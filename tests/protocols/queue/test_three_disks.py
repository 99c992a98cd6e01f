"""A put is one write on each of three disks; it is told when enough have it, and not before."""

from typing import Any

import pytest
from cluster_bench import ClusterBench
from three_bench import Three, got, is_kept, settled, three, without_steps

from snowmelt.core.batch import Batch
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Persist
from snowmelt.protocols.calling import AskAnother, Declined
from snowmelt.protocols.queue.api.calls import Get, Leased, Purge, Put, PutDone, Settle
from snowmelt.protocols.queue.messages.words import Appended
from snowmelt_world.disk import Ending


def writes(bench: Three) -> dict[str, int]:
    """How often each disk is written to from now on."""
    counts = dict.fromkeys(map(str, bench.slots), 0)
    for name, slot in bench.slots.items():

        def ask(effect: Persist, name: str = name, ask: Any = slot.disk.ask) -> None:
            counts[name] += 1
            ask(effect)

        slot.disk.ask = ask  # type: ignore[method-assign]
    return counts


def others(bench: Three, *names: str) -> list[str]:
    return [str(name) for name in bench.slots if name not in names]


# --- what is told ---------------------------------------------------------------------------------


def test_a_put_is_one_write_on_each_of_three_disks_and_tells_how_many_have_it() -> None:
    bench, master, _ = three()
    counts = writes(bench)
    bench.sent.clear()
    for number in range(5):
        told = bench.told(master, number)
        assert isinstance(told, PutDone)
        assert 2 <= told.copies <= 3
    assert counts == dict.fromkeys(counts, 5)
    assert len(bench.sent) == 5 * 4
    assert settled(bench).batches.live.total == 5


def test_of_three_copies_as_many_are_told_as_there_are() -> None:
    bench, master, (first, second) = three()
    without_steps(bench, first)
    told = bench.told(master, 1)
    assert told.copies == 2
    assert is_kept(bench, second, 1)
    assert not is_kept(bench, first, 1)
    assert bench.told(master, 1) == PutDone(told.start, told.stop, 2, True, repeated=True)
    bench.drops.clear()
    settled(bench)
    assert bench.told(master, 1).copies == 3
    bench.ask(master, Purge(bench.queue))
    assert bench.told(master, 1).copies == 0


def test_nobody_is_told_while_it_is_on_one_disk() -> None:
    bench, *_ = three()
    bench.drops.append(lambda _s, _t, one: isinstance(one, Appended))
    operation = bench.asked(1)
    bench.run(4)
    assert operation not in bench.answers
    bench.drops.clear()
    bench.run(2)
    assert bench.answers[operation].copies >= 2
    settled(bench)


@pytest.mark.parametrize("cut", [0.2, 0.4, 1.0])
def test_a_put_whose_step_was_lost_on_its_way_is_told_when_enough_have_it(cut: float) -> None:
    bench, master, _ = three()
    bench.drops.append(lambda source, _, __: source == master)
    operation = bench.asked(1)
    bench.run(cut)
    bench.drops.clear()
    while operation not in bench.answers:
        bench.run(0.01)
    told = bench.answers[operation]
    assert isinstance(told, PutDone)
    assert told.copies <= sum(is_kept(bench, name, 1) for name in bench.slots)
    bench.kill(master)
    bench.born_anew(master)
    bench.start(master)
    bench.view()
    assert settled(bench).lost == 0
    assert got(bench) == [b"item 1"]


def test_a_repetition_is_told_only_when_enough_have_it() -> None:
    """The leader had sent a step to one mirror alone when it was killed."""
    bench, master, (first, second) = three()
    without_steps(bench, second)
    bench.drops.append(lambda _s, _t, one: isinstance(one, Appended))
    operation = bench.asked(1)
    bench.run(0.05)
    assert (is_kept(bench, first, 1), is_kept(bench, second, 1)) == (True, False)
    assert operation not in bench.answers
    bench.kill(master, Ending.CRASH)
    bench.drops.clear()
    without_steps(bench, second)
    bench.view(*sorted({first, second}))
    assert bench.told(first, 1, within=3) is None, "told, and it is nowhere but here"
    bench.drops.clear()
    told = bench.told(first, 1, within=15)
    assert isinstance(told, PutDone)
    assert is_kept(bench, second, 1)
    assert got(bench) == [b"item 1"]


def test_what_is_on_its_way_is_given_to_nobody_and_nobody_is_told_that_there_is_nothing() -> None:
    bench, master, (first, second) = three()
    without_steps(bench, first, second)
    early = bench.asked(1)
    get = bench.call(master, Get(bench.queue, 10, 1 << 20, seconds(0), None))
    late = bench.call(master, Get(bench.queue, 10, 1 << 20, seconds(0.2), None))
    bench.run(2)
    assert not {early, get, late} & set(bench.answers)
    bench.drops.clear()
    bench.run(2)
    assert isinstance(bench.answers[early], PutDone)
    assert sum(part.count for part in bench.answers[get].parts) == 1
    assert bench.answers[late].token == 0


def test_what_was_acknowledged_does_not_come_again_though_its_put_is_forgotten() -> None:
    """Three items of one put on the leader alone, and its disk is lost.

    Nobody was told of the put, so nobody was given an item; its number is forgotten, and all come.
    """
    bench, master, (first, second) = three()
    without_steps(bench, first, second)
    batch = Batch.of([b"item 1a", b"item 1b", b"item 1c"])
    request = Put(bench.queue, "p", 1, bytes(batch.offsets), bytes(batch.blob))
    operation = bench.call(master, request)
    get = bench.call(master, Get(bench.queue, 1, 1 << 20, seconds(0), None))
    bench.run(1)
    assert not {operation, get} & set(bench.answers)
    bench.kill(master)
    bench.born_anew(master)
    bench.start(master)
    bench.drops.clear()
    bench.view()
    bench.run(5)
    told = bench.ask(first, request, 15)
    assert (isinstance(told, PutDone), told.repeated) == (True, False)
    assert got(bench) == [b"item 1a", b"item 1b", b"item 1c"]
    assert settled(bench).lost == 0, "it was told to nobody"


def test_a_leader_that_was_cut_off_with_the_only_copy_tells_nothing_of_it() -> None:
    bench, master, mirrors = three()
    without_steps(bench, *mirrors)
    operation = bench.asked(1)
    bench.run(0.05)
    assert is_kept(bench, master, 1)
    bench.drops.clear()
    bench.drops.append(lambda source, target, _: master in (source, target) and source != target)
    bench.cut_off(master)
    bench.view(*mirrors)
    bench.run(3)
    told = bench.told(mirrors[0], 2, within=5)
    assert isinstance(told, PutDone)
    bench.drops.clear()
    bench.view()
    bench.run(5)
    assert isinstance(bench.answers[operation], AskAnother)
    again = bench.told(master, 1, within=5)
    assert (again.start, again.repeated) == (told.stop, False)
    assert got(bench) == [b"item 2", b"item 1"]
    assert settled(bench).batches.live == bench.leader().state.batches.live


def test_a_new_leader_gives_what_was_on_its_way_as_soon_as_enough_have_it() -> None:
    """The dead one was named, too, and is not waited for."""
    bench, master, mirrors = three()
    bench.drops.append(lambda _, target, one: isinstance(one, Appended) and target == master)
    operation = bench.asked(1)
    bench.run(0.2)
    assert operation not in bench.answers
    bench.kill(master)
    bench.view(*mirrors)
    bench.run(1)
    get = bench.call(bench.home(bench.queue).master.partition("/")[0], Get(bench.queue, 9, 99, 0))
    bench.run(0.1)
    assert [bytes(part.blob) for part in bench.answers[get].parts] == [b"item 1"]


# --- who lacks something --------------------------------------------------------------------------


def test_a_mirror_that_missed_steps_has_all_of_them_in_the_end() -> None:
    bench, master, (first, second) = three()
    without_steps(bench, first)
    for number in (1, 2, 3):
        assert isinstance(bench.told(master, number), PutDone)
    bench.run(3)
    assert (is_kept(bench, first, 1), is_kept(bench, second, 1)) == (False, True)
    bench.drops.clear()
    settled(bench)
    assert all(is_kept(bench, first, number) for number in (1, 2, 3))


def test_two_mirrors_late_by_turns_and_the_leaders_disk_lost_lose_nothing() -> None:
    bench, master, (first, second) = three()
    for number, name in ((1, first), (2, second)):
        without_steps(bench, name)
        assert isinstance(bench.told(master, number, within=1), PutDone)
        bench.drops.clear()
    bench.kill(master)
    bench.born_anew(master)
    bench.start(master)
    bench.view()
    assert settled(bench).lost == 0
    assert got(bench) == [b"item 1", b"item 2"]


def test_who_is_new_in_the_place_of_a_dead_mirror_gets_all_and_not_only_the_last_steps() -> None:
    bench = ClusterBench(4)
    queue, *keepers = bench.beside(replicas=2)
    for number in range(20):
        assert isinstance(bench.put(keepers[0], number, queue), PutDone)
    for gone in keepers:
        bench.kill(gone)
        rest = [name for name, slot in bench.slots.items() if slot.node is not None]
        bench.view(*rest)
        bench.run(8)
    leased = bench.get(bench.home(queue).master.partition("/")[0], queue=queue)
    assert sum(part.count for part in leased.parts) == 20


# --- no room --------------------------------------------------------------------------------------


def without_room(bench: Three, number: int) -> OperationId:
    """A put whose step finds no room on the leader's disk."""
    bench.slots[NodeId(bench.master)].disk.room = 0
    operation = bench.asked(number)
    bench.run(0.2)
    return operation


@pytest.mark.parametrize("wait", [0.2, 3])
def test_with_no_room_at_the_leader_it_is_not_known_whether_it_was_put(wait: float) -> None:
    """Its mirrors may have it: that it was not put is told when there is room for that."""
    bench, master, _ = three(durable_copies=3)
    operation = without_room(bench, 1)
    refused = bench.told(master, 2, within=0.3)
    assert isinstance(refused, Declined)
    assert refused.error == "DiskFull"
    bench.run(wait)
    assert operation not in bench.answers, "not even the little that takes it back is written"
    bench.slots[NodeId(master)].disk.room = None
    bench.run(3)
    told = bench.answers[operation]
    assert told.error == "DiskFull"
    assert isinstance(bench.told(master, 3, within=5), PutDone)
    assert got(bench) == [b"item 3"]
    settled(bench)


def test_a_put_that_two_mirrors_have_needs_no_room_at_its_leader() -> None:
    bench, master, mirrors = three()
    operation = without_room(bench, 1)
    assert isinstance(bench.answers[operation], PutDone)
    assert bench.answers[operation].copies == 2
    bench.kill(master)
    bench.view(*mirrors)
    bench.run(5)
    assert bench.told(mirrors[0], 1, within=5).repeated
    leased = bench.get(mirrors[0], queue=bench.queue, within=8)
    assert [bytes(part.blob) for part in leased.parts] == [b"item 1"]


def test_what_mirrors_had_no_room_for_was_not_put_when_the_leaders_disk_is_lost() -> None:
    bench, master, mirrors = three()
    for name in mirrors:
        bench.slots[NodeId(name)].disk.room = 0
    operation = bench.asked(1)
    bench.run(0.05)
    assert operation not in bench.answers
    bench.kill(master)
    for name in mirrors:
        bench.kill(name)
        bench.slots[NodeId(name)].disk.room = None
        bench.start(name)
    bench.born_anew(master)
    bench.start(master)
    bench.view()
    bench.run(2)
    told = bench.told(mirrors[0], 1, within=20)
    assert (isinstance(told, PutDone), told.repeated) == (True, False)
    assert got(bench) == [b"item 1"]
    assert settled(bench).lost == 0, "it was told to nobody"


def test_what_has_no_room_in_the_queue_waits_its_turn() -> None:
    bench, master, _ = three(items_max=1)
    assert isinstance(bench.told(master, 1), PutDone)
    operation = bench.call(master, bench.request(2, patience=60 * 10**9))
    bench.run(1)
    assert operation not in bench.answers
    leased = bench.get(master, queue=bench.queue)
    assert isinstance(leased, Leased)
    bench.ask(master, Settle(bench.queue, leased.token, done=(Interval(0, 1),)))
    bench.run(1)
    assert isinstance(bench.answers[operation], PutDone)
    assert got(bench) == [b"item 2"]
