"""Lives with a queue by key of several partitions: order and limits hold, as with one."""

from functools import cache
from itertools import count

import pytest

from snowmelt.client.parted.parts import PartitionedQueue
from snowmelt.protocols.queue.api import asking
from snowmelt.protocols.queue.state.by_key import ByKey
from snowmelt.protocols.queue.state.offers import Offers
from snowmelt_world.families.queue import HURTS
from snowmelt_world.families.queue_parted_keys import PartedKeyLife
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import drawn, kinds_of
from wide import wide

KEEPING = [
    kind for kind in kinds_of("queue") if kind not in {one.__struct_config__.tag for one in HURTS}
]


def lived(seed, kinds=KEEPING):
    return live(drawn("queue", seed, kinds), PartedKeyLife)


unplanted = cache(lived)
"""A life as the code is goes the same way each time."""


# 104, 109: an acknowledgement was done in one partition, and refused in another.
# 142: two altered a setting in two ways, and new terms were made for ever; what was there already
# under its uniqueness key left numbers unused, which no record said.
# 148: the only copy of a partition was away, and what is in it never came.
# 169: a get found nothing, and one that its client had left held what was there.
# 178: what a rate let out in 90 seconds was not out by then.
# 187, 279: a large step went twice, or later ones before one that was lost; then one went in 20 s.
# 275: a node's clock was 2 % too fast, and so were its seconds.
KEPT = [0, 1, *wide(2, 3, 4, 5, 6, 104), 109, 142, *wide(148, 169, 178), 187, *wide(275, 279)]


@pytest.mark.parametrize("seed", KEPT)
def test_where_no_disk_is_hurt_order_and_limits_hold(seed):
    report = unplanted(seed)
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("seed", [0, *wide(1, 2)])
def test_a_life_with_all_faults_ends_well(seed):
    report = lived(seed, kinds_of("queue"))
    assert report.ending is Ending.SETTLED, report.sentence


# --- planted --------------------------------------------------------------------------------------


def what_was_granted_is_leased_whatever_happened_since(patch):
    def gives(self, some, _=None):
        return [place for one in some for part in self._ready.common(one) for place in part]

    patch.setattr(Offers, "give", gives)


def what_is_granted_counts_in_no_second(patch):
    give = Offers.give
    patch.setattr(Offers, "give", lambda self, some, _=None: give(self, some))


def a_key_is_put_into_any_partition(patch):
    turns = count()
    patch.setattr(PartitionedQueue, "home", lambda self, _: next(turns) % len(self.all))
    patch.setattr(asking, "_elsewhere", lambda *_: "")


PLANTS = {
    what_was_granted_is_leased_whatever_happened_since: 1,
    what_is_granted_counts_in_no_second: 1,
    a_key_is_put_into_any_partition: 1,
}
"""With the life that finds each."""


@pytest.mark.parametrize("plant", PLANTS)
def test_it_is_found(plant, monkeypatch):
    monkeypatch.setattr(ByKey, "check", lambda *_: None)  # by who put and got, not from inside
    plant(monkeypatch)
    assert "k0: " in lived(PLANTS[plant]).sentence
    monkeypatch.undo()
    assert unplanted(PLANTS[plant]).ending is Ending.SETTLED
