"""Lives in which a queue is moved into another, under all faults: each item once, in its order."""

from functools import cache

import pytest
from msgspec.structs import replace

from sim.test_step_lives import KEEPING
from snowmelt.client.leases.steps import LeaseUpdate
from snowmelt.core.instant import seconds
from snowmelt.protocols.queue.controller.deleting import Deletions
from snowmelt_world.families.programs import pause
from snowmelt_world.families.queue_by_key import values_of
from snowmelt_world.families.queue_moved import MoveLife, Mover
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import ETCD_DECIDES, drawn, kinds_of


def lived(seed, kinds, coordinator="disk"):
    return live(drawn("queue", seed, kinds, coordinator=coordinator), MoveLife)


unplanted = cache(lived)
"""A life as the code is goes the same way each time."""


@pytest.mark.parametrize("seed", [0, 1])
def test_a_life_with_all_faults_ends_well(seed):
    report = lived(seed, kinds_of("queue"))
    assert report.ending is Ending.SETTLED, report.sentence


# 36: what is staged by a step that was never decided stays until its hold is over.
@pytest.mark.parametrize("seed", [0, 1, 3, 36])
def test_where_no_disk_is_hurt_each_item_is_moved_once(seed):
    report = unplanted(seed, KEEPING)
    assert report.ending is Ending.SETTLED, report.sentence


def test_a_life_over_etcd_ends_well():
    report = lived(0, kinds_of("queue"), ETCD_DECIDES)
    assert report.ending is Ending.SETTLED, report.sentence


# --- planted --------------------------------------------------------------------------------------


def where_it_went_is_forgotten(patch):
    patch.setattr(Deletions, "_moved", lambda *_: None)


def what_a_killed_move_had_in_hand_is_not_waited_for(patch):
    def sees_none(self):
        status = yield from self.queues["m0"].stats(5.0)
        return replace(status, leased=0)

    patch.setattr(Mover, "looks", sees_none)


def a_move_is_a_put_and_then_an_acknowledgement(patch):
    def steps(self, sources, targets, most):
        delivered = yield from self._leased(self.queues[sources[0]], most)
        if delivered is None:
            return False
        bodies = [value.encode() for value in values_of(delivered).values()]
        yield from self.queues[targets[0]].put_many(bodies, None, 0.0, 30.0, None)
        yield pause(self.some(seconds(1)))
        word = LeaseUpdate(delivered.token, done=delivered.positions)
        yield from self.queues[sources[0]].tell(delivered, word)
        return True

    patch.setattr(Mover, "step", steps)


PLANTS = {
    where_it_went_is_forgotten: (0, "which was moved"),
    what_a_killed_move_had_in_hand_is_not_waited_for: (9, "which was put later"),
    a_move_is_a_put_and_then_an_acknowledgement: (3, "is doubled"),
}
"""With the life that finds each, and what it says."""


@pytest.mark.parametrize("plant", PLANTS)
def test_it_is_found(plant, monkeypatch):
    seed, said = PLANTS[plant]
    plant(monkeypatch)
    assert said in lived(seed, KEEPING).sentence
    monkeypatch.undo()
    assert unplanted(seed, KEEPING).ending is Ending.SETTLED
