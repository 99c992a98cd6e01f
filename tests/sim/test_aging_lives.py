"""Lives with a queue whose items age, and are dropped and brought back one by one."""

import pytest

from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.leader import leader, one_item, retention
from snowmelt.protocols.queue.state.put_times import PutTimes
from snowmelt.protocols.queue.state.state import QueueState
from snowmelt_world.families.queue import HURTS
from snowmelt_world.families.queue_aging import AgingLife
from snowmelt_world.faults import ClockJump, WallClock
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import drawn, kinds_of

LEAPS = (ClockJump, WallClock)
"""By such clocks nobody can say how old something is."""
KEEPING = [
    kind
    for kind in kinds_of("queue")
    if kind not in {one.__struct_config__.tag for one in (*HURTS, *LEAPS)}
]


def lived(seed, kinds=KEEPING):
    return live(drawn("queue", seed, kinds), AgingLife)


@pytest.mark.parametrize("seed", range(4))
def test_items_end_in_their_time_and_no_other(seed):
    report = lived(seed)
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("seed", [20, 21])
def test_a_life_with_all_faults_ends_well(seed):
    report = lived(seed, kinds_of("queue"))
    assert report.ending is Ending.SETTLED, report.sentence


def it_ends_when_half_of_its_time_is_over(patch):
    before = PutTimes.before
    patch.setattr(
        PutTimes, "before", lambda self, then, now: before(self, now - (now - then) // 2, now)
    )


def it_is_looked_at_too_seldom(patch):
    patch.setattr(retention, "SECOND", seconds(30))


def what_aged_is_not_counted(patch):
    age_out = retention.age_out

    def uncounted(state, old, most):
        before = state.counts.aged
        ended = age_out(state, old, most)
        state.counts.aged = before
        return ended

    patch.setattr(retention, "age_out", uncounted)


def what_is_dropped_is_ready_instead(patch):
    change = one_item.change_item

    def instead(state, operation, ask):
        if ask.position in state.ready and ask.drop:
            return 1
        return change(state, operation, ask)

    patch.setattr(leader, "change_item", instead)


def a_lease_goes_on_when_its_item_is_ready(patch):
    def goes_on(state, operation, ask):
        where = Interval(ask.position, ask.position + 1)
        leased = any(ask.position in one.left for one in state.leases.values())
        if not ask.drop and leased and not state.ready.covers(where):
            state.ready.add(where)
            return 1
        return change(state, operation, ask)

    change = one_item.change_item
    patch.setattr(leader, "change_item", goes_on)
    patch.setattr(QueueState, "check", lambda *_: None)


@pytest.mark.parametrize(
    ("plant", "seed"),
    [
        (it_ends_when_half_of_its_time_is_over, 4),
        (it_is_looked_at_too_seldom, 0),
        (what_aged_is_not_counted, 0),
        (what_is_dropped_is_ready_instead, 0),
        (a_lease_goes_on_when_its_item_is_ready, 0),
    ],
)
def test_it_is_found(plant, seed, monkeypatch):
    plant(monkeypatch)
    assert "k0: " in lived(seed).sentence
