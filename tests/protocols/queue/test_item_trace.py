"""The life of one item, read from the steps that its leader has: through new leaders, too."""

from typing import Any

import pytest
from nodes_bench import WALL, Nodes

from snowmelt.core.instant import SECOND
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.statuses import ChangeItem, ItemStanding, TracedItem, TraceItem
from snowmelt.protocols.queue.leader.item_trace import STEPS_MAX
from snowmelt.protocols.queue.messages.words import Head
from snowmelt.protocols.queue.store.copy import MOMENT, MOMENTS_MAX, Copy

FIRST = (Interval(0, 1),)


def life(nodes: Nodes, position: int, at: str = "n1", **more: Any) -> TracedItem:
    told: TracedItem = nodes.ask(TraceItem("q", position, **more), at)
    return told


def kinds(told: TracedItem) -> list[str]:
    return [one.kind.value for one in told.events]


def settle(nodes: Nodes, leased: calls.Leased, **more: Any) -> None:
    nodes.ask(calls.Settle("q", leased.token, secret=leased.secret, **more))


def test_all_that_happens_to_an_item_is_told_across_a_fail_over() -> None:
    nodes = Nodes(4)
    nodes.open(replicas=3, deliveries_max=2)
    nodes.put([b"x"] * 3, 7)
    nodes.pass_time(1)
    leased = nodes.get(2)
    nodes.pass_time(10)
    settle(nodes, leased, done=(Interval(1, 2),), back=FIRST, reason="too hot")
    nodes.pass_time(1)
    nodes.get(1)
    nodes.pass_time(40)  # its lease ends
    assert nodes.ask(ChangeItem("q", 0, drop=False)) == calls.Changed(1)
    gone = nodes.status().leader
    rest = [name for name in nodes.members if name != gone]
    nodes.view(*rest)
    nodes.pass_time(15)
    again: calls.Leased = nodes.ask(calls.Get("q", 1, 1 << 20, 0), rest[0])
    settle_at = calls.Settle("q", again.token, secret=again.secret, back=FIRST)
    nodes.ask(settle_at, rest[0])
    last: calls.Leased = nodes.ask(calls.Get("q", 1, 1 << 20, 0), rest[0])
    nodes.ask(calls.Settle("q", last.token, secret=last.secret, done=FIRST), rest[0])
    told = life(nodes, 0, rest[0])
    assert told.status.standing is ItemStanding.ENDED
    assert kinds(told) == [
        "put", "leased", "failed", "leased", "failed", "died", "brought back",
        "leased", "released", "leased", "acknowledged",
    ]  # fmt: skip
    put, first, failed, second, ended, died, *_, acknowledged = told.events
    assert (put.who, put.number, put.after) == ("p", 7, put.before)
    assert (first.who, first.number, first.length) == ("c-1", leased.token, 30.0)
    assert (failed.who, failed.times, failed.reason) == ("c-1", 1, "too hot")
    assert (ended.times, ended.reason, ended.number) == (2, "the lease ended", second.number)
    assert (died.times, died.reason) == (2, "the lease ended")
    assert (acknowledged.number, acknowledged.term) == (last.token, told.events[-2].term)
    assert put.term < acknowledged.term
    assert all(0 < one.after <= one.before for one in told.events)
    assert put.before < acknowledged.after
    assert kinds(life(nodes, 1, rest[0])) == ["put", "leased", "acknowledged"]
    assert kinds(life(nodes, 2, rest[0])) == ["put"]
    assert life(nodes, 9, rest[0]).status.standing is ItemStanding.NEVER
    assert life(nodes, 9, rest[0]).events == ()


def test_times_are_those_between_which_a_leader_looked_at_its_clock() -> None:
    nodes = Nodes(3)
    nodes.open(replicas=3)
    nodes.put([b"x"], 1)
    nodes.pass_time(100)
    asked = WALL + nodes.now
    leased = nodes.get(1)
    nodes.pass_time(10)
    settle(nodes, leased, done=FIRST)
    _, taken, done = life(nodes, 0).events
    assert taken.after <= asked <= taken.before <= asked + SECOND
    assert taken.before <= done.after <= asked + 11 * SECOND <= done.before + SECOND


def test_of_old_moments_fewer_are_kept() -> None:
    copy = Copy("q")
    for number in range(10_000):
        copy.head = Head(1, number)
        copy.look_at_clock(WALL + number * MOMENT)
        copy.look_at_clock(WALL + number * MOMENT + 1)
    steps = [step for step, _ in copy.moments]
    assert len(steps) <= MOMENTS_MAX
    assert steps[-MOMENTS_MAX // 2 :] == [*range(10_000 - MOMENTS_MAX // 2, 10_000)]
    assert steps == sorted(steps)
    assert 9_999 - steps[0] > 5 * MOMENTS_MAX


@pytest.mark.parametrize(
    ("ask", "kind"),
    [
        (ChangeItem("q", 0, drop=True), "dropped or purged"),
        (calls.Purge("q"), "dropped or purged"),
    ],
)
def test_how_it_ended_is_told(ask: Any, kind: str) -> None:
    nodes = Nodes(3)
    nodes.open(replicas=3)
    nodes.put([b"x"] * 2, 1)
    nodes.ask(ask)
    assert kinds(life(nodes, 0)) == ["put", kind]


def test_delays_extensions_and_groups_are_told() -> None:
    nodes = Nodes(3)
    nodes.open(replicas=3)
    due = WALL + 5 * SECOND
    nodes.put([b"x"], 1, due=due)
    assert life(nodes, 0).events[0].due == due
    nodes.pass_time(10)
    leased = nodes.get(1)
    settle(nodes, leased, extend=True, lease=90 * SECOND)
    settle(nodes, leased, back=FIRST, due=WALL + 60 * SECOND)
    told = life(nodes, 0)
    assert kinds(told) == ["put", "leased", "extended", "released"]
    assert (told.events[2].length, told.events[3].due) == (90.0, WALL + 60 * SECOND)
    nodes.pass_time(60)
    given = nodes.ask(calls.Assign("q", "g", 0, "r", 0, 1, 100))
    assert kinds(life(nodes, 0))[4:] == ["given to a group"]
    nodes.ask(calls.Assign("q", "g", given.lease, "r", 1, 1, 100))
    group = life(nodes, 0).events[4:]
    assert [(one.kind.value, one.who) for one in group] == [
        ("given to a group", "g"),
        ("acknowledged", "g"),
    ]


def test_who_may_not_know_clients_is_told_of_none() -> None:
    nodes = Nodes(3)
    nodes.open(replicas=3)
    nodes.put([b"x"], 1)
    nodes.get(1)
    told = life(nodes, 0, names=False)
    assert kinds(told) == ["put", "leased"]
    assert [one.who for one in told.events] == ["", ""]
    assert told.status.client == ""
    assert life(nodes, 0).status.client == "c-1"


def test_of_one_copy_steps_are_kept_from_the_first_question_on() -> None:
    nodes = Nodes(1)
    nodes.open()
    nodes.put([b"x"] * 2, 1)
    leased = nodes.get(1)
    told = life(nodes, 0)
    assert (kinds(told), told.since) == (["put"], told.head)
    assert told.events[0].step == 0
    assert 0 < told.events[0].after <= told.events[0].before
    settle(nodes, leased, done=FIRST)
    assert life(nodes, 0).events[0].number == 1  # who put it is remembered still
    leased = nodes.get(1)
    settle(nodes, leased, back=(Interval(1, 2),))
    nodes.put([b"y"], 2)
    settle(nodes, nodes.get(2), done=(Interval(1, 3),))
    assert kinds(life(nodes, 1)) == ["put", "leased", "released", "leased", "acknowledged"]
    told = life(nodes, 2)
    assert (kinds(told), told.events[0].step > 0) == (["put", "leased", "acknowledged"], True)


def test_what_is_older_than_the_steps_at_hand_is_not_told() -> None:
    nodes = Nodes(3)
    nodes.open(replicas=3)
    nodes.put([b"x"], 1)
    settle(nodes, nodes.get(1), done=FIRST)
    nodes.put([b"stays"], 2)
    for number in range(3, 24):
        nodes.put([b"y" * 100_000], number)
    told = life(nodes, 0)
    assert told.since > 4
    assert [(one.kind.value, one.step, one.number) for one in told.events] == [("put", 0, 1)]
    assert told.begun > 0
    assert told.head - told.since < STEPS_MAX
    stays = life(nodes, 1)
    assert (kinds(stays), stays.events[0].term) == (["put"], 1)
