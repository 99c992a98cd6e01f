"""Real nodes, whose leaders are killed one after the other: each moment is fired once."""

import time
from datetime import datetime, timedelta

import pytest

import snowmelt
from client.killing import kill_leader
from snowmelt.cli.local import LocalCluster

EACH = timedelta(seconds=1)
MARK = timedelta(seconds=1)
"""So much earlier than it was put may an item say that it was."""


@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.soak)])
def test_each_moment_is_fired_once_though_leaders_are_killed(
    nodes: LocalCluster, kills: int
) -> None:
    with snowmelt.connect(nodes.url) as client:
        orders = client.fifo("orders", replicas=3)
        first = orders.schedule("tick", b"go", every=EACH.total_seconds(), timeout=60).next
        killed = [kill_leader(nodes, orders) for _ in range(kills)]
        time.sleep(2)
        fired = orders.schedules(timeout=60)[0].fired
        assert orders.unschedule("tick", timeout=60)
        came: list[tuple[datetime, datetime]] = []
        for item in orders.consume(timeout=3):
            assert item.put_at is not None
            came.append((datetime.fromisoformat(str(item.headers["scheduled-at"])), item.put_at))
            item.ack()
    moments = [moment for moment, _ in came]
    assert len(set(moments)) == len(moments), "one came twice"
    assert len(moments) in (fired, fired + 1), "some are missing"
    assert moments[0] == first.replace(microsecond=0)
    for (moment, put_at), after in zip(came, moments[1:], strict=False):
        assert put_at >= moment - MARK, "it was fired early"
        assert after <= max(moment, put_at + MARK) + EACH + MARK, "one was not made up for"
    late = [put_at - moment for moment, put_at in came]
    print(
        f"{len(moments)} moments, {kills} kills of {sorted(set(killed))}, at most {max(late)} late"
    )
