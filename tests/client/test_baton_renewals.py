"""What renews many holds: those at a silent node cost the others nothing, and many are one call."""

import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from snowmelt.client.baton.renewals import RenewalPlan
from snowmelt.client.baton.renewer import HoldRenewer
from snowmelt.client.baton.steps import BatonHold
from snowmelt.client.connection.clients import BorrowedClient, Clients
from snowmelt.client.connection.steps import run
from snowmelt.core.errors import BatonLost, OutcomeUnknown
from snowmelt.core.instant import Duration, later, seconds
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.baton.calls import (
    KEEPS_AT_ONCE,
    Granted,
    HeldAt,
    Release,
    Released,
    RenewedMany,
    RenewMany,
)
from snowmelt.runtime.clock import steady_now

LEASE = seconds(2)


class Node:
    """Renews, or says nothing."""

    def __init__(self, *, silent: bool = False) -> None:
        self.silent = silent
        self.asked = 0
        self.calls = 0
        self.released: list[Release] = []

    def call(self, body: Any, timeout: float, *_: Any) -> Any:
        self.calls += 1
        if isinstance(body, Release):
            self.released.append(body)
            return Released()
        assert isinstance(body, RenewMany)
        self.asked += len(body.holdings)
        if self.silent:
            time.sleep(timeout)
            raise OutcomeUnknown("silence")
        return RenewedMany(LEASE)


class Nodes:
    """All that a program can reach, by their ports; a client of one is a client of all."""

    def __init__(self, **nodes: Node) -> None:
        self._nodes = nodes
        self.borrowed = 0
        self.closed = False

    def lend(self) -> "Nodes":
        self.borrowed += 1
        return self

    def take_back(self, _: Any) -> None:
        self.borrowed -= 1

    def end(self, _: Any) -> None:
        self.borrowed -= 1

    def call(self, body: Any, timeout: float, *_: Any) -> Any:
        return self._nodes[body.where.node].call(body, timeout)


def renewer_of(**nodes: Node) -> tuple[HoldRenewer, Callable[[], BorrowedClient], Nodes]:
    clients = cast("Clients", Nodes(**nodes))
    return HoldRenewer(clients), lambda: BorrowedClient(clients), cast("Nodes", clients)


def hold(ticket: int, node: str, lease: Duration = LEASE) -> BatonHold:
    where = HeldAt(NodeId(node), 1, Address("127.0.0.1", int(node[1:])))
    return BatonHold("index", ticket, Granted(1, 1, b"", lease, where), steady_now())


def comes(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_a_silent_node_holds_costs_the_others_nothing() -> None:
    silent, awake = Node(silent=True), Node()
    renewer, borrowed, _ = renewer_of(n1=silent, n2=awake)
    lost = [hold(ticket, "n1") for ticket in range(10)]
    kept = [hold(ticket, "n2") for ticket in range(10, 20)]
    for one in lost + kept:
        renewer.add(one, borrowed())
    end = time.monotonic() + 3  # longer than a lease
    while time.monotonic() < end:
        assert min(one.seconds_left for one in kept) > 0.5
        time.sleep(0.02)
    assert all(one.seconds_left == 0 for one in lost)
    assert awake.asked < 10 * 3 / 0.3 + 20, "each is renewed when a fifth of its lease is over"
    assert awake.calls < awake.asked / 5
    renewer.lose()


def test_a_node_that_wakes_up_in_time_keeps_what_it_held() -> None:
    node, one = Node(silent=True), hold(1, "n1", seconds(10))
    renewer, borrowed, _ = renewer_of(n1=node)
    renewer.add(one, borrowed())
    comes(lambda: node.calls >= 2)  # the first was in vain
    node.silent = False
    comes(lambda: node.calls >= 5)
    one.check()
    renewer.lose()


def test_the_thread_ends_with_the_keeper_and_what_was_held_is_lost() -> None:
    before = threading.active_count()
    renewer, borrowed, _ = renewer_of(n1=Node())
    one, told = hold(1, "n1"), threading.Event()
    one.watch(told.set)
    renewer.add(one, borrowed())
    assert threading.active_count() == before + 1
    renewer.lose()
    assert told.is_set()
    assert threading.active_count() == before
    with pytest.raises(BatonLost, match="the cluster was closed while baton 'index' was held"):
        one.check()
    late = hold(2, "n1")
    renewer.add(late, borrowed())
    assert late.lost
    assert threading.active_count() == before


def test_what_begins_while_the_thread_sleeps_is_renewed_in_time() -> None:
    node = Node()
    renewer, borrowed, _ = renewer_of(n1=node)
    long, short = hold(1, "n1", seconds(60)), hold(2, "n1", seconds(5))
    renewer.add(long, borrowed())
    time.sleep(0.1)
    renewer.add(short, borrowed())
    comes(lambda: node.asked > 0)
    short.check()
    renewer.lose()


def test_a_thousand_holds_are_renewed_by_a_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    keeping, node = RenewalPlan(), Node()
    holds = [hold(ticket, f"n{ticket % 2}") for ticket in range(2 * KEEPS_AT_ONCE + 2)]
    for one in holds:
        keeping.add(one)
    now = later(steady_now(), Duration(LEASE // 5))
    monkeypatch.setattr("snowmelt.client.baton.steps.steady_now", lambda: now)
    while isinstance(batch := keeping.next(now), list):
        assert len({one.hold.where.node for one in batch}) == 1
        run(node, keeping.renew(batch))
    assert (node.calls, node.asked) == (4, len(holds))
    assert batch is not None
    assert batch > now
    for one in holds:
        one.lose("over")
    assert keeping.next(now) is None


def test_the_connection_that_a_hold_came_by_is_free_once_it_was_renewed_by_another() -> None:
    renewer, borrowed, nodes = renewer_of(n1=Node())
    holds = [hold(ticket, "n1") for ticket in range(100)]
    for one in holds:
        renewer.add(one, borrowed())
    assert nodes.borrowed >= 100
    comes(lambda: nodes.borrowed == 1)  # the thread's own
    for one in holds:
        one.check()
    renewer.lose()
    assert nodes.borrowed == 0


def test_what_is_dropped_in_any_place_is_given_up_by_the_thread() -> None:
    node = Node()
    renewer, borrowed, _ = renewer_of(n1=node)
    kept, gone = hold(1, "n1"), hold(2, "n1")
    for one in (kept, gone):
        renewer.add(one, borrowed())
    with renewer._turn:  # as within the collector of garbage, while another thread has the lock
        in_time = threading.Timer(0, renewer.dropped, (gone, borrowed()))
        in_time.start()
        in_time.join(5)
        assert not in_time.is_alive()
    comes(lambda: bool(node.released))
    assert [one.ticket for one in node.released] == [2]
    kept.check()
    renewer.lose()
