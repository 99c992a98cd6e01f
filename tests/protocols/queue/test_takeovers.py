"""A takeover is broken off at each message that comes to the new leader, and goes on."""

from typing import Any

import pytest
from cluster_bench import ClusterBench

from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.api.calls import PutDone

MESSAGES = 8
"""A takeover of three nodes is over after fewer."""


def kept_as_counted(bench: ClusterBench, queue: str) -> None:
    """What a leader counts as flushed by a follower is so: of this term, and up to that step."""
    for slot in bench.slots.values():
        leader = None if slot.node is None else slot.node._terms.leaders.get(queue)
        for keeper, follower in {} if leader is None else leader.followers.all.items():
            other = bench.slots[NodeId(keeper.partition("/")[0])].node
            if not follower.appended or other is None:
                continue
            copy = other._copies.of(queue)
            if copy.fence == leader.home.term:  # else it follows a later one by now
                assert copy.flushed.step >= follower.appended


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
    assert sum(part.count for part in leased.parts) == 5
    kept_as_counted(bench, queue)


@pytest.mark.parametrize("how", ["cut off", "killed"])
@pytest.mark.parametrize("at", range(1, MESSAGES))
def test_a_takeover_that_is_broken_off_loses_nothing(at: int, how: str) -> None:
    broken_off(at, how)
