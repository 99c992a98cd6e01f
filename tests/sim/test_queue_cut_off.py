"""A leader is cut off from whoever decides: who waits there is served elsewhere, and soon."""

import pytest
from quiet import QUEUE, Quiet

from snowmelt.core.instant import MILLISECOND, Instant, seconds
from snowmelt.core.names import NodeId
from snowmelt_world.faults import CutLinks

N1 = NodeId("n1")
SOON = 500 * MILLISECOND


@pytest.mark.parametrize("waited", [20, 21, 22, 23, 24])
def test_a_get_that_waits_has_what_is_put_at_the_next_leader_at_once(waited):
    """It was asked again every five seconds; those who wait there heard of no next leader."""
    quiet = Quiet(QUEUE, 0, 4, replicas=3)
    putter, getter = quiet.client("p", N1), quiet.client("g")
    quiet.live((putter, putter.put(["first"])))
    quiet.live((getter, getter.drain()))
    [told] = quiet.live((putter, putter.steps.stats(5.0)))
    assert told.leader != N1, "who decides does not lead"
    got = []
    getter.run(getter.get(patience=60.0), lambda one: got.append((quiet.world.now, one)))
    quiet.rest(waited)
    cut = CutLinks(quiet.world.now, Instant(seconds(999)), ((told.leader, N1),))
    quiet.world.network.begin(cut)
    led = told
    while led.leader == told.leader:  # a put would be taken by that one yet
        quiet.rest(0.1)
        [led] = quiet.live((putter, putter.steps.stats(30.0)))
    begin = quiet.world.now
    quiet.live((putter, putter.put(["second"])))
    quiet.rest(8)
    [(at, delivered)] = got
    assert delivered is not None
    assert at - begin < SOON
    quiet.live((getter, getter.ack(delivered)))
    assert not quiet.judge()
