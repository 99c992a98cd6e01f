"""A takeover is broken off at each message that comes to the new master, and goes on."""

from typing import Any

import pytest
from cluster_bench import ClusterBench

from snowmelt.core.names import NodeId
from snowmelt.protocols.fifo.calls import PutDone

MESSAGES = 14
"""A takeover of three nodes is over after fewer."""


def kept_as_counted(bench: ClusterBench, queue: str) -> None:
    """What a master counts as kept by a mirror is there: of this journal, and up to that step."""
    for slot in bench.slots.values():
        if slot.node is None:
            continue
        reign = slot.node._reign
        for one in (reign._masters.get(queue), reign._successions.get(queue)):
            journal = None if one is None else one.journal
            for keeper, mirror in {} if journal is None else journal.mirrors.items():
                other = bench.slots[NodeId(keeper.partition("/")[0])].node
                if mirror.step < 0 or other is None:
                    continue
                copy = other._mirrors._of(queue)
                name = (journal.term, journal.name)
                if copy.fence == journal.term:  # else it follows a later one by now
                    assert (copy.term, copy.journal) == name
                    assert copy.step >= mirror.step


def broken_off(at: int, how: str) -> None:
    bench = ClusterBench(4)
    queue, master, heir, third = bench.beside(replicas=3)
    for number in range(3):
        assert isinstance(bench.put(master, number, queue), PutDone)
    came = 0

    def hook(source: NodeId, target: NodeId, message: Any) -> bool:
        nonlocal came
        del source, message
        kept_as_counted(bench, queue)
        if target == heir:
            came += 1
            if came == at and how == "cut off":
                bench.cut_off(heir)
                bench.view()
            elif came == at:
                bench.kill(heir)
                bench.start(heir)
                bench.view()
        return False

    bench.kill(master)
    bench.drops.append(hook)
    bench.view()
    bench.run(3)
    assert came >= at
    assert isinstance(bench.put("n1", 3, queue, within=5), PutDone)
    bench.start(master)
    bench.view()
    for name in (heir, third):  # each of them may go, now that all are here
        bench.run(3)
        bench.kill(name)
        bench.view()
        bench.run(2)
        bench.start(name)
        bench.view()
    bench.run(3)
    assert isinstance(bench.put("n1", 4, queue, within=5), PutDone)
    leased = bench.get(bench.home(queue).master.partition("/")[0], queue=queue, within=5)
    node = bench.slots[NodeId(bench.home(queue).master.partition("/")[0])].node
    assert node is not None
    held = sum(part.count for part in leased.parts)
    held += sum(span.stop - span.start for span in leased.spans)
    assert held == 5
    kept_as_counted(bench, queue)


@pytest.mark.parametrize("how", ["cut off", "killed"])
@pytest.mark.parametrize("at", range(1, MESSAGES))
def test_a_takeover_that_is_broken_off_loses_nothing(at: int, how: str) -> None:
    broken_off(at, how)
