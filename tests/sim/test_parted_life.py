"""Lives of a queue with several partitions, each judged by the one order that it promises."""

import pytest

from snowmelt.sim.families import family
from snowmelt.sim.life import Ending, live
from snowmelt.sim.scenario import ETCD_DECIDES, drawn, kinds_of


def lived(seed, kinds, coordinator="disk"):
    return live(drawn("parted", seed, kinds, coordinator=coordinator), family("parted"))


# 1: a node that was to lead a partition had not heard of that, and nobody told it. 8: what a get
# held already was filled up with items that came later, past others. 33: a partition leased what no
# door told of. 16, 38: who could not say what became of an item asked again.
SEEDS = (1, 8, 16, 33, 38)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_life_with_all_faults_ends_well(seed):
    report = lived(seed, kinds_of("parted"))
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("seed", range(200, 204))
def test_a_calm_life_ends_well(seed):
    report = lived(seed, ())
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("seed", range(3))
def test_a_life_over_etcd_ends_well(seed):
    report = lived(seed, kinds_of("parted"), ETCD_DECIDES)
    assert report.ending is Ending.SETTLED, report.sentence
