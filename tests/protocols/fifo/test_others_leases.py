"""A lease is settled by who was given it: tokens are counted, so anybody can guess them."""

from typing import Any

import pytest
from node_bench import NodeBench

from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Requested
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.fifo.calls import Describe, Get, Settle, Settled

ALL = (Interval(0, 2),)


@pytest.mark.parametrize(
    "settle",
    [
        {"done": ALL},
        {"back": ALL},
        {"back": ALL, "reason": "poison"},
        {"extend": True},
    ],
)
def test_another_client_can_not_settle_it_by_its_number(settle: dict[str, Any]) -> None:
    bench = NodeBench()
    bench.open()
    bench.put(items=2)
    token = bench.answer(Get("q", 2, 1 << 20, seconds(0))).token
    call = Requested(OperationId(NodeId("c-other"), 7), Settle("q", token, **settle))
    bench.give(call)
    refused = bench.told.pop(7)
    assert isinstance(refused, Declined)
    assert refused.error == "LeaseLost"
    assert refused.text == f"lease {token} of queue 'q' was not given to this client"
    assert bench.answer(Describe("q")).leased == 2
    assert bench.answer(Settle("q", token, done=ALL)) == Settled(0)
