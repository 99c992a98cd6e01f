"""What too few are known to have is given to nobody, and what lies behind it waits."""

from collections.abc import Sequence
from typing import Any

import pytest
from cluster_bench import ClusterBench, Drops
from test_aside import where
from three_bench import Three, bodies, given, is_kept, settled, three

from snowmelt.core.batch import Batch
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.core.node import Received
from snowmelt.protocols.fifo.calls import (
    Describe,
    Get,
    Leased,
    Peek,
    Purge,
    Put,
    PutDone,
    Settle,
)
from snowmelt.protocols.fifo.limits import LIMITS
from snowmelt.protocols.fifo.messages import Copied, Copy, Mirror, Pulled, Replicate, Replicated


def items(told: Any) -> list[bytes]:
    """What a get was given, with what this node does not keep itself missing."""
    assert isinstance(told, Leased)
    assert not told.spans
    return [body for part in told.parts for body in Batch(part.offsets, part.blob)]


def without_bodies(bench: Three, *bodies: bytes) -> None:
    """Steps come to the mirrors, and these bodies do not, on any way."""

    def lost(_source: NodeId, _target: NodeId, one: Any) -> bool:
        some = [one] if isinstance(one, Copy) else []
        some += one.bodies if isinstance(one, Mirror) else ()
        return any(body in copy.body for copy in some for body in bodies)

    bench.drops.append(lost)
    bench.drops.append(lambda _s, _t, one: isinstance(one, Replicate))


def master_of(bench: Three) -> str:
    return str(bench.home(bench.queue).master.partition("/")[0])


def test_what_was_acknowledged_does_not_come_again_though_its_put_is_forgotten() -> None:
    """Three items of one put on the master alone, one of them acknowledged, and its disk is lost.

    Nobody was told of the put, so its number is forgotten and all three come anew.
    """
    bench, master, (first, _) = three()
    without_bodies(bench, b"item 1a")
    batch = Batch.of([b"item 1a", b"item 1b", b"item 1c"])
    request = Put(bench.queue, "p", 1, bytes(batch.offsets), bytes(batch.blob))
    operation = bench.call(master, request)
    bench.run(1)
    assert operation not in bench.answers
    got = bench.get(master, items=1, queue=bench.queue)
    if got.token:
        bench.ask(master, Settle(bench.queue, got.token, done=(Interval(0, 1),)))
    bench.kill(master)
    bench.born_anew(master)
    bench.start(master)
    bench.drops.clear()
    bench.view()
    bench.run(5)
    assert isinstance(bench.ask(first, request, 15), PutDone)
    again = items(bench.get(master_of(bench), queue=bench.queue, within=8))
    assert again == [b"item 1a", b"item 1b", b"item 1c"]
    assert items(got) == [], "it was acknowledged, and came again"


@pytest.mark.parametrize("patience", [0, 0.2])
def test_a_get_is_not_told_that_there_is_nothing_while_what_was_put_has_to_wait(
    patience: float,
) -> None:
    """An item that was put at another node lies behind one that only the master has."""
    bench, master, (first, _) = three()
    without_bodies(bench, b"item 1")
    early = bench.asked(1)
    bench.run(0.6)
    assert isinstance(bench.told(first, 2), PutDone)
    get = bench.call(master, Get(bench.queue, 10, 1 << 20, seconds(patience), None))
    bench.run(2)
    assert early not in bench.answers
    assert get not in bench.answers
    bench.drops.clear()
    bench.run(5)
    assert isinstance(bench.answers[early], PutDone)
    assert items(bench.answers[get]) == [b"item 1", b"item 2"]
    settled(bench)


def test_a_get_that_waited_longer_than_it_would_is_told_when_there_is_nothing() -> None:
    """What it waited for turned out to be nowhere."""
    bench, master, mirrors = three()
    without_bodies(bench, b"item 1")
    bench.asked(1)
    bench.run(0.6)
    bench.kill(master)
    bench.born_anew(master)
    bench.start(master)
    bench.view()
    bench.run(1)
    get = bench.call(master_of(bench), Get(bench.queue, 10, 1 << 20, seconds(0), None))
    bench.run(1)
    assert get not in bench.answers
    bench.drops.clear()
    bench.run(5)
    assert items(bench.answers[get]) == []
    assert master_of(bench) in mirrors
    settled(bench)


def test_a_get_is_told_that_there_is_nothing_while_nobody_was_told_of_what_has_to_wait() -> None:
    """Its mirrors have no room for it, and may have none for long."""
    bench, master, _ = three()
    without_bodies(bench, b"item 1")
    early = bench.asked(1)
    bench.run(1)
    assert items(bench.get(master, queue=bench.queue, within=0.1)) == []
    get = bench.call(master, Get(bench.queue, 10, 1 << 20, seconds(0.2), None))
    bench.run(0.3)
    assert items(bench.answers[get]) == []
    assert early not in bench.answers
    bench.drops.clear()
    assert settled(bench).ready.total == 1
    assert isinstance(bench.answers[early], PutDone)


def test_a_put_is_given_at_the_moment_at_which_it_is_told() -> None:
    bench, master, _ = three()
    get = bench.call(master, Get(bench.queue, 10, 1 << 20, seconds(5), None))
    put = bench.asked(1)
    while put not in bench.answers:
        bench.run(0.01)
    assert items(bench.answers[get]) == [b"item 1"]


def test_a_new_master_gives_what_is_in_doubt_as_soon_as_enough_say_that_they_have_it() -> None:
    """The dead one was named, too, and is not waited for."""
    bench, master, mirrors = three()
    bench.drops.append(lambda *way: isinstance(way[2], Copied) and way[1] == master)
    bench.asked(1)
    bench.run(0.2)
    bench.kill(master)
    bench.view(*mirrors)
    bench.run(1.5)
    kept = bench.kept()
    since = bench.now
    assert kept.journal.queue.doubts
    assert bodies(bench) == 1
    assert bench.now < since + seconds(0.5)
    assert kept.journal.queue.doubts


def absent(
    bench: Three, *, told: int, delay: float = 0, drops: Sequence[Drops] = ()
) -> tuple[str, list[str]]:
    """Its master is away with all there is of one item; another is behind that one, in its lane."""
    master, mirrors = bench.master, bench.mirrors
    without_bodies(bench, b"item 1")
    early = bench.call(master, bench.request(1, due=-seconds(delay)))
    behind = [bench.asked(number) for number in range(2, 2 + told)]
    bench.run(0.05)
    assert all(isinstance(bench.answers[one], PutDone) for one in behind)
    bench.run(0.6)
    assert early not in bench.answers
    bench.kill(master)
    bench.drops[:] = drops
    bench.view(*mirrors)
    assert not any(is_kept(bench, name, 1) for name in mirrors)
    return master, mirrors


@pytest.mark.parametrize("told", [0, 3])
def test_what_nobody_has_who_is_here_blocks_nobody_and_comes_when_it_is_found(told: int) -> None:
    bench = Three()
    master, (first, second) = absent(bench, told=told)
    bench.run(2)
    now = master_of(bench)
    expected = [b"item %d" % number for number in range(2, 2 + told)]
    assert items(bench.get(now, queue=bench.queue)) == expected
    assert isinstance(bench.told(second, 9, within=8), PutDone)
    assert items(bench.get(now, queue=bench.queue)) == [b"item 9"]
    assert items(bench.get(now, queue=bench.queue)) == []
    bench.start(master)
    bench.view()
    bench.run(10)
    assert items(bench.get(master_of(bench), queue=bench.queue)) == [b"item 1"]
    told_then = bench.told(first, 1, within=5)
    assert isinstance(told_then, PutDone)
    assert told_then.repeated
    settled(bench)


def test_what_is_behind_it_waits_until_enough_have_that() -> None:
    """One mirror has it and the other does not, and neither has what only the dead master had."""
    bench, master, (first, second) = three()
    without_bodies(bench, b"item 1")
    bench.drops.append(
        lambda _s, target, one: (
            target == second
            and isinstance(one, Mirror)
            and any(b"item 2" in body.body for body in one.bodies)
        )
    )
    bench.asked(1)
    behind = bench.asked(2)
    bench.run(0.05)
    assert isinstance(bench.answers[behind], PutDone)
    bench.kill(master)
    bench.drops.clear()
    bench.drops.append(lambda _s, _t, one: isinstance(one, Pulled))
    bench.view(first, second)
    bench.run(3)
    get = bench.call(master_of(bench), Get(bench.queue, 10, 1 << 20, seconds(0), None))
    bench.run(2)
    assert get not in bench.answers
    assert not is_kept(bench, second, 2)
    bench.drops.clear()
    bench.run(8)
    assert items(bench.answers[get]) == [b"item 2"]
    assert is_kept(bench, second, 2)


def test_a_group_passes_over_what_nobody_has_who_is_here() -> None:
    bench = Three()
    absent(bench, told=2)
    bench.run(3)
    told = given(bench)
    assert (told.given, told.ready) == (2, 0)


@pytest.mark.parametrize("told", [0, 3])
def test_what_nobody_has_who_is_here_is_told_shown_and_purged_like_all_that_waits(
    told: int,
) -> None:
    bench = Three()
    master, _ = absent(bench, told=told)
    bench.run(2)
    now = master_of(bench)
    first = Interval(0, 1)
    got = bench.get(now, queue=bench.queue)
    assert (bool(got.token), got.away) == (told > 0, (first,))
    assert bench.get(now, queue=bench.queue).away == (first,)
    assert bench.ask(now, Describe(bench.queue)).ready == 1
    [shown] = bench.ask(now, Peek(bench.queue, 10, 1 << 20, 0, False)).spans
    assert (shown.start, shown.stop, shown.away) == (0, 1, True)
    assert bench.ask(now, Purge(bench.queue)).items == 1
    assert bench.get(now, queue=bench.queue).away == ()
    bench.start(master)
    bench.view()
    assert settled(bench).alive.first_in(first) is None


def test_what_is_delayed_and_nobody_has_who_is_here_is_given_to_nobody_when_it_is_due() -> None:
    bench = Three()
    absent(bench, told=2, delay=9)
    bench.run(4)
    told = given(bench)
    assert (told.given, told.ready) == (2, 0)
    bench.run(6)
    told = given(bench, told.lease, 2)
    assert (told.given, told.ready) == (2, 0)
    assert isinstance(bench.told(master_of(bench), 9), PutDone)
    assert given(bench, told.lease, 2).given == 3
    assert bench.get(master_of(bench), queue=bench.queue).away == (Interval(0, 1),)


def test_what_is_in_doubt_while_all_who_were_named_are_away_blocks_nobody() -> None:
    """Its second keeper was the master of one term, and a third node is now."""
    bench = ClusterBench(4)
    queue, *keepers = bench.beside(replicas=2)
    bench.drops.append(lambda _s, _t, one: isinstance(one, Copied | Replicate))
    batch = Batch.of([b"item 1"])
    bench.call(keepers[0], Put(queue, "p", 1, bytes(batch.offsets), bytes(batch.blob)))
    bench.run(0.1)
    for gone in keepers:
        bench.kill(gone)
        bench.view(*(name for name, slot in bench.slots.items() if slot.node is not None))
        bench.run(1)
    bench.drops.clear()
    bench.run(2)
    now = str(bench.home(queue).master.partition("/")[0])
    assert now not in keepers
    assert isinstance(bench.put(now, 2, queue), PutDone)
    got = bench.get(now, queue=queue)
    assert (items(got), got.away) == ([b"item 2"], (Interval(0, 1),))
    bench.start(keepers[1])
    bench.view()
    got = bench.get(now, queue=queue, within=5)
    assert (where(got), got.away) == ([0], ())


def test_what_somebody_may_have_who_has_come_since_it_was_asked_is_waited_for() -> None:
    """That nobody had it is heard when the only one who has it is here again."""
    bench = Three()
    late: list[tuple[NodeId, NodeId, Any]] = []

    def holds_back(*way: Any) -> bool:
        late.extend([way] if isinstance(way[2], Replicated) else [])
        return isinstance(way[2], Replicated)

    master, _ = absent(bench, told=0, drops=[holds_back])
    bench.run(1)
    bench.start(master)
    bench.drops.append(lambda _s, _t, one: isinstance(one, Replicate))
    bench.view()
    assert late
    for source, target, message in late:
        bench._give(bench.slots[target], Received(source, message))
    now = master_of(bench)
    get = bench.call(now, Get(bench.queue, 10, 1 << 20, seconds(0), None))
    bench.run(1)
    assert get not in bench.answers
    bench.drops.clear()
    bench.run(8)
    assert items(bench.answers[get]) == [b"item 1"]


def test_what_nobody_has_is_not_told_as_put_however_many_its_producer_puts_behind_it() -> None:
    """Only of a producer's last numbers it is remembered where they went, but for such as this."""
    bench = Three()
    master, (first, second) = absent(bench, told=0)
    bench.run(1)
    for number in range(2, 4 + 2 * LIMITS.producer_recent):
        assert isinstance(bench.told(first, number), PutDone)
    assert bench.told(second, 1) is None, "told, and it is nowhere"
    bench.born_anew(master)
    bench.start(master)
    bench.view()
    assert isinstance(bench.told(second, 1, within=20), PutDone)
    got = items(bench.get(master_of(bench), 1000, queue=bench.queue, within=8))
    assert got[-1] == b"item 1"
    assert settled(bench).lost == 0
