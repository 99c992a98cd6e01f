"""The judge of one order over several partitions, with histories made by hand."""

import pytest

from snowmelt.core.instant import Instant, seconds
from snowmelt_world.judge.one_order import NEVER, Got, Held, Item, OneOrder
from snowmelt_world.world import Broken


def order(*, said):
    """The later of two items is leased in its partition; the first is asked for at 20, after it."""
    ledger = OneOrder("log", seconds(1), None)
    for number, value in enumerate(("first", "later")):
        rank = 0, number
        ledger.items[value] = Item(value, number, Instant(1), Instant(2), rank, acked=Instant(60))
    times = {"later": (10, 11, said), "first": (20, 21, 22)}
    for value, (asked, leased, answered) in times.items():
        got = Got("k1", Instant(asked), Instant(leased))
        got.held[value] = Held(Instant(50), Instant(50), said=Instant(answered))
        ledger.leases[value] = [got]
    return ledger


def test_what_was_answered_with_before_something_earlier_is_out_of_order():
    with pytest.raises(Broken, match=r"first at .* came first when it was asked for at 20"):
        order(said=12).judge()


@pytest.mark.parametrize("said", [21, 30, NEVER])
def test_what_was_leased_and_not_told_came_to_nobody(said):
    order(said=said).judge()
