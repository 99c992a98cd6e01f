"""Priorities as people give them, and what nodes are told in their place."""

from enum import IntEnum

import numpy as np
import pytest

from snowmelt.client.leases.delivered import (
    PLACE_BITS,
    ItemSelection,
    portion,
    position_of,
    priority_of,
)
from snowmelt.client.queue.ranks import Ranks
from snowmelt.core.errors import BadOption
from snowmelt.core.keys import packed
from snowmelt.protocols.queue.api.calls import ItemRun

EDGES = b"".join(at.to_bytes(4, "little") for at in range(3))
EARLY, LATE = -(1 << 63), (1 << 63) - 1
SOME = {
    Ranks("q", 256): (0, 7, 255),
    Ranks("q", 5, largest_first=True): (0, 1, 4),
    Ranks("q"): (EARLY, -1, 0, 1, LATE),
    Ranks("q", largest_first=True): (EARLY, -1, 0, 1, LATE),
    Ranks("q", floats=True): (float("-inf"), -2.5, 0.0, 1e300),
    Ranks("q", floats=True, largest_first=True): (float("-inf"), -2.5, 0.0, 1e300),
}


class Level(IntEnum):
    HIGH = 2


@pytest.mark.parametrize("ranks", SOME, ids=str)
def test_each_priority_is_told_back_and_the_most_urgent_has_the_least_rank(ranks):
    priorities = SOME[ranks]
    found = ranks.ranks(priorities)
    assert [ranks.told(one) for one in found] == list(priorities)
    assert list(found) == [ranks.rank(one) for one in priorities]
    assert sorted(found, reverse=ranks.largest_first) == list(found)
    assert all(EARLY <= one <= LATE for one in found)


def test_what_is_a_number_is_taken_and_what_is_none_is_not():
    four, whole, floats = Ranks("q", 4), Ranks("q"), Ranks("q", floats=True)
    for two in (2, Level.HIGH, np.int64(2), np.uint8(2)):
        assert four.ranks([two]) == whole.ranks([two]) == [2]
    assert floats.rank(np.float32(0.5)) == floats.rank(0.5)
    assert floats.rank(3) == floats.rank(3.0)
    for ranks, wrong in (
        (four, (-1, 4, True, 1.0, "1", None)),
        (whole, (LATE + 1, False, 1.0, float("nan"), "1")),
        (floats, (float("nan"), LATE + 1, True, "1")),
    ):
        for one in wrong:
            with pytest.raises(BadOption, match="priority is"):
                ranks.ranks([one])


def test_an_item_knows_its_priority_and_its_position_in_it():
    place = (3 << PLACE_BITS) + 7
    part = ItemRun(place, EDGES, b"ab")
    assert [(priority_of(one, at), position_of(at)) for one, at in _cut(part)] == [
        (3, 7),
        (3, 8),
    ]
    turned = ItemSelection(place, EDGES, b"ab", b"", 0, "", kind=Ranks("q", 5, largest_first=True))
    assert [priority_of(one, at) for one, at in _cut(turned)] == [1, 1]
    keyed = ItemSelection(7, EDGES, b"ab", b"", 0, "", keys=packed([4, 9]), kind=Ranks("q"))
    assert [(priority_of(one, at), position_of(at)) for one, at in _cut(keyed)] == [
        (4, 7),
        (9, 8),
    ]


def _cut(part):
    """Its items, each by itself."""
    return [(portion(part, at, at + 1), part.start + at) for at in range(2)]
