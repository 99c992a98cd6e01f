"""Lives in which a queue is backed up while it is used, and restored, under all faults."""

import pytest
from msgspec.structs import replace

from snowmelt.protocols.queue.leader.maintenance.restoring import Restoring
from snowmelt.protocols.queue.replication.log import Log
from snowmelt_world.families.queue import BackupLife
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import ETCD_DECIDES, drawn, kinds_of
from wide import wide


def lived(seed, kinds, coordinator="disk"):
    return live(drawn("queue", seed, kinds, coordinator=coordinator), BackupLife)


# 12: what a producer had put stands in two records, of which the second lags behind; a restore
# took that for a damaged record.
@pytest.mark.parametrize("seed", [12, 0, *wide(1, 2, 3)])
def test_a_life_with_all_faults_ends_well(seed):
    report = lived(seed, kinds_of("queue"))
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("seed", [0, *wide(1, 2)])
def test_a_life_over_etcd_ends_well(seed):
    report = lived(seed, kinds_of("queue"), ETCD_DECIDES)
    assert report.ending is Ending.SETTLED, report.sentence


def a_lot_is_left_out(patch):
    took = Restoring._took

    def leaves(self, ask):
        return took(self, replace(ask, lots=ask.lots[1:]) if ask.lots else ask)

    patch.setattr(Restoring, "_took", leaves)


def bodies_are_erased_meanwhile(patch):
    patch.setattr(Log, "_erased", lambda _self, over: over)


@pytest.mark.parametrize("plant", [a_lot_is_left_out, bodies_are_erased_meanwhile])
def test_it_is_found(plant, monkeypatch):
    plant(monkeypatch)
    found = (lived(seed, ()).ending is not Ending.SETTLED for seed in range(12))
    assert any(found)
