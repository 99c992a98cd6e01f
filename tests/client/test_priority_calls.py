"""What goes in one call of a priority queue, and in which order."""

import random

import pytest

import snowmelt
from snowmelt.client.priority.steps import sorted_parcel
from snowmelt.client.queue.ranks import Ranks
from snowmelt.core.batch import Batch
from snowmelt.core.interval import Interval
from snowmelt.core.keys import unpacked


@pytest.mark.parametrize("distinct", [200, 900])
def test_what_goes_in_one_call_lies_in_the_order_of_its_priorities(tmp_path, distinct):
    chance = random.Random(distinct)
    pairs = [(chance.randrange(distinct), b"%d" % at) for at in range(1_500)]
    with snowmelt.open(tmp_path) as cluster:
        jobs = cluster.priority("jobs", priorities=int)
        assert jobs.put_many(pairs) == (Interval(0, len(pairs)),)
        places = [item.position for item in jobs.get_many(2_000, timeout=0)]
    assert places == list(range(places[0], places[0] + len(pairs)))


def test_each_of_many_who_put_at_once_is_told_where_its_own_item_lies():
    chance = random.Random(3)
    pairs = [
        (chance.choice((chance.randrange(3), chance.random())), b"%d" % at) for at in range(400)
    ]
    ranks = Ranks("q", floats=True)
    for some in (pairs[:1], pairs):
        went = sorted_parcel(
            [body for _, body in some], [ranks.rank(one) for one, _ in some], ranks
        )
        told = list(map(ranks.told, unpacked(went.keys)))
        order = went.order or range(len(some))
        bodies = [bytes(one) for one in Batch(went.offsets, went.blob)]
        assert list(zip(told, bodies, strict=True)) == [some[at] for at in order]
        assert told == sorted(told)
