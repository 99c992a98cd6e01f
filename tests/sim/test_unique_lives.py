"""Lives with puts under uniqueness keys: what lives is not put again, whatever dies."""

import pytest

from snowmelt.protocols.queue.state.uniques import Uniques, _digest
from snowmelt_world.families.queue import HURTS
from snowmelt_world.families.queue_unique import UniqueLife
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import drawn, kinds_of

KEEPING = [
    kind for kind in kinds_of("queue") if kind not in {one.__struct_config__.tag for one in HURTS}
]


def lived(seed, kinds=KEEPING):
    return live(drawn("queue", seed, kinds), UniqueLife)


@pytest.mark.parametrize("seed", range(4))
def test_where_no_disk_is_hurt_what_lives_is_not_put_again(seed):
    report = lived(seed)
    assert report.ending is Ending.SETTLED, report.sentence


def test_a_life_with_all_faults_ends_well():
    report = lived(5, kinds_of("queue"))
    assert report.ending is Ending.SETTLED, report.sentence


def who_leads_next_knows_none(patch):
    restore, earlier = Uniques.restore, Uniques.earlier

    def restores(self, key, value):
        restore(self, key, value)
        vars(self).setdefault("of_before", set()).add(key[1:])

    def knows(self, name, wall):
        return (
            None if _digest(name) in vars(self).get("of_before", ()) else earlier(self, name, wall)
        )

    patch.setattr(Uniques, "restore", restores)
    patch.setattr(Uniques, "earlier", knows)


def what_is_in_hand_is_put_again(patch):
    is_over = Uniques._is_over
    patch.setattr(
        Uniques,
        "_is_over",
        lambda self, known, wall: is_over(self, known, wall) or known.until <= wall,
    )


@pytest.mark.parametrize(
    ("plant", "seed"), [(who_leads_next_knows_none, 0), (what_is_in_hand_is_put_again, 0)]
)
def test_it_is_found(plant, seed, monkeypatch):
    plant(monkeypatch)
    assert "k0: " in lived(seed).sentence
