"""What one call may cost others: settling is bounded, and a failure writes its own record."""

import pytest
from counted import Steps
from node_bench import NodeBench

from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.asking import PIECES_MAX
from snowmelt.protocols.queue.api.calls import Commit, Describe, Get, Redrive, Settle, Settled
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.state.delays import WOKEN
from snowmelt.protocols.queue.state.state import QueueState


def leased(items: int, every: int = 1) -> tuple[NodeBench, int]:
    """A queue of which all is leased and, if so asked, only the odd ones are not settled yet."""
    bench = NodeBench()
    bench.open()
    bench.put(items=items)
    token = bench.answer(Get("q", items, 1 << 30, seconds(0))).token
    if every > 1:
        gone = tuple(Interval(at, at + 1) for at in range(0, items, every))
        for at in range(0, len(gone), PIECES_MAX):
            bench.answer(Settle("q", token, done=gone[at : at + PIECES_MAX]))
    return bench, token


def test_intervals_that_say_the_same_cost_what_one_of_them_costs() -> None:
    bench, token = leased(1_000, every=2)  # a run in 500 pieces
    everything = Interval(0, 1_000)
    with Steps() as many:
        answer = bench.answer(Settle("q", token, done=1_000 * (everything,)))
    assert answer == Settled(0)
    bench, token = leased(1_000, every=2)
    with Steps() as one:
        bench.answer(Settle("q", token, done=(everything,)))
    assert many.count < one.count + 1_000 * 20


def test_settling_in_twice_as_many_pieces_costs_twice_as_much() -> None:
    costs = []
    for items in (2_000, 8_000):
        bench, token = leased(items)
        odd = tuple(Interval(at, at + 1) for at in range(0, items, 2))
        with Steps() as steps:
            assert bench.answer(Settle("q", token, done=odd)) == Settled(items // 2)
        costs.append(steps.count)
    assert costs[1] < 5 * costs[0]


@pytest.mark.parametrize(
    "settle",
    [
        Settle("q", 1, done=(PIECES_MAX + 1) * (Interval(0, 1),)),
        Settle("q", 1, done=PIECES_MAX * (Interval(0, 1),), back=(Interval(1, 2),)),
        Settle("q", 1, done=(Interval(0, (1 << 62) + 1),)),
        Settle("q", 1, back=(Interval(0, (1 << 62) + 1),)),
        Settle("q", 1, back=(Interval(0, 1),), reason="ä" * 501),
        Get("q", 1, 1, seconds(0), Settle("q", 1, done=(Interval(0, (1 << 62) + 1),))),
    ],
)
def test_what_is_out_of_bounds_is_refused_before_it_is_worked_on(settle: object) -> None:
    bench, _ = leased(3)
    answer = bench.answer(settle)
    assert isinstance(answer, Declined)
    assert answer.error == "BadOption"


def test_a_position_that_is_not_held_is_found_without_walking_the_queue() -> None:
    """The queue is in thousands of pieces, of which another has all but one."""
    bench = NodeBench()
    bench.open()
    bench.put(items=6_000)
    mine = bench.answer(Get("q", 1, 1 << 20, seconds(0))).token
    other = bench.answer(Get("q", 6_000, 1 << 20, seconds(0))).token
    gone = tuple(Interval(at, at + 1) for at in range(1, 6_000, 2))
    for at in range(0, len(gone), PIECES_MAX):
        bench.answer(Settle("q", other, done=gone[at : at + PIECES_MAX]))
    bench.held = True
    with Steps() as steps:
        number = bench.ask(Settle("q", mine, done=(Interval(0, 6_000),)))
    bench.release()
    answer = bench.told[number]
    assert isinstance(answer, Declined)
    assert "position 2 is not held" in answer.text
    assert steps.count < 2_000


def test_a_failure_writes_its_own_record_and_not_those_of_its_neighbours() -> None:
    bench, token = leased(400)
    before = bench.written
    for at in range(400):
        reason = f"{at}".ljust(1_000, ".")
        bench.answer(Settle("q", token, back=(Interval(at, at + 1),), reason=reason))
    assert bench.written - before < 400 * 1_300
    before = bench.written
    token = bench.answer(Get("q", 400, 1 << 30, seconds(0))).token
    due = 10**18 + 10**15
    for at in range(400):
        bench.answer(Settle("q", token, back=(Interval(at, at + 1),), due=due + at))
    assert bench.written - before < 400 * 300
    bench.restart()
    assert bench.answer(Describe("q")).delayed == 400


class Noting(IntervalSet):
    """Notes where something was removed: what lies behind it has to be moved."""

    removed: list[int]

    def remove(self, interval: Interval) -> None:
        self.removed.append(interval.start)
        super().remove(interval)


def noting(intervals: IntervalSet) -> Noting:
    noted = Noting(intervals)
    noted.removed = []
    return noted


def test_what_is_in_thousands_of_pieces_goes_from_its_end() -> None:
    """From its front each piece would have all others moved: the square of their number."""
    state = QueueState(QueueSettings(deliveries_max=1))
    state.put(100, 1_000, term=1)
    operation = OperationId(NodeId("c-1"), 1)
    state.take(operation, 7, state.first(100, 1 << 20))
    state.settle(7, [Interval(at, at + 1) for at in range(0, 100, 2)])
    lease = state.leases[7]
    lease.left = left = noting(lease.left)
    state.give_back(operation, 7, list(lease.left), reason="poison")
    assert left.removed == []  # all of it at once
    assert state.redrive(100) == 50
    state.check()
    state.ready = ready = noting(state.ready)
    assert state.purge(dead=False) == 50
    assert ready.removed == list(range(99, 0, -2))
    state.check()


def test_a_put_does_not_look_at_all_the_dead() -> None:
    """Each of them is a piece of its own; they count in no bound."""
    costs = []
    for items in (100, 4_000):
        bench = NodeBench()
        bench.open(bytes_max=1 << 20, deliveries_max=1)
        bench.put(items=items)
        token = bench.answer(Get("q", items, 1 << 20, seconds(0))).token
        odd = tuple(Interval(at, at + 1) for at in range(0, items, 2))
        bench.answer(Settle("q", token, back=odd, reason="poison"))
        with Steps() as steps:
            bench.put(sequence=2)
        assert bench.answer(Describe("q")).bytes == items // 2 + 1
        bench.answer(Redrive("q"))
        assert bench.answer(Describe("q")).bytes == items + 1
        costs.append(steps.count)
    assert costs[1] < 2 * costs[0]


def test_a_lease_in_hundreds_of_parts_is_settled_at_once_and_not_part_by_part() -> None:
    costs = []
    for parts in (50, 400):
        bench, token = leased(4_000)
        for at in range(0, 2 * parts, 2):
            bench.answer(Settle("q", token, alone=(Interval(at, at + 1),), lease=seconds(100)))
        odd = tuple(Interval(at, at + 1) for at in range(1, 4_000, 2))
        with Steps() as steps:
            assert isinstance(bench.answer(Settle("q", token, done=odd)), Settled)
        costs.append(steps.count)
    assert costs[1] < 2 * costs[0]


def test_a_step_settles_no_more_pieces_than_one_call_does() -> None:
    bench, token = leased(3)
    some = Settle("q", token, done=(Interval(0, 1),) * (PIECES_MAX // 2 + 1))
    answer = bench.answer(Commit("q", "p", 1, (some, some), ()))
    assert isinstance(answer, Declined)
    assert "intervals in one step" in answer.text


def test_of_very_many_delays_some_end_in_each_turn() -> None:
    state = QueueState(QueueSettings())
    state.put(4_000, 4_000, term=1)
    operation = OperationId(NodeId("c-1"), 1)
    state.take(operation, 7, state.first(4_000, 1 << 20))
    for first in (0, 1):
        some = [Interval(at, at + 1) for at in range(first, 4_000, 2)]
        state.give_back(operation, 7, some, due=5 + first)
    with Steps() as steps:
        state.wake(10)
    assert state.ready.total == WOKEN
    assert steps.count < 60 * WOKEN
    for _ in range(3):
        state.check()
        state.wake(10)
    assert (state.ready.total, state.delays.starts, state.dues) == (4_000, [], [])
    state.check()
