"""How old items are: right within a second or a thirtieth, whatever became of them, and cheap."""

from typing import Any

import pytest
from counted import Steps
from hypothesis import given
from hypothesis import strategies as st
from nodes_bench import WALL, Nodes

from snowmelt.core.batch import Batch
from snowmelt.core.instant import SECOND, Instant
from snowmelt.core.interval import Interval
from snowmelt.core.keys import packed
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings
from snowmelt.protocols.queue.leader.ages import Ages, DeliveryAges
from snowmelt.protocols.queue.state.put_times import PutTimes
from snowmelt.protocols.queue.state.records import records, restored
from snowmelt.protocols.queue.state.state import QueueState, leased
from snowmelt.protocols.queue.store.bodies import Bodies


def put(state: QueueState, count: int, wall: int, **more: Any) -> int:
    """As a leader does, without bodies at hand."""
    batch = state.put(count, 10 * count, term=1, **more)
    priority = more.get("priority", 0)
    if wall > state.times.due[0 if isinstance(priority, bytes) else priority]:
        state.times.mark(batch.start, wall, state.batches.live)
    return batch.start


def ages(state: QueueState) -> Ages:
    return Ages("q", state, Bodies(0))


gaps = st.lists(st.sampled_from([1, 10**8, SECOND, 90 * SECOND, 86_400 * SECOND]), max_size=60)


@given(gaps, st.integers(0, 59))
def test_an_item_is_as_old_as_its_mark_says_within_a_second_or_a_thirtieth(
    some: list[int], ended: int
) -> None:
    state, wall, put_at = QueueState(QueueSettings()), WALL, dict[int, int]()
    for gap in some:
        for _ in range(3):
            wall += gap
            put_at[put(state, 1, wall)] = wall
    if ended < len(put_at):
        state.take(OperationId(NodeId("c"), 1), 1, [Interval(0, ended + 1)])
        assert not state.settle(1, [Interval(0, ended + 1)])
    again = restored(state.settings, records(state))
    for position in [one for one in put_at if one in state.batches.live]:
        age, told = wall - put_at[position], wall - state.times.at(position)
        assert age <= told <= max(age + SECOND, age * 33 // 32 + SECOND)
        assert again.times.at(position) == state.times.at(position)


def test_marks_are_few_for_years_of_puts() -> None:
    state, wall = QueueState(QueueSettings()), WALL
    for minute in range(200_000):
        wall += (1 if minute % 100 else 3_600) * SECOND
        put(state, 1, wall)
    marks = len(list(state.times.keys()))
    assert 100 < marks < 1_000
    state.purge(dead=False)
    for _ in range(marks + 2):
        wall += 2 * SECOND
        put(state, 1, wall)
        state.purge(dead=False)
    assert len(list(state.times.keys())) <= 33


def test_a_put_within_a_second_writes_no_mark() -> None:
    state = QueueState(QueueSettings())
    put(state, 1, WALL)
    state.changes()
    put(state, 1, WALL + SECOND)
    assert not [key for key in state.changes()[0] if key[:1] == b"t"]
    put(state, 1, WALL + SECOND + 1)
    assert [key for key in state.changes()[0] if key[:1] == b"t"]


def test_the_oldest_of_several_priorities_is_found_wherever_it_is() -> None:
    state = QueueState(QueueSettings(priorities=3))
    for at, priority in enumerate([2, 0, 1, 0]):
        put(state, 1, WALL + 10 * at * SECOND, priority=priority)
    told, wall = ages(state), WALL + 100 * SECOND
    assert told.ready(wall) == 100  # of the least urgent priority
    state.take(OperationId(NodeId("c"), 1), 1, state.first(3, 1 << 20))
    assert (told.ready(wall), told.leased(wall)) == (100, 90)
    state.take(OperationId(NodeId("c"), 2), 2, state.first(3, 1 << 20))
    assert (told.ready(wall), told.leased(wall)) == (None, 100)
    state.settle(2, list(state.leases[2].left))
    assert told.leased(wall) == 90


def test_by_keys_the_oldest_need_not_be_the_most_urgent() -> None:
    state = QueueState(QueueSettings(priorities=ANY))
    for at, key in enumerate([7, 3, 5]):
        put(state, 1, WALL + 10 * at * SECOND, priority=packed([key]))
    told, wall = ages(state), WALL + 100 * SECOND
    state.take(OperationId(NodeId("c"), 1), 1, state.first(1, 1 << 20))
    assert (told.ready(wall), told.leased(wall)) == (100, 90)


def test_a_look_at_many_items_under_many_leases_costs_no_more() -> None:
    """The first look meets each lease once; later ones only those that are new."""
    costs = []
    for count in (100, 20_000):
        state = QueueState(QueueSettings())
        for number in range(count):
            put(state, 10, WALL + number * SECOND)
            state.take(OperationId(NodeId("c"), number), number + 1, state.first(1, 1 << 20))
        told, wall = ages(state), WALL + count * SECOND
        assert told.leased(wall) == count
        state.settle(1, list(state.leases[1].left))
        with Steps() as steps:
            seen = leased(state), told.ready(wall), told.delayed(wall), told.leased(wall)
        assert seen[:3] == (count - 1, pytest.approx(count * 0.9, rel=0.04), None)
        assert seen[3] is not None
        costs.append(steps.count)
    assert costs[1] <= costs[0] + 20  # a few more halvings


def test_the_mean_age_at_delivery_is_of_the_last_half_minute_or_minute() -> None:
    told, second = DeliveryAges(), 10**9

    def get(now: int, count: int, age: int) -> None:
        if now >= told.until:
            told.turn(Instant(now))
        told.count += count
        told.age += count * age

    get(100 * second, 2, 4 * second)
    assert told.mean(Instant(110 * second), 110 * second) == 4
    get(131 * second, 2, 2 * second)
    assert told.mean(Instant(132 * second), 132 * second) == 3
    assert told.mean(Instant(162 * second), 162 * second) == 2
    assert told.mean(Instant(193 * second), 193 * second) is None
    assert told.total(Instant(0), 0) == 12


# --- on nodes -------------------------------------------------------------------------------------


def status(nodes: Nodes) -> calls.QueueStatus:
    told: calls.QueueStatus = nodes.ask(calls.Describe("q"))
    return told


def test_ages_are_told_and_outlive_a_restart_and_a_leader() -> None:
    nodes = Nodes(3)
    nodes.open(lease=1000 * SECOND)
    for number in range(3):
        nodes.put([b"item"] * 2, number)
        nodes.pass_time(10)
    nodes.ask(calls.Put("q", "late", 1, *parcel(), due=WALL + nodes.now + 10**12))
    nodes.get(3)
    told = status(nodes)
    assert (told.oldest_ready, told.oldest_leased) == (pytest.approx(20, abs=1), 30)
    assert (told.oldest_delayed, told.delivery_age) == (0, 30 - 5)
    led = told.leader
    nodes.view(*[name for name in nodes.nodes if name != led or name == "n1"])
    nodes.restart(led)
    nodes.pass_time(10)
    nodes.view(*nodes.nodes)
    told = status(nodes)
    assert told.term > 1
    assert told.oldest_ready == pytest.approx(30, abs=2)
    assert told.oldest_leased == pytest.approx(40, abs=2)
    assert told.oldest_delayed == pytest.approx(10, abs=2)
    assert (told.put, told.delivered, told.delivery_age) == (7, 3, None)


def parcel() -> tuple[bytes, bytes]:
    batch = Batch.of([b"late"])
    return bytes(batch.offsets), bytes(batch.blob)


def test_counts_only_grow_and_fit_together() -> None:
    nodes = Nodes(1)
    nodes.open(lease=SECOND, deliveries_max=2)
    nodes.put([b"item"] * 10, 0)
    before = status(nodes)
    for turn in range(12):
        leased = nodes.get(4)
        if not leased.token:
            break
        where = [Interval(part.start, part.start + 1) for part in leased.parts]
        match turn % 4:
            case 0:
                nodes.ask(calls.Settle("q", leased.token, done=tuple(where)))
            case 1:
                nodes.ask(calls.Settle("q", leased.token, back=tuple(where), reason="no"))
            case 2:
                nodes.ask(calls.Settle("q", leased.token, back=tuple(where)))
        nodes.pass_time(5)
        told = status(nodes)
        grown = ("put", "delivered", "done", "returned", "failed", "expired", "died", "purged")
        assert all(getattr(told, one) >= getattr(before, one) for one in grown)
        assert told.put == 10
        assert told.delivered == told.done + told.returned + told.leased
        before = told
    assert before.died == before.dead
    assert before.expired
    assert before.returned > before.failed
    nodes.ask(calls.Purge("q"))
    nodes.ask(calls.Purge("q", dead=True))
    told = status(nodes)
    assert told.put == 10 == told.done + told.purged + told.leased
    nodes.restart("n1")
    nodes.view("n1")
    again = status(nodes)
    assert [getattr(again, one) for one in grown] == [getattr(told, one) for one in grown]


def test_times_that_are_not_known_have_no_age() -> None:
    times = PutTimes({}, 1)
    assert times.at(7) == 0
    state = QueueState(QueueSettings())
    state.put(1, 10, term=1)
    assert ages(state).ready(WALL) is None
