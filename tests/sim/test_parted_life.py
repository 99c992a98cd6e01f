"""Lives of a queue with several partitions, each judged by the one order that it promises."""

import pytest
from msgspec.structs import replace

from snowmelt.core.instant import Instant, seconds
from snowmelt_world.families import family
from snowmelt_world.faults import CutLinks
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import ETCD_DECIDES, drawn, kinds_of
from snowmelt_world.themes import ANY
from wide import wide

DATA_NODES, NAMES = "data nodes", "names"
LATER = ("clock-jump", "failing-disk", "filling-disk", "full-disk", "lost-disk")
"""Kinds of faults that these lives met later: seeds that were found before are lived without."""
EARLIER = tuple([kind for kind in kinds_of("parted") if kind not in LATER])


def lived(seed, kinds, coordinator="disk", theme=ANY):
    scenario = drawn("parted", seed, kinds, None, theme, coordinator)
    return live(scenario, family("parted"))


# 1, 8, 16, 33, 38: as found first. 399: who asked for numbers asked a node that was no anchor any
# more, for ever. 492, over etcd: the next leader of a partition did not know up to where a get that
# it had served was served, so the rest of that was passed by. 691: a publication that was refused
# by the time that it had numbers left them in the state, not in its records. 1475: a get that was
# told of nothing was heard again, late, and something was leased to it. 1297: a get was answered
# without a partition that was away, and had leased something for it. 1377: what was leased first in
# one partition was told to nobody, and what stood before it in another came later. 2169: the same,
# and it was told after that. 2065: a get that was told of nothing, and asked again, was not told
# again which partition was left out.
SEEDS = (*wide(1, 8, 16, 33, 38, 399), 691, 1297, 1377, 1475, 2065, 2169)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_life_with_all_faults_ends_well(seed):
    report = lived(seed, EARLIER)
    assert report.ending is Ending.SETTLED, report.sentence


# 5141: a get was refused, and came again while the phase that had asked who holds something of it
# was not over yet; so the next did not ask. 5133: a node ended when something was leased, and not
# told. 5175: a clock had leapt, so what was put for later came later. 5300, 5332: a partition took
# back what it had leased to a get that nobody waited for, and gave it to another.
# 9006: calls of a queue without partitions, which was deleted, made a node forget where the next of
# its name is at home, time and again. 9000, also calm: the next of a name was made with a term that
# one without partitions had had. 9102: the first partition was not there yet, or no more, and who
# opened the queue as it is had its node ask itself for ever. 1084: while a queue was deleted, one
# of its partitions was made again, and what was put there then was in the next of its name.
@pytest.mark.parametrize(
    ("theme", "seed"),
    [
        *((ANY, seed) for seed in (5133, 5175, 5300, 5332)),
        *((DATA_NODES, seed) for seed in (4000, 4003, 5141)),
        *((NAMES, seed) for seed in (1084, 9000, 9006, 9102)),
    ],
)
def test_a_life_of_all_that_there_is_ends_well(theme, seed):
    report = lived(seed, kinds_of("parted"), theme=theme)
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize(("seed", "one_way"), [(6, False), (8, False), *wide((6, True), (8, True))])
def test_who_leads_the_anchor_and_a_partition_never_hear_each_other(seed, one_way):
    scenario = drawn("parted", seed, ())
    begin, pair = Instant(seconds(4)), scenario.nodes[1:3]
    cut = CutLinks(begin, scenario.faults_end, (pair,), one_way, stays=True)
    report = live(replace(scenario, faults=(cut,)), family("parted"))
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("seed", [10, *wide(20)])
def test_a_data_node_and_a_leader_never_hear_each_other(seed):
    """The leader drew it again and again."""
    scenario = drawn("parted", seed, (), None, DATA_NODES)
    cut = CutLinks(Instant(seconds(4)), scenario.faults_end, (scenario.nodes[1:3],), stays=True)
    report = live(replace(scenario, faults=(cut,)), family("parted"))
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("kind", LATER)
def test_a_life_with_what_befalls_disks_and_clocks_ends_well(kind):
    report = lived(5002, (kind, "crash"))
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("seed", [200, *wide(201, 202, 203)])
def test_a_calm_life_ends_well(seed):
    report = lived(seed, ())
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("seed", [*wide(0, 1), 492])
def test_a_life_over_etcd_ends_well(seed):
    report = lived(seed, EARLIER, ETCD_DECIDES)
    assert report.ending is Ending.SETTLED, report.sentence
