"""One thread that renews many holds: some at a node that is silent must not cost the others."""

import threading
import time
from typing import Any

import pytest

from snowmelt.client.baton_keeping import Keeper
from snowmelt.client.baton_steps import Hold
from snowmelt.core.errors import BatonLost, OutcomeUnknown
from snowmelt.core.instant import Duration, seconds
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.baton.calls import Granted, Keep, Kept, Where
from snowmelt.runtime.clock import steady_now

LEASE = seconds(2)


class Node:
    """Renews, or says nothing."""

    def __init__(self, *, silent: bool = False) -> None:
        self.silent = silent
        self.asked = 0

    def call(self, body: Any, timeout: float, *_: Any) -> Any:
        assert isinstance(body, Keep)
        self.asked += 1
        if self.silent:
            time.sleep(timeout)
            raise OutcomeUnknown("silence")
        return Kept(LEASE)


def hold(ticket: int, port: int, lease: Duration = LEASE) -> Hold:
    where = Where(NodeId(f"n{port}"), 1, Address("127.0.0.1", port))
    return Hold("index", ticket, Granted(1, 1, b"", lease, where), steady_now())


def test_what_a_silent_node_holds_costs_the_others_nothing() -> None:
    keeper, silent, awake = Keeper(), Node(silent=True), Node()
    lost = [hold(ticket, 1) for ticket in range(10)]
    kept = [hold(ticket, 2) for ticket in range(10, 20)]
    for one in lost:
        keeper.add(one, silent)
    for one in kept:
        keeper.add(one, awake)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        assert min(one.seconds_left for one in kept) > 0.5
        time.sleep(0.02)
    assert all(one.seconds_left == 0 for one in lost)
    assert awake.asked < 10 * 5 / 0.4 + 20, "each is renewed when a fifth of its lease is over"
    for one in kept:
        keeper.drop(one)
    keeper.close()


def test_a_node_that_wakes_up_in_time_keeps_what_it_held() -> None:
    keeper, node, one = Keeper(), Node(silent=True), hold(1, 1)
    keeper.add(one, node)
    time.sleep(1.2)
    node.silent = False
    time.sleep(2)
    one.check()
    keeper.drop(one)
    keeper.close()


def test_the_thread_ends_with_the_keeper_and_what_was_held_is_lost() -> None:
    before = threading.active_count()
    keeper, one, told = Keeper(), hold(1, 1), threading.Event()
    one.watch(told.set)
    keeper.add(one, Node())
    assert threading.active_count() == before + 1
    keeper.close()
    assert told.is_set()
    assert threading.active_count() == before
    with pytest.raises(BatonLost, match="the cluster was closed while baton 'index' was held"):
        one.check()
    late = hold(2, 1)
    keeper.add(late, Node())
    assert late.lost
    assert threading.active_count() == before


def test_what_begins_while_the_thread_sleeps_is_renewed_in_time() -> None:
    keeper, node = Keeper(), Node()
    long, short = hold(1, 1, seconds(60)), hold(2, 1, seconds(0.5))
    keeper.add(long, node)
    time.sleep(0.1)
    keeper.add(short, node)
    time.sleep(1)
    short.check()
    keeper.drop(long)
    keeper.drop(short)
    keeper.close()
