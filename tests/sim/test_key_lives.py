"""Lives with a queue by key, under all faults: order and limits hold over whatever dies."""

from functools import cache

import pytest
from msgspec.structs import replace

from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.state.by_key import ByKey
from snowmelt.protocols.queue.state.fair_turns import FairTurns
from snowmelt.protocols.queue.state.pacing import Pace
from snowmelt_world.families.queue import HURTS
from snowmelt_world.families.queue_by_key import KeyLife
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import ETCD_DECIDES, drawn, kinds_of
from wide import wide

KEEPING = tuple(
    [kind for kind in kinds_of("queue") if kind not in {one.__struct_config__.tag for one in HURTS}]
)
"""All faults but those that take what there are copies of."""


def lived(seed, kinds, coordinator="disk"):
    return live(drawn("queue", seed, kinds, coordinator=coordinator), KeyLife)


unplanted = cache(lived)
"""A life as the code is goes the same way each time."""


@pytest.mark.parametrize("seed", [0, *wide(1)])
def test_a_life_with_all_faults_ends_well(seed):
    report = lived(seed, kinds_of("queue"))
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("seed", [0, 1, *wide(*range(2, 6))])
def test_where_no_disk_is_hurt_order_and_limits_hold(seed):
    report = unplanted(seed, KEEPING)
    assert report.ending is Ending.SETTLED, report.sentence


def test_a_life_over_etcd_ends_well():
    report = lived(0, kinds_of("queue"), ETCD_DECIDES)
    assert report.ending is Ending.SETTLED, report.sentence


# --- planted --------------------------------------------------------------------------------------


def who_leads_next_knows_nothing_in_hand(patch):
    find = ByKey.find
    patch.setattr(ByKey, "find", lambda self, live, _: find(self, live, ()))


def what_waits_for_its_retry_holds_nobody_up(patch):
    def comes(self, where):
        for place in where:
            key = self._waiting.get(self._batches.number(place))
            if key is not None and self._rank(place) in key.ranks:
                self._look(key)
            else:
                self.ready(Interval(place, place + 1))

    patch.setattr(ByKey, "delayed", ByKey.dead)
    patch.setattr(ByKey, "due", comes)


def each_get_counts_for_itself(patch):
    """As if nothing were in hand but what the same get takes."""
    choose = ByKey.choose

    def chooses(self, *rest, **more):
        hand, held = dict(self.hand), dict(self.held)
        self.hand.clear()
        self.held.clear()
        for key in list(self._waiting.values()):
            self._look(key)
        chosen = choose(self, *rest, **more)
        self.hand.update(hand)
        for number, count in held.items():
            self.held[number] = self.held.get(number, 0) + count
        return chosen

    patch.setattr(ByKey, "choose", chooses)


def a_leader_goes_on_as_if_nothing_was_leased_before(patch):
    begin = Pace.__init__

    def begins(self, outbox, settings):
        begin(self, outbox, settings)
        self._begins = outbox.now

    patch.setattr(Pace, "__init__", begins)


def weights_are_as_none(patch):
    patch.setattr(FairTurns, "_weight", lambda *_: 1)


def weights_last_until_others_are_altered(patch):
    altered = QueueSettings.altered

    def alters(self, some, nodes, weights=()):
        return altered(replace(self, weights=()), some, nodes, weights)

    patch.setattr(QueueSettings, "altered", alters)


def a_get_of_several_counts_none_of_its_own(patch):
    """As if each of its items were the first."""

    share = FairTurns.share
    patch.setattr(
        FairTurns, "share", lambda self, number, held: share(self, number, max(0, held - 1))
    )


PLANTS = {
    weights_are_as_none: 0,
    weights_last_until_others_are_altered: 0,
    a_get_of_several_counts_none_of_its_own: 0,
    who_leads_next_knows_nothing_in_hand: 2,
    what_waits_for_its_retry_holds_nobody_up: 3,
    each_get_counts_for_itself: 1,
    a_leader_goes_on_as_if_nothing_was_leased_before: 7,
}
"""With the life that finds each."""


@pytest.mark.parametrize("plant", PLANTS)
def test_it_is_found(plant, monkeypatch):
    monkeypatch.setattr(ByKey, "check", lambda *_: None)  # by who put and got, not from inside
    plant(monkeypatch)
    assert "k0: " in lived(PLANTS[plant], KEEPING).sentence
    monkeypatch.undo()
    assert unplanted(PLANTS[plant], KEEPING).ending is Ending.SETTLED
