"""A put that its queue's master takes in: body and step in one write on each disk, as safe."""

from typing import Any

import pytest
from cluster_bench import ClusterBench
from three_bench import Three, bodies, given, is_kept, settled, three

from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Persist
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.fifo.calls import Assign, Locate, PutDone, Settle
from snowmelt.protocols.fifo.messages import (
    Admit,
    Copied,
    Copy,
    Extent,
    Home,
    Mirror,
    Replicate,
)
from snowmelt.sim.disk import Ending


def writes(bench: Three) -> dict[str, int]:
    """How often each disk is written to from now on."""
    counts = dict.fromkeys(map(str, bench.slots), 0)
    for name, slot in bench.slots.items():

        def ask(effect: Persist, name: str = name, ask: Any = slot.disk.ask) -> None:
            counts[name] += 1
            ask(effect)

        slot.disk.ask = ask  # type: ignore[method-assign]
    return counts


def test_a_put_is_one_write_on_each_of_three_disks_and_tells_how_many_have_it() -> None:
    bench, master, _ = three()
    counts = writes(bench)
    for number in range(5):
        told = bench.told(master, number)
        assert isinstance(told, PutDone)
        assert told.copies >= 2
    assert counts == dict.fromkeys(counts, 5)
    assert bench.messages("Admit") == []
    assert settled(bench).runs.housed.popitem()[1] == 5


def test_a_put_at_another_node_is_copied_first() -> None:
    bench, _, mirrors = three()
    assert isinstance(bench.told(mirrors[0], 1), PutDone)
    assert len(bench.messages("Admit")) == 1


def test_nobody_is_told_while_only_the_step_is_on_other_disks() -> None:
    """A mirror says that it has the step, and not that it has the body."""
    bench, *_ = three()
    bench.drops.append(lambda _source, _target, one: isinstance(one, Copied | Replicate))
    operation = bench.asked(1)
    bench.run(5)
    assert any(one.bodies for one in bench.messages("Mirror"))
    assert operation not in bench.answers
    bench.drops.clear()
    bench.run(5)
    told = bench.answers[operation]
    assert isinstance(told, PutDone)
    assert told.copies >= 2
    settled(bench)


@pytest.mark.parametrize("cut", [0.2, 0.4, 1.0])
def test_a_put_whose_bodies_were_lost_on_their_way_is_told_when_enough_have_it(cut: float) -> None:
    """The step is sent again, without the body, when its node does not wait for mirrors' words."""
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
    assert bodies(bench) == 1


def test_what_a_mirror_caught_up_with_is_copied_to_it() -> None:
    bench, master, (first, second) = three()
    bench.drops.append(
        lambda _s, target, one: isinstance(one, Mirror) and one.bodies != () and target == first
    )
    bench.drops.append(lambda _s, _t, one: isinstance(one, Replicate))
    assert isinstance(bench.told(master, 1), PutDone)
    bench.run(3)
    bench.drops.clear()
    assert not is_kept(bench, first, 1)
    assert is_kept(bench, second, 1)
    settled(bench)
    assert is_kept(bench, first, 1)


@pytest.mark.parametrize("dead", [False, True])
def test_a_repetition_is_told_only_when_enough_have_the_body(dead: bool) -> None:
    """The master had sent a step with its body to one mirror alone when it was killed."""
    bench, master, (first, second) = three()
    bench.drops.append(
        lambda _s, target, one: isinstance(one, Mirror | Copied | Replicate) and target != first
    )
    operation = bench.asked(1)
    bench.run(0.05)
    assert is_kept(bench, first, 1)
    assert not is_kept(bench, second, 1)
    assert operation not in bench.answers
    bench.kill(master, Ending.CRASH)
    bench.drops.clear()
    bench.drops.append(lambda _s, _t, one: isinstance(one, Replicate))
    if not dead:
        bench.start(master)
    bench.view(*sorted({first, second} if dead else bench.slots))
    assert bench.told(first, 1, within=3) is None, "told, and it is nowhere but here"
    bench.drops.clear()
    told = bench.told(first, 1, within=15)
    assert isinstance(told, PutDone)
    assert told.repeated
    assert is_kept(bench, second, 1) or is_kept(bench, master, 1)
    assert bodies(bench) == 1


def test_what_nobody_has_was_not_put_and_can_be_put_anew() -> None:
    """Its step reached a mirror and its body none, and then the master's disk was lost."""
    bench, master, (first, second) = three()
    for name in (first, second):
        bench.slots[NodeId(name)].disk.room = 0
    operation = bench.asked(1)
    bench.run(0.05)
    assert operation not in bench.answers
    bench.kill(master)
    for name in (first, second):
        bench.slots[NodeId(name)].disk.room = None
    bench.run(2)
    assert not is_kept(bench, first, 1)
    bench.born_anew(master)
    bench.start(master)
    bench.view()
    told = bench.told(first, 1, within=20)
    assert isinstance(told, PutDone)
    assert not told.repeated
    assert bodies(bench) == 1
    assert settled(bench).lost == 0, "it was told to nobody"


def damage(bench: Three, name: str) -> None:
    """The first item that this node took in can't be read there."""
    node, disk = bench.slots[NodeId(name)].node, bench.slots[NodeId(name)].disk
    assert node is not None
    (place,) = [key for key, (value, _) in disk._values.items() if b"item 1" in value]
    value, check = disk._values[place]
    disk._values[place] = value[:-1] + b"\0", check
    node._keeper._recent.drop(bench.queue, Extent(node._desk.stream, 0, 1))


def test_who_offered_what_was_forgotten_is_not_told_that_it_was_put() -> None:
    """The old master lives: it was cut off with the only copy, which can't be read any more."""
    bench, master, mirrors = three()
    for name in mirrors:
        bench.slots[NodeId(name)].disk.room = 0
    operation = bench.asked(1)
    bench.run(0.05)
    bench.drops.append(lambda source, target, _: master in (source, target) and source != target)
    for name in mirrors:
        bench.slots[NodeId(name)].disk.room = None
    bench.cut_off(master)
    bench.view(*mirrors)
    bench.run(3)
    damage(bench, master)
    bench.drops.clear()
    bench.drops.append(lambda _s, _t, one: isinstance(one, Copy))
    assert operation not in bench.answers
    bench.view()
    bench.run(10)
    told = bench.answers[operation]
    assert isinstance(told, Declined)
    assert told.error == "OutcomeUnknown"
    bench.drops.clear()
    told = bench.told(mirrors[0], 1, within=5)
    assert isinstance(told, PutDone)
    assert not told.repeated
    assert bodies(bench) == 1
    settled(bench)


def test_a_put_is_not_told_by_who_has_what_was_forgotten_of_it() -> None:
    """Its first attempt is known of no more, and its node has it; the second one is in doubt."""
    bench, master, mirrors = three()
    for name in mirrors:
        bench.slots[NodeId(name)].disk.room = 0
    operation = bench.asked(1)
    bench.run(0.05)
    bench.drops.append(lambda source, target, _: master in (source, target) and source != target)
    for name in mirrors:
        bench.slots[NodeId(name)].disk.room = None
    bench.cut_off(master)
    bench.view(*mirrors)
    bench.run(3)
    damage(bench, master)
    bench.drops.clear()
    bench.drops.append(lambda source, _, one: source == master and isinstance(one, Admit | Copy))
    bench.view()
    bench.run(5)
    now = bench.home(bench.queue).master.partition("/")[0]
    assert bench.kept().journal.queue.alive.total == 0
    bench.drops.append(
        lambda source, _, one: (
            source == now and (isinstance(one, Copy) or (isinstance(one, Mirror) and one.bodies))
        )
    )
    bench.drops.append(lambda _s, _t, one: isinstance(one, Replicate))
    again = bench.call(now, bench.request(1))
    bench.run(0.1)
    assert bench.kept().journal.queue.alive.total == 1
    del bench.drops[0]  # what the first attempt's node has comes to others
    bench.run(3)
    assert again not in bench.answers
    assert not isinstance(bench.answers.get(operation), PutDone), "told, and on one disk"
    bench.kill(now)
    bench.born_anew(now)
    bench.start(now)
    bench.drops.clear()
    bench.view()
    bench.run(8)
    assert isinstance(bench.told(master, 1, within=20), PutDone)
    assert bodies(bench) == 1
    settled(bench)


def test_a_group_is_given_nothing_that_may_be_nowhere_and_loses_nothing() -> None:
    """As above, but a group asks before it is known that nobody has it."""
    bench, master, (first, second) = three()
    for name in (first, second):
        bench.slots[NodeId(name)].disk.room = 0
    bench.asked(1)
    bench.run(0.05)
    bench.kill(master)
    for name in (first, second):
        bench.slots[NodeId(name)].disk.room = None
    bench.run(2)
    bench.born_anew(master)
    bench.start(master)
    bench.drops.append(lambda _s, _t, one: isinstance(one, Replicate))
    bench.view()
    bench.run(1)
    told = given(bench)
    assert (told.given, told.ready) == (0, 1)
    bench.drops.clear()
    assert settled(bench).lost == 0
    assert given(bench).ready == 0
    assert isinstance(bench.told(first, 2), PutDone)
    bench.run(1)
    told = given(bench)
    assert told.given == 1
    asked = Locate(bench.queue, "g", told.lease, 0, 1)
    located = bench.ask(bench.home(bench.queue).master.partition("/")[0], asked)
    assert (located.lost, len(located.spans)) == (0, 1)


def test_a_group_is_given_what_enough_have_though_one_mirror_is_silent() -> None:
    """It was told to its producer, so it may not wait for the third."""
    bench, master, (first, _) = three()
    bench.drops.append(
        lambda _s, target, one: isinstance(one, Mirror) and one.bodies != () and target == first
    )
    bench.drops.append(lambda _s, _t, one: isinstance(one, Replicate))
    operation = bench.asked(1)
    while operation not in bench.answers:
        bench.run(0.01)
    ask = bench.call(master, Assign(bench.queue, "g", 0, "r1", 0, 10, 1 << 20))
    bench.run(0.01)
    assert bench.answers[ask].given == 1
    assert bench.kept().journal.queue.doubts


def test_what_was_told_while_it_was_in_doubt_and_nobody_can_read_is_counted_as_lost() -> None:
    """Of the two that flushed it one lost its disk, and at the other it can't be read."""
    bench, master, (first, second) = three()
    bench.drops.append(
        lambda _s, target, one: isinstance(one, Mirror) and one.bodies != () and target == second
    )
    bench.drops.append(lambda _s, _t, one: isinstance(one, Replicate))
    assert isinstance(bench.told(master, 1, within=0.2), PutDone)
    assert is_kept(bench, first, 1)
    assert not is_kept(bench, second, 1)
    bench.kill(master)
    bench.kill(first)
    disk = bench.slots[NodeId(first)].disk
    (place,) = [key for key, (value, _) in disk._values.items() if b"item 1" in value]
    value, check = disk._values[place]
    disk._values[place] = value[:-1] + b"\0", check
    bench.born_anew(master)
    bench.start(master)
    bench.start(first)
    bench.drops.clear()
    bench.view()
    assert settled(bench).lost == 1


def without_room(bench: Three, number: int, since: float = 0.05) -> OperationId:
    """A put whose body finds no room at the master, after a while; what is small does."""
    slot = bench.slots[NodeId(bench.master)]
    slot.held = True
    operation = bench.asked(number)
    bench.run(since)
    slot.disk.room = 0
    refused = slot.disk.flush()
    slot.disk.room, slot.held = None, False
    for one in refused:
        bench._give(slot, one)
    return operation


@pytest.mark.parametrize("since", [0.05, 0.5])
def test_a_put_that_finds_no_room_at_its_master_is_refused_and_does_not_come(since: float) -> None:
    bench, master, _ = three()
    operation = without_room(bench, 1, since)
    bench.run(0.2)
    told = bench.answers[operation]
    assert isinstance(told, Declined)
    assert told.error == "DiskFull"
    bench.run(3)
    assert isinstance(bench.told(master, 2, within=5), PutDone)
    assert bodies(bench) == 1
    assert not any(is_kept(bench, name, 1) for name in bench.slots)
    settled(bench)


@pytest.mark.parametrize("since", [0.05, 0.5])
def test_nobody_is_told_that_there_is_no_room_while_a_later_master_may_have_it(
    since: float,
) -> None:
    """Its mirrors have body and step, and nothing of what the master made of it then."""
    bench, master, mirrors = three()
    operation = without_room(bench, 1, since)
    bench.drops.append(lambda source, *_: source == master)  # from now on nobody hears it
    bench.run(1)
    told = bench.answers.get(operation)
    assert told is None or told.error == "OutcomeUnknown"
    bench.kill(master)
    bench.drops.clear()
    bench.view(*mirrors)
    bench.run(5)
    assert bodies(bench) == 1


def test_with_no_room_at_all_nobody_knows_whether_it_was_put() -> None:
    bench, master, _ = three()
    bench.slots[NodeId(master)].disk.room = 0
    told = bench.told(master, 1)
    assert isinstance(told, Declined)
    assert told.error == "OutcomeUnknown"
    bench.slots[NodeId(master)].disk.room = None
    bench.run(3)
    assert isinstance(bench.told(master, 2, within=5), PutDone)
    assert bodies(bench) == 1
    settled(bench)


def test_what_has_no_room_in_the_queue_waits_its_turn_with_copies() -> None:
    bench, master, _ = three(items_max=1)
    assert isinstance(bench.told(master, 1), PutDone)
    operation = bench.call(master, bench.request(2, patience=60 * 10**9))
    bench.run(1)
    assert operation not in bench.answers
    leased = bench.get(master, queue=bench.queue)
    bench.ask(master, Settle(bench.queue, leased.token, done=(Interval(0, 1),)))
    bench.run(1)
    assert isinstance(bench.answers[operation], PutDone)
    assert bodies(bench) == 1


def test_two_mirrors_late_by_turns_and_the_masters_disk_lost_lose_nothing() -> None:
    """Each put is on the master and one mirror, not the same; so no mirror may be left out."""
    bench, master, (first, second) = three()
    late = {1: first, 2: second}
    bench.drops.append(
        lambda _s, target, one: (
            isinstance(one, Mirror)
            and any(
                b"item %d" % number in body.body
                for number, name in late.items()
                if name == target
                for body in one.bodies
            )
        )
    )
    bench.drops.append(lambda _s, _t, one: isinstance(one, Replicate))
    for number in late:
        assert isinstance(bench.told(master, number, within=0.2), PutDone)
    bench.run(5)
    bench.kill(master)
    bench.born_anew(master)
    bench.start(master)
    bench.drops.clear()
    bench.view()
    queue = settled(bench)
    assert queue.lost == 0
    assert bodies(bench) == 2


def test_who_is_away_and_gets_the_body_all_the_same_does_not_count() -> None:
    """It is not said to keep it: were it counted, the put would be told while one disk has it."""
    bench, master, _ = three()
    away = next(name for name in bench.mirrors if name != "n1")
    bench.drops.append(lambda *way: isinstance(way[2], Home | Copied) and "n1" in way[:2])
    bench.view("n1", master)
    operation = bench.asked(1)
    bench.run(0.2)
    assert is_kept(bench, away, 1)
    assert operation not in bench.answers
    bench.drops.clear()
    bench.run(3)
    assert isinstance(bench.answers[operation], PutDone)
    assert is_kept(bench, "n1", 1)


def test_who_is_new_in_the_place_of_a_dead_mirror_gets_all_and_not_only_what_is_in_doubt() -> None:
    """It was named a keeper of all for one item: what it lacked was lost with the next machine."""
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
    assert not leased.spans
    assert sum(part.count for part in leased.parts) == 20
