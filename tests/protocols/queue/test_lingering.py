"""What was told and lingers may be lost with its disks; its places and tokens never come again."""

import pytest
from cluster_bench import ClusterBench

from snowmelt.core.batch import Batch
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.api.calls import Put, PutDone, Settle


@pytest.mark.parametrize("needed", [1, 2])
def test_positions_are_not_given_again_though_a_mirror_that_lags_was_never_stopped(
    needed: int,
) -> None:
    bench = ClusterBench(4)
    queue, master, second, third = bench.beside(
        replicas=3, durable_copies=needed, linger=seconds(10)
    )
    first = bench.put(master, 1, queue)
    bench.run(12)  # this one is on the disks
    for name in (master, second):
        bench.slots[NodeId(name)].held = True
    assert isinstance(bench.put(master, 2, queue), PutDone)
    away = (third, second)[: 3 - needed]
    bench.drops.append(lambda _, target, __: target in away)
    lost = bench.put(master, 3, queue)
    assert isinstance(lost, PutDone)
    bench.drops.clear()
    killed = (master, second)[:needed]
    for name in (master, second):
        if name in killed:
            bench.kill(name)
        bench.slots[NodeId(name)].held = False
    for name in killed:
        bench.start(name)
    bench.view()
    bench.run(3)
    again = bench.put("n1", 4, queue, within=6)
    assert again.start > lost.start > first.start


def test_positions_and_tokens_are_not_given_again_after_a_kill() -> None:
    bench = ClusterBench(1)
    bench.open(linger=seconds(10))
    first = bench.put("n1", 1)
    bench.run(12)  # this one is on the disk
    bench.slots[NodeId("n1")].held = True
    lost = bench.put("n1", 2)
    held = bench.get("n1", 1)
    assert isinstance(lost, PutDone)
    bench.kill("n1")
    bench.slots[NodeId("n1")].held = False
    bench.start("n1")
    bench.view()
    again = bench.put("n1", 3)
    assert again.start > lost.start > first.start
    anew = bench.get("n1")
    assert anew.token > held.token
    late = bench.ask("n1", Settle("q", held.token, done=(Interval(0, 100),)))
    assert late.error == "LeaseLost"
    assert [bytes(part.blob) for part in anew.parts] == [b"item 1", b"item 3"]


def test_a_bound_above_what_is_told_is_flushed_before_it_is_told() -> None:
    bench = ClusterBench(1)
    bench.open(linger=seconds(10))
    bench.slots[NodeId("n1")].held = True
    batch = Batch.of([b""] * 32_768)
    puts = [Put("q", "p", number, bytes(batch.offsets), b"") for number in (1, 2)]
    assert isinstance(bench.ask("n1", puts[0]), PutDone)  # far below the bound nothing waits
    assert bench.ask("n1", puts[1]) is None
    bench.slots[NodeId("n1")].held = False
    assert bench.ask("n1", puts[1]).stop == 65_536


@pytest.mark.parametrize("kills", [1, 2])
def test_what_is_lost_with_its_put_can_not_be_acknowledged(kills: int) -> None:
    """Its producer may ask again, and then it is delivered."""
    bench = ClusterBench(1)
    bench.open(linger=seconds(10))
    bench.put("n1", 1)
    bench.run(12)  # this one is on the disk
    bench.slots[NodeId("n1")].held = True
    lost = bench.put("n1", 2)
    held = bench.get("n1", 2)
    assert lost.stop == 2
    for _ in range(kills):
        bench.kill("n1")
        bench.slots[NodeId("n1")].held = False
        bench.start("n1")
        bench.view()
        bench.run(3)
    late = bench.ask("n1", Settle("q", held.token, done=(Interval(lost.start, lost.stop),)))
    assert late.error == "LeaseLost"
    anew = bench.put("n1", 2)
    assert (anew.repeated, anew.start > lost.start) == (False, True)
    delivered = bench.get("n1", 2)
    assert delivered.parts[-1].blob == b"item 2"
    done = Settle("q", delivered.token, done=(Interval(anew.start, anew.stop),))
    bench.ask("n1", done)
    assert bench.ask("n1", done).left == 1, "who says so again is told that it is done"
