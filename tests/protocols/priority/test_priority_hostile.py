"""Calls that ask for much, or for what can't be: a clear answer, soon, and nobody else suffers."""

import time

import pytest
from priority_bench import Nodes, bodies, part, receipt

from snowmelt.core.interval import Interval
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.calls import Leased, Receipt

SOON = 8.0
"""Seconds, also on a busy machine; whoever looks at all for each takes minutes."""


def opened(count: int, items: int = 0) -> Nodes:
    """So many nodes, with a queue of so many items."""
    nodes = Nodes(count)
    nodes.open("n1")
    if items:
        nodes.call("n1", calls.Put("jobs", nodes.via("n1"), (part(0, [b"x"] * items),)))
    return nodes


def every_other(leased: Leased, first: int) -> Receipt:
    """Of what was leased each second one."""
    places = [
        one
        for share in receipt(leased).shares
        for interval in share.intervals
        for one in range(interval.start + first, interval.stop, 2)
    ]
    return Receipt(leased.token, (Share(0, tuple([Interval(one, one + 1) for one in places])),))


@pytest.mark.parametrize("count", [1, 3])
def test_what_is_settled_in_many_pieces_takes_time_by_the_piece(count: int) -> None:
    nodes = opened(count, 16_000)
    leased = nodes.get("n1", 16_000)
    began = time.perf_counter()
    assert nodes.settle("n1", done=(every_other(leased, 0),)) == calls.Settled()
    assert nodes.settle("n1", back=(every_other(leased, 1),)) == calls.Settled()
    assert len(bodies(nodes.get("n1", 16_000))) == 8_000
    nodes.view(*nodes.members)
    assert time.perf_counter() - began < SOON
