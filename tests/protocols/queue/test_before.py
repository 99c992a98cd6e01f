"""A get that names an item is given only what comes before it, and does not wait."""

from random import Random

import pytest
from alone import Alone

from snowmelt.client.leases.delivered import places_of
from snowmelt.core.batch import Batch
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.keys import packed
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.calls import Get, Pause, PriorityRun, Put, Settle
from snowmelt.protocols.queue.api.settings import ANY
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS


def put(number, ranks, *, keyed):
    """An item of each rank; its body says which, and which of all it is."""
    batch = Batch.of([b"%d %d" % (rank, number) for rank in sorted(ranks)])
    blob = bytes(batch.offsets), bytes(batch.blob)
    if keyed:
        return Put("q", "p", number, *blob, keys=packed(sorted(ranks)))
    runs = tuple([PriorityRun(rank, ranks.count(rank)) for rank in sorted(set(ranks))])
    return Put("q", "p", number, *blob, runs=runs)


def get(before=-1, count=99, patience=0, settle=None):
    return Get("q", count, 1 << 20, seconds(patience), settle, True, before)


def taken(leased):
    """Where each item stands, and its body, the most urgent first: by keys it is told by places."""
    found = [
        (place, bytes(body).decode())
        for part in leased.parts
        for place, body in zip(places_of(part), Batch(part.offsets, part.blob), strict=True)
    ]
    return sorted(found, key=lambda one: (int(one[1].split()[0]), one[0]))


@pytest.fixture(params=[False, True], ids=["numbered", "any"])
def keyed(request):
    return request.param


@pytest.fixture
def alone(keyed):
    return Alone.of(priorities=ANY if keyed else 9)


def test_it_is_given_what_comes_before_and_nothing_else(alone, keyed):
    alone.said(put(1, [4, 4, 6], keyed=keyed))
    held = taken(alone.said(get(count=2)))
    assert [body for _, body in held] == ["4 1", "4 1"]
    bound = held[1][0]
    assert alone.said(get(bound)).token == 0, "what is less urgent is not its"
    alone.said(put(2, [2, 4, 5], keyed=keyed))
    alone.said(put(3, [2], keyed=keyed))
    assert [body for _, body in taken(alone.said(get(bound, 1)))] == ["2 2"]
    assert [body for _, body in taken(alone.said(get(bound)))] == ["2 3"]
    assert alone.said(get(bound)).token == 0
    assert [body for _, body in taken(alone.said(get()))] == ["4 2", "5 2", "6 1"]


def test_what_goes_back_before_it_is_given(alone, keyed):
    alone.said(put(1, [4, 4], keyed=keyed))
    first, second = alone.said(get(count=1)), alone.said(get(count=1))
    [[bound, _]] = taken(second)
    [[place, _]] = taken(first)
    back = Settle("q", first.token, back=(Interval(place, place + 1),))
    assert taken(alone.said(get(bound, settle=back))) == [(place, "4 1")]


def test_it_does_not_wait_and_nobody_waits_behind_it(alone, keyed):
    alone.said(put(1, [4], keyed=keyed))
    [[bound, _]] = taken(alone.said(get()))
    assert alone.said(get(bound, patience=60)).token == 0
    alone.said(get(patience=60))
    waits = alone.calls
    alone.said(put(2, [5], keyed=keyed))
    assert [body for _, body in taken(alone.answers[waits])] == ["5 2"]


def test_before_what_has_ended_there_is_nothing(alone, keyed):
    alone.said(put(1, [4, 5], keyed=keyed))
    leased = alone.said(get(count=1))
    [[bound, _]] = taken(leased)
    alone.said(Settle("q", leased.token, done=(Interval(bound, bound + 1),)))
    alone.said(put(2, [3], keyed=keyed))
    for ended in (bound, bound + 2, (8 << PRIORITY_BITS) + 1):
        assert alone.said(get(ended)).token == 0
    assert [body for _, body in taken(alone.said(get()))] == ["3 2", "5 1"]


def test_a_queue_that_is_paused_gives_nothing(alone, keyed):
    alone.said(put(1, [4], keyed=keyed))
    [[bound, _]] = taken(alone.said(get()))
    alone.said(put(2, [3], keyed=keyed))
    alone.said(Pause("q", paused=True))
    assert alone.said(get(bound)).token == 0


def test_no_position_is_below_minus_one(alone):
    assert isinstance(alone.said(get(-2)), Declined)


@pytest.mark.parametrize("seed", range(20))
def test_as_a_plain_list_has_it(alone, keyed, seed):
    dice = Random(seed)
    ready, held = [], []
    for number in range(1, 61):
        if dice.random() < 0.5:
            ranks = [dice.randrange(9) for _ in range(dice.randint(1, 5))]
            done = alone.said(put(number, ranks, keyed=keyed))
            places = [place for where in done.where for place in where]
            ready += zip(sorted(ranks), places, strict=True)
        else:
            bound = dice.choice([None, *held])
            most = dice.randint(1, 4)
            first = [one for one in sorted(ready) if bound is None or one < bound][:most]
            leased = alone.said(get(-1 if bound is None else bound[1], most))
            told = [(int(body.split()[0]), place) for place, body in taken(leased)]
            assert told == first, f"step {number}"
            held += first
            ready = [one for one in ready if one not in first]
