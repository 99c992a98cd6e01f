"""Lives with schedules, under all faults: each moment is fired once, never early, none left out."""

from functools import cache

import pytest

from snowmelt.core.instant import later, milliseconds
from snowmelt.protocols.queue.api.schedules import Moments, Schedules
from snowmelt.protocols.queue.leader.maintenance.scheduling import Scheduling
from snowmelt_world.families.queue import HURTS, ScheduleLife
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import ETCD_DECIDES, drawn, kinds_of
from wide import wide

KEEPING = tuple(
    [kind for kind in kinds_of("queue") if kind not in {one.__struct_config__.tag for one in HURTS}]
)
"""All faults but those that take items of which there are copies."""


def lived(seed, kinds, coordinator="disk"):
    return live(drawn("queue", seed, kinds, coordinator=coordinator), ScheduleLife)


unplanted = cache(lived)
"""A life as the code is goes the same way each time."""


@pytest.mark.parametrize("seed", [0, *wide(1, 2)])
def test_a_life_with_all_faults_ends_well(seed):
    report = lived(seed, kinds_of("queue"))
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("seed", [0, 1, *wide(2, 3, 4)])
def test_where_no_disk_is_hurt_each_moment_is_fired_once(seed):
    report = lived(seed, KEEPING)
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("seed", [0, *wide(1)])
def test_a_life_over_etcd_ends_well(seed):
    report = lived(seed, kinds_of("queue"), ETCD_DECIDES)
    assert report.ending is Ending.SETTLED, report.sentence


def firing_and_the_next_moment_are_two_steps(patch):
    """The item comes in with one step, and the moment moves with a later one."""
    fire, tick, waits = Schedules.fire, Scheduling.tick, {}

    def fires(self, producer, moment, wall):
        known = self.moments.get(producer[1:])
        if known is None or known.next != moment or (id(self), producer, moment) in waits:
            return False
        waits[id(self), producer, moment] = wall
        return True

    def ticks(self):
        schedules, now = self._state.schedules, self._outbox.now
        for key in [one for one in waits if one[0] == id(schedules)]:
            fire(schedules, *key[1:], waits.pop(key))
        tick(self)
        if any(one[0] == id(schedules) for one in waits):
            self._outbox.wake(later(now, milliseconds(300)))

    patch.setattr(Schedules, "fire", fires)
    patch.setattr(Scheduling, "tick", ticks)


def who_leads_next_passes_over_what_was_missed(patch):
    begin = Scheduling.__init__

    def begins(self, own, *rest):
        begin(self, own, *rest)
        outbox, _, state, _ = own
        for name, one in state.schedules.moments.items():
            if one.next <= outbox.wall:
                after = state.schedules.what[name].after(one.next, outbox.wall)
                state.schedules.move(name, Moments(after, one.last, one.fired_at, one.fired))

    patch.setattr(Scheduling, "__init__", begins)


PLANTS = firing_and_the_next_moment_are_two_steps, who_leads_next_passes_over_what_was_missed


@pytest.mark.parametrize("plant", PLANTS)
def test_it_is_found(plant, monkeypatch):
    plant(monkeypatch)
    found = ("s0: s" in lived(seed, KEEPING).sentence for seed in (4, 0, 5))
    assert any(found)
    monkeypatch.undo()
    assert unplanted(4, KEEPING).ending is Ending.SETTLED
