"""A follower that lacks a step has it soon, though its leader makes new ones all the time."""

import pytest
from test_full_disk import takes
from three_bench import Three, settled, without_steps

from snowmelt.core.names import NodeId
from snowmelt.core.record import BULK
from snowmelt.protocols.queue.messages.words import Append, SnapshotChunk
from snowmelt.protocols.queue.store import copy

PACE = 0.01


def under_load(bench: Three, *numbers: int) -> None:
    """One put after the other, none of them waited for."""
    for number in range(*numbers):
        bench.asked(number)
        bench.run(PACE)


@pytest.mark.parametrize("kept", [copy.STEPS_BYTES, 1_000])
def test_one_that_lost_a_step_has_the_last_ones_again_while_others_come(monkeypatch, kept):
    monkeypatch.setattr(copy, "STEPS_BYTES", kept)  # few: it is sent a copy, and those behind
    monkeypatch.setattr(copy, "RECENT_BYTES", kept)
    bench = Three()
    mirror = bench.mirrors[0]
    under_load(bench, 50)
    bench.drops.append(lambda _s, target, one: target == mirror and isinstance(one, Append))
    under_load(bench, 50, 60)
    bench.drops.clear()
    leader = bench.leader()
    behind = []
    for first in range(60, 460, 10):
        under_load(bench, first, first + 10)
        lacks = [one.appended or 0 for one in leader.followers.all.values()]
        behind.append(leader.copy.head.step - min(lacks))
    assert max(behind[15:]) <= 1


def bodies(bench, name):
    return [key for key in bench.slots[NodeId(name)].disk._keys if key[:1] == BULK]


def test_what_was_kept_for_a_copy_on_its_way_is_erased_by_who_leads_next(monkeypatch):
    for bound in ("STEPS_BYTES", "STEPS_LEAST", "RECENT_BYTES"):
        monkeypatch.setattr(copy, bound, 0)
    bench = Three()
    first, second = bench.mirrors
    without_steps(bench, first)
    for number in range(3):
        bench.told(bench.master, number)
    bench.drops[:] = [lambda _s, target, one: target == first and isinstance(one, SnapshotChunk)]
    bench.run(1)
    assert bench.leader().followers.sends
    monkeypatch.undo()
    for number in range(2):
        assert takes(bench, bench.master, bench.queue) == [b"item %d" % number]
    assert len(bodies(bench, second)) == 3, "they are kept"
    bench.kill(bench.master)
    bench.start(bench.master)
    bench.view()
    bench.drops.clear()
    state = settled(bench)
    assert [len(bodies(bench, name)) for name in bench.slots] == [1, 1, 1]
    assert not state.keeps
