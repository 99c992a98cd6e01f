"""Where one part of the machine relies on another: what each could lose for the other."""

from random import Random

import pytest
from cluster_bench import ClusterBench

from snowmelt.core.instant import Instant, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Send
from snowmelt.protocols.fifo.calls import PutDone
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.messages import Fenced, Home, ReadJournal
from snowmelt.protocols.fifo.mirrors import Mirrors
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.protocols.fifo.succession import Succession

# --- positions that lingered ----------------------------------------------------------------------


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


# --- a copy whose keeper falls silent -------------------------------------------------------------


def test_when_the_newest_copy_falls_silent_the_others_do_if_they_are_enough() -> None:
    desk = Desk(NodeId("n1"), Random(1))
    before = ("n2/1", "n3/1", "n4/1")
    home = Home(
        "q", 2, "n1/1", ("n4/1", "n2/1"), QueueSettings(replicas=3), before=before, before_term=1
    )
    succession = Succession(desk, home, Mirrors(desk))

    def asked() -> list[str]:
        sent = [one for one in desk.taken() if isinstance(one, Send)]
        return [one.target for one in sent if isinstance(one.message, ReadJournal)]

    succession.begin()
    for keeper, step in (("n3/1", 9), ("n4/1", 8), ("n2/1", 7)):
        assert "n4" not in asked()
        succession.fenced(
            Fenced("q", 2, succession.name, keeper, 1, 5, step, sound=True, unbroken=True)
        )
    for half in range(1, 12):  # n3 is silent from now on, and no node of this term
        desk.now = Instant(half * seconds(0.5))
        succession.tick()
    assert asked()[-1] == "n4"
