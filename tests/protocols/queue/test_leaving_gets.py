"""Gets that nobody waits for any more: at one leader, at an anchor, and at a partition."""

import pytest
from alone import Alone
from counted import Steps
from leading import N2, N3, TERM, Leading

from snowmelt.core.batch import Batch
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announced, Requested
from snowmelt.protocols.calling import Gone
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.gathered import Gathered
from snowmelt.protocols.queue.api.phase_stamp import PhaseStamp
from snowmelt.protocols.queue.messages.partition_words import (
    CancelPartedGet,
    Grant,
    NextPhase,
    Nothing,
    Numbers,
    PartedGet,
    PartedGetCancelled,
    PartialAnswer,
    PartitionReport,
    Ready,
    RequestNumbers,
)

ANCHOR = 7
SEEN = PhaseStamp(ANCHOR, 1, 1 << 40)
LONG = seconds(1_000)
CLIENT = NodeId("c-1")


def get(items_max=1, settle=None):
    return calls.Get("q", items_max, 1 << 20, LONG, settle)


def put(bench, number=1):
    batch = Batch.of([b"item"])
    said = bench.said(calls.Put("q", "p", number, bytes(batch.offsets), bytes(batch.blob)))
    assert isinstance(said, calls.PutDone), said


# --- at one leader --------------------------------------------------------------------------------


def test_a_get_that_waits_is_answered_and_what_comes_is_the_next_ones():
    bench = Alone.of()
    bench.ask(get())
    first = bench.calls
    bench.ask(get())
    assert bench.said(calls.CancelGet("q", first)) == calls.GetCancelled()
    assert bench.answers[first].token == 0
    put(bench)
    assert bench.answers[first + 1].token
    assert bench.said(calls.Describe("q")).waiting_gets == 0


def test_what_was_leased_to_it_goes_to_the_next_and_has_not_failed():
    bench = Alone.of()
    put(bench)
    bench.ask(get())  # its answer is lost on the way
    left = bench.calls
    bench.flush()
    bench.ask(get())
    assert bench.said(calls.CancelGet("q", left)) == calls.GetCancelled()
    leased = bench.answers[left + 1]
    assert (leased.parts[0].failures, leased.parts[0].reason) == (0, "")
    status = bench.said(calls.Describe("q"))
    assert (status.failed, status.expired, status.leased) == (0, 0, 1)


def test_one_that_comes_behind_its_leave_settles_and_has_nothing():
    bench = Alone.of()
    put(bench)
    leased = bench.said(get())
    put(bench, 2)
    bench.ask(calls.CancelGet("q", 99))
    settle = calls.Settle("q", leased.token, (Interval(0, 1),))
    bench.give(Requested(OperationId(CLIENT, 99), get(settle=settle)))
    bench.flush()
    assert (bench.answers[99].token, bench.answers[99].refused) == (0, "")
    status = bench.said(calls.Describe("q"))
    assert (status.done, status.ready) == (1, 1)


def test_what_was_leased_and_not_told_goes_back_with_its_client_who_may_ask_again():
    bench = Alone.of()
    put(bench)
    bench.ask(get())
    mine = bench.calls
    bench.give(Announced(Gone(CLIENT)))
    bench.flush()
    status = bench.said(calls.Describe("q"))
    assert (status.ready, status.leased, status.failed) == (1, 0, 0)
    bench.give(Requested(OperationId(CLIENT, mine), get()))
    bench.flush()
    assert bench.answers[mine].token


def test_what_was_told_stays_leased_though_its_client_is_gone():
    bench = Alone.of()
    put(bench)
    assert bench.said(get()).token
    bench.give(Announced(Gone(CLIENT)))
    assert bench.said(calls.Describe("q")).leased == 1


# --- at the anchor --------------------------------------------------------------------------------


def op(number):
    return OperationId(NodeId("c-9"), number)


def want(number, since=5):
    return PartedGet("log/0", op(number), 1, 1 << 20, LONG, since=since)


@pytest.fixture
def anchor():
    """It leads partition 0; `n3` leads partitions 1 and 2, and is the door."""
    leading = Leading("log/0")
    for part in (1, 2):
        leading.hear(N2, leading.home(f"log/{part}", N3, ANCHOR))
    leading.agree()
    leading.sent.clear()
    return leading


def phase(anchor, **reports):
    """The others report; what they were told in this phase."""
    turns = anchor.told(NextPhase)
    for turn in turns:
        runs = reports.get(turn.queue.replace("/", ""), ())
        anchor.hear(N3, PartitionReport(turn.queue, turn.term, turn.anchor, turn.number, runs))
    anchor.agree()
    return turns


def waiting(anchor, *numbers):
    """These wait, and hold nothing."""
    for number in numbers:
        anchor.hear(N3, want(number))
    anchor.agree()
    while phase(anchor):
        pass
    anchor.sent.clear()


def test_one_that_waits_at_the_anchor_is_forgotten_at_once(anchor):
    waiting(anchor, 1, 2)
    anchor.hear(N3, CancelPartedGet("log/0", op(1)))
    assert (anchor.told(PartedGetCancelled), anchor.told(NextPhase)) == (
        [PartedGetCancelled("log/0", op(1))],
        [],
    )
    anchor.hear(N3, Ready("log/1", ANCHOR))
    anchor.agree()
    phase(anchor, log1=(5, 6, 4))
    grants = [one for turn in anchor.told(NextPhase) for one in turn.grants]
    assert [one.operation for one in grants] == [op(2)]


def test_one_that_was_granted_something_is_named_behind_its_grant(anchor):
    waiting(anchor, 1)
    anchor.hear(N3, Ready("log/1", ANCHOR))
    anchor.agree()
    phase(anchor, log1=(5, 6, 4))
    anchor.hear(N3, CancelPartedGet("log/0", op(1)))
    anchor.agree()
    assert anchor.told(PartedGetCancelled) == []
    turns = anchor.told(NextPhase)
    by_part = {one.queue: one for one in turns}
    assert [one.operation for one in by_part["log/1"].grants] == [op(1)]
    assert {one.queue for one in turns if one.left == (op(1),)} == {"log/1", "log/2"}
    for turn in by_part.values():
        anchor.hear(N3, PartitionReport(turn.queue, turn.term, turn.anchor, turn.number))
    anchor.agree()
    assert anchor.told(PartedGetCancelled) == [PartedGetCancelled("log/0", op(1))]


def test_one_that_another_anchor_may_have_served_is_named_to_all(anchor):
    anchor.hear(N3, CancelPartedGet("log/0", op(4)))
    anchor.agree()
    assert [one.left for one in phase(anchor)] == [(op(4),)] * 2
    assert anchor.told(PartedGetCancelled) == [PartedGetCancelled("log/0", op(4))]
    anchor.hear(N3, want(4))
    assert anchor.told(Nothing) == [Nothing("log/0", op(4))]


def test_a_client_that_is_gone_may_ask_again_at_another_door(anchor):
    waiting(anchor, 1)
    anchor.hear(N2, want(1))
    anchor.hear(N3, CancelPartedGet("log/0", op(1), since=5))
    assert anchor.told(PartedGetCancelled) == [PartedGetCancelled("log/0", op(1))]
    anchor.agree()
    anchor.hear(N3, Ready("log/1", ANCHOR))
    anchor.agree()
    phase(anchor, log1=(5, 6, 4))
    grants = [one for turn in anchor.told(NextPhase) for one in turn.grants]
    assert [one.operation for one in grants] == [op(1)]


def test_a_client_that_is_gone_and_asks_again_here_waits_anew(anchor):
    waiting(anchor, 1)
    anchor.hear(N3, CancelPartedGet("log/0", op(1), since=5))
    anchor.hear(N3, want(1, since=6))
    anchor.hear(N3, CancelPartedGet("log/0", op(1), since=5))  # the network says it twice
    anchor.agree()
    assert anchor.told(Nothing) == []
    phase(anchor, log2=(5, 6, 4))
    grants = [one for turn in anchor.told(NextPhase) for one in turn.grants]
    assert [one.operation for one in grants] == [op(1)]


@pytest.mark.parametrize("since", [5, 4])
def test_what_was_given_to_a_client_that_is_gone_goes_back_if_that_door_asked_for_it(anchor, since):
    waiting(anchor, 1)
    anchor.hear(N3, Ready("log/1", ANCHOR))
    anchor.agree()
    phase(anchor, log1=(5, 6, 4))
    anchor.hear(N3, CancelPartedGet("log/0", op(1), since=since))
    anchor.agree()
    asked_last = since == 5
    assert any(turn.left for turn in anchor.told(NextPhase)) == asked_last
    assert len(anchor.told(PartedGetCancelled)) == (not asked_last)


def test_one_that_comes_again_while_it_is_asked_for_is_asked_for_by_the_next_phase(anchor):
    anchor.hear(N3, want(1, since=5))
    anchor.agree()
    anchor.hear(N3, CancelPartedGet("log/0", op(1), since=5))
    anchor.hear(N3, want(1, since=6))
    asked = [one.asked for one in phase(anchor)]
    anchor.agree()
    later = [one.asked for one in anchor.told(NextPhase)]
    assert asked == later[-2:] == [(op(1),)] * 2


def test_a_phase_costs_the_same_however_many_gets_wait():
    costs = []
    for gets in (20, 2_000):
        bench = Leading("log/0")
        for part in (1, 2):
            bench.hear(N2, bench.home(f"log/{part}", N3, ANCHOR))
        waiting(bench, *range(gets))
        with Steps() as steps:
            bench.hear(N3, Ready("log/1", ANCHOR))
            bench.agree()
            phase(bench, log1=(5, 6, 4))
            assert sum(len(one.grants) for one in phase(bench)) == 1
        costs.append(steps.count)
    assert costs[1] < 1.2 * costs[0], costs


# --- at a partition -------------------------------------------------------------------------------


def turn(number, granted=0, **more):
    return NextPhase(
        "log/1", TERM, ANCHOR, number, granted, count=9, size=1 << 40, upto=1 << 40, **more
    )


@pytest.fixture
def part():
    """Partition 1 has an item at 10; the anchor and the door are on `n3`."""
    leading = Leading("log/1")
    leading.hear(N2, leading.home("log/0", N3, ANCHOR))
    leading.put(1)
    (ask,) = leading.told(RequestNumbers)
    leading.hear(N3, Numbers("log/1", TERM, ANCHOR, ask.number, 10))
    leading.agree()
    leading.sent.clear()
    return leading


def test_what_was_granted_to_one_that_left_is_in_the_report(part):
    grant = Grant(op(1), N3, (10, 11), (1,), SEEN)
    part.hear(N3, turn(2, 2, grants=(grant,), left=(op(1),)))
    part.agree()
    assert part.told(PartialAnswer) == []
    assert [one.runs for one in part.told(PartitionReport)] == [(10, 11, 4)]


def test_what_was_delivered_to_one_that_left_is_in_the_report_and_has_not_failed(part):
    part.hear(N3, turn(2, 2, grants=(Grant(op(1), N3, (10, 11), (1,), SEEN),)))
    part.agree()
    assert len(part.told(PartialAnswer)) == 1
    part.told(PartitionReport)
    part.hear(N3, turn(3, 2, left=(op(1),)))
    part.agree()
    assert [one.runs for one in part.told(PartitionReport)] == [(10, 11, 4)]
    part.hear(N3, turn(4, 4, grants=(Grant(op(2), N3, (10, 11), (1,), SEEN),)))
    part.agree()
    (given,) = part.told(PartialAnswer)
    assert (given.leased.parts[0].failures, given.leased.parts[0].reason) == (0, "")


# --- at the door ----------------------------------------------------------------------------------


@pytest.fixture
def door():
    """It leads nothing that matters; the anchor is on `n3`."""
    leading = Leading("other/1")
    leading.hear(N2, leading.home("log/0", N3, ANCHOR))
    leading.sent.clear()
    return leading


def asks(door, request, number):
    door.give(Requested(OperationId(CLIENT, number), request))


def test_a_door_says_that_a_get_has_left_until_it_hears_that_it_has(door, monkeypatch):
    replies = {}
    monkeypatch.setattr(type(door), "give", _noting(type(door).give, replies))
    asks(door, calls.Get("log", 1, 1 << 20, LONG), 1)
    assert len(door.told(PartedGet)) == 1
    asks(door, calls.CancelGet("log", 1), 2)
    assert replies == {1: Gathered(())}
    leave = CancelPartedGet("log/0", OperationId(CLIENT, 1))
    assert door.told(CancelPartedGet) == [leave]
    asks(door, calls.CancelGet("log", 1), 2)
    assert door.told(CancelPartedGet) == [leave]
    door.hear(N2, door.home("log/0", N2, ANCHOR + 1))
    assert door.told(CancelPartedGet) == [leave]
    door.hear(N2, PartedGetCancelled("log/0", OperationId(CLIENT, 1)))
    assert replies[2] == calls.GetCancelled()


def test_a_door_says_that_gets_left_whose_client_is_gone_and_asks_anew(door):
    asks(door, calls.Get("log", 1, 1 << 20, LONG), 1)
    door.told(PartedGet)
    door.give(Announced(Gone(CLIENT)))
    assert door.told(CancelPartedGet) == [
        CancelPartedGet("log/0", OperationId(CLIENT, 1), door.now)
    ]
    asks(door, calls.Get("log", 1, 1 << 20, LONG), 1)
    assert len(door.told(PartedGet)) == 1


def _noting(give, replies):
    def noted(self, event):
        handle = self.node.handle

        def heard(event, now):
            effects = handle(event, now)
            for one in effects:
                if type(one).__name__ == "Reply":
                    replies[one.operation.number] = one.message
            return effects

        self.node.handle = heard
        try:
            give(self, event)
        finally:
            self.node.handle = handle

    return noted
