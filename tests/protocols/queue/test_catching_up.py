"""A follower that lacks a step has it soon, though its leader makes new ones all the time."""

import pytest
from three_bench import Three

from snowmelt.protocols.queue import followers
from snowmelt.protocols.queue.words import Append

PACE = 0.01


def under_load(bench: Three, *numbers: int) -> None:
    """One put after the other, none of them waited for."""
    for number in range(*numbers):
        bench.asked(number)
        bench.run(PACE)


@pytest.mark.parametrize("kept", [followers.STEPS_BYTES, 1_000])
def test_one_that_lost_a_step_has_the_last_ones_again_while_others_come(monkeypatch, kept):
    monkeypatch.setattr(followers, "STEPS_BYTES", kept)  # few: it is sent a copy, and those behind
    monkeypatch.setattr(followers, "RECENT_BYTES", kept)
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
