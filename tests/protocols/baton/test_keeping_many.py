"""Rule 13 for whoever holds many batons at one node: one call renews them all, each as alone."""

import sys
from typing import Any

from baton_bench import Bench

from snowmelt.core.instant import seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announced
from snowmelt.protocols.baton.calls import (
    KEEPS_AT_ONCE,
    Granted,
    Holding,
    Release,
    Renew,
    Renewed,
    RenewedMany,
    RenewMany,
    SaveValue,
)
from snowmelt.protocols.baton.names import STALE_MAX
from snowmelt.protocols.calling import Declined, Elsewhere, Gone


def granted(bench: Bench, count: int, node: str = "n1") -> list[Granted]:
    asked = [bench.want("c1", node, 100 + at, f"name{at}") for at in range(count)]
    bench.run()
    return [bench.answer(one) for one in asked]


def keep(bench: Bench, grants: list[Granted], node: str = "n1", client: str = "c1") -> Any:
    holdings = [Holding(f"name{at}", 100 + at, one.fence) for at, one in enumerate(grants)]
    asked = bench.call(client, node, RenewMany(tuple(holdings), grants[0].where))
    bench.run()
    return bench.answer(asked)


def test_all_that_one_call_names_outlive_their_leases() -> None:
    bench = Bench(2)
    grants = granted(bench, 20)
    for _ in range(4):
        bench.pass_time(seconds(2))
        assert keep(bench, grants) == RenewedMany(grants[0].lease)


def test_those_that_are_lost_are_told_apart_and_why() -> None:
    bench = Bench(2)
    grants = granted(bench, 3)
    assert bench.call("c1", "n1", Release("name1", 101, grants[1].fence, grants[1].where, None))
    bench.run()
    holdings = [Holding(f"name{at}", 100 + at, one.fence) for at, one in enumerate(grants)]
    more = (*holdings, Holding("never heard of", 7, 7), Holding("name0", 100, 7))
    asked = bench.call("c1", "n1", RenewMany(more, grants[0].where))
    unknown = "n1 knows nothing of this hold"
    lost = ((1, "it was given up already"), (3, unknown), (4, unknown))
    assert bench.answer(asked) == RenewedMany(grants[0].lease, lost)


def test_another_node_says_where_to_ask() -> None:
    bench = Bench(2)
    grants = granted(bench, 2)
    assert isinstance(keep(bench, grants, "n2"), Elsewhere)
    bench.kill("n1")
    bench.view("n2")
    told = keep(bench, grants, "n2")
    assert told == Declined("BatonLost", "node n1, where these were held, is gone")


def test_too_many_for_one_call_are_refused() -> None:
    bench = Bench(1)
    (grant,) = granted(bench, 1)
    many = (Holding("name0", 100, grant.fence),) * (KEEPS_AT_ONCE + 1)
    told = bench.answer(bench.call("c1", "n1", RenewMany(many, grant.where)))
    assert told == Declined("TooLarge", "501 holds are too many for one call; at most 500")


def test_the_connection_that_keeps_counts_and_not_the_one_that_asked_or_saved() -> None:
    bench = Bench(1)
    grants = granted(bench, 2)
    assert keep(bench, grants, client="keeper") == RenewedMany(grants[0].lease)
    one = grants[0]
    bench.call("saver", "n1", SaveValue("name0", 100, one.fence, one.where, b"x"))
    bench.run()
    for gone in ("c1", "saver"):
        bench.give(NodeId("n1"), Announced(Gone(NodeId(gone))))
    bench.pass_time(seconds(2))
    again = bench.call("keeper", "n1", Renew("name0", 100, one.fence, one.where))
    assert isinstance(bench.answer(again), Renewed)
    bench.give(NodeId("n1"), Announced(Gone(NodeId("keeper"))))
    bench.pass_time(seconds(2))
    assert [at for at, _ in keep(bench, grants, client="keeper").lost] == [0, 1]


def calls_of(bench: Bench, gone: str) -> int:
    """How many calls of functions the end of a client is to the node."""
    calls: list[None] = []
    host = bench.hosts[NodeId("n1")]
    sys.setprofile(lambda _, event, __: calls.append(None) if event == "call" else None)
    try:
        host.handle(Announced(Gone(NodeId(gone))), bench.now)
    finally:
        sys.setprofile(None)
    return len(calls)


def test_an_end_of_a_connection_is_no_work_for_whatever_others_hold() -> None:
    """Each of many holds came by a connection of its own, and these end one by one."""
    bench = Bench(1)
    alone = [bench.want(f"c{at}", "n1", 100 + at, f"name{at}") for at in range(3)]
    bench.run()
    few = calls_of(bench, "c0")
    asked = [bench.want(f"c{at}", "n1", 100 + at, f"name{at}") for at in range(3, 200)]
    bench.run()
    assert all(hasattr(bench.answer(one), "fence") for one in alone + asked)
    assert calls_of(bench, "c1") <= few + 2


def test_an_end_of_a_connection_is_no_work_for_others_who_wait_for_the_same() -> None:
    bench = Bench(1)
    for at in range(3):
        bench.want(f"c{at}", "n1", 100 + at)
    bench.run()
    few = calls_of(bench, "c2")
    for at in range(3, 200):
        bench.want(f"c{at}", "n1", 100 + at)
    bench.run()
    assert calls_of(bench, "c199") <= few + 2


def test_what_a_client_was_done_with_long_ago_is_not_kept_of_it() -> None:
    bench = Bench(1)
    involved = bench.machine("n1")._involved
    for at in range(3 * STALE_MAX):
        grant = bench.answer(bench.want("c1", "n1", 100 + at, f"name{at}"))
        bench.call("c1", "n1", Release(f"name{at}", 100 + at, grant.fence, grant.where, None))
    assert len(involved._of[NodeId("c1")]) <= STALE_MAX + 1
    bench.want("c1", "n1", 1, "last")
    assert [one.name for one in involved.take(NodeId("c1"))] == ["last"]
    assert not involved._of
